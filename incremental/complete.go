package incremental

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// complete makes a pending checkpoint that has ended a completed one. The turn is held.
func (c *Checkpoints) complete(ctx context.Context, p *Pending, files map[string]*written, s *metadata.Snapshot) (Completed, error) {
	v, err := c.validate(p, files, s)
	if err != nil {
		return Completed{}, c.failed(p, files, err)
	}
	uri := storage.Join(p.dir, metadata.FileName)
	registry := c.registry
	if p.savepoint {
		registry = NewRegistry(Options{})
	}
	id, err := registry.Add(uri, v.snapshot)
	if err != nil {
		return Completed{}, c.failed(p, files, err)
	}
	size, count := registry.size(id)
	if err := c.writeMetadata(ctx, uri, v.data); err != nil {
		return Completed{}, c.unwritten(p, files, v, uri, id, err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	d := Completed{
		ID: p.id, URI: uri, Dir: p.dir, Time: time.Now(), Full: !v.shares, CheckpointedSize: sum(v.written, int64(len(v.data))),
		FullSize: sum(size, int64(len(v.data))), Files: count,
	}
	delete(c.pending, p.id)
	for key, f := range files {
		if !v.named[key] {
			c.discard(f.uri) // a part of the job wrote it in vain
		}
	}
	if p.savepoint {
		return d, nil
	}
	c.registered(p, &retained{Completed: d, snapshot: id}, v.shares)
	return d, nil
}

// registered notes a checkpoint that completed, and what that is the end of. c.mu is held.
func (c *Checkpoints) registered(p *Pending, r *retained, shares bool) {
	c.retained = append(c.retained, r)
	c.latest, c.floor = &r.Completed, r.ID
	for n := range c.used {
		if n <= c.floor {
			delete(c.used, n)
		}
	}
	for _, older := range c.pending {
		if older.id < p.id {
			if older.savepoint {
				continue
			}
			c.drop(older, ErrSubsumed)
		}
	}
	if !shares && c.rebase < p.began {
		c.rebase = 0
	}
	c.clock++
	for len(c.retained) > c.o.Retain {
		c.doom(&doomed{snapshot: c.retained[0].snapshot, registered: true, uri: c.retained[0].URI, dir: c.retained[0].Dir, whole: c.retained[0].whole, at: c.clock})
		c.retained = c.retained[1:]
	}
}

// failed marks the files of a checkpoint that can't complete for deletion, and gives err with its number.
func (c *Checkpoints) failed(p *Pending, files map[string]*written, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(p, files)
	return err
}

// unwritten is failed for a checkpoint whose metadata may be there though it could not be written. As long as that
// is not sure, it counts as a checkpoint, so that it has all its files if a later process finds it.
func (c *Checkpoints) unwritten(p *Pending, files map[string]*written, v *validated, uri string, id SnapshotID, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &doomed{snapshot: id, registered: !p.savepoint, uri: uri, dir: p.dir, at: c.clock, doubtful: v.data}
	for key, f := range files {
		if v.named[key] {
			d.files = append(d.files, f.uri)
			delete(files, key)
		}
	}
	c.forget(p, files)
	c.doom(d)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("another process uses the same directory: %w", err)
	}
	return err
}

// writeMetadata writes a metadata file. One with the same content that is there already is the one that was to be written, by
// an attempt whose answer was lost.
func (c *Checkpoints) writeMetadata(ctx context.Context, uri string, data []byte) error {
	err := storage.WriteFile(ctx, c.fs, uri, data, storage.CreateOptions{})
	if errors.Is(err, fs.ErrExist) {
		if ours, rerr := c.holds(ctx, uri, data); rerr == nil && ours {
			return nil
		}
	}
	return err
}

// holds says that an object has just these bytes.
func (c *Checkpoints) holds(ctx context.Context, uri string, data []byte) (bool, error) {
	there, err := storage.ReadAll(ctx, c.fs, uri, int64(len(data)))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, storage.ErrTooLarge):
		return false, nil
	case err != nil:
		return false, err
	}
	return bytes.Equal(there, data), nil
}

// validated is a snapshot that may be written.
type validated struct {
	snapshot *metadata.Snapshot
	data     []byte
	named    map[string]bool // files that were written for it, by key
	written  int64           // their bytes
	shares   bool
}

// validate checks that a snapshot has all the files that it names, and that they will stay.
func (c *Checkpoints) validate(p *Pending, files map[string]*written, s *metadata.Snapshot) (*validated, error) {
	if s.CheckpointID != p.id {
		return nil, fmt.Errorf("the snapshot is that of checkpoint %d", s.CheckpointID)
	}
	if s.Version >= metadata.Version4 && len(s.Properties) == 0 && !p.savepoint {
		with := *s
		with.Properties = metadata.PropertiesOf(metadata.KindCheckpoint)
		s = &with
	}
	if kind := s.Properties.Info().Kind; kind != metadata.KindUnknown && kind.Savepoint() != p.savepoint {
		return nil, fmt.Errorf("the snapshot's properties are those of a %s", kind)
	}
	v := &validated{snapshot: s, named: map[string]bool{}}
	taskOwned := c.registry.Key(storage.Join(c.dir, taskOwnedName))
	for ref := range s.Refs() {
		if ref.Kind == metadata.RefDirectory {
			continue
		}
		uri := ref.Path
		if ref.Kind == metadata.RefRelative {
			uri = storage.Join(p.dir, uri)
		}
		key := c.registry.Key(uri)
		if f := files[key]; f != nil && f.committed {
			if f.size >= 0 && !fits(ref, f.size) {
				return nil, fmt.Errorf("%s: %s has %d bytes, not %d", ref.Field(), uri, f.size, ref.Start+ref.Size)
			}
			if !v.named[key] {
				v.named[key] = true
				v.written = sum(v.written, max(f.size, 0))
			}
			continue
		}
		if _, ok := storage.Rel(taskOwned, key); ok && !p.savepoint {
			continue // a task owns it, and keeps it as long as it wants
		}
		v.shares = true
		if p.adopts {
			c.mu.Lock()
			owned := c.owns(key)
			c.mu.Unlock()
			if owned {
				return nil, fmt.Errorf("%s: %s is no file of a savepoint: %w", ref.Field(), uri, ErrLost)
			}
			continue
		}
		if p.full {
			return nil, fmt.Errorf("%s: %s was not written for it, and it may share nothing: take the snapshot with Rebase", ref.Field(), uri)
		}
		if !c.keeps(p, key) {
			return nil, fmt.Errorf("%s: %s: %w", ref.Field(), uri, ErrLost)
		}
	}
	var err error
	v.data, err = metadata.Encode(s)
	return v, err
}
