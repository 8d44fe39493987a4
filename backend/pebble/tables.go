package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// database is what a handle of an incremental checkpoint has for the backend.
type database struct {
	h          *metadata.Incremental
	groups     keygroup.Range
	header     *backend.KeyedHeader
	states     []*backend.State
	descriptor descriptor
	version    *version // without tables that the backend has no part in
	tables     map[uint64]object
}

// object is a table in storage.
type object struct {
	stream metadata.Stream
	size   uint64 // in bytes, as the manifest says
}

// most is how many bytes of the descriptor and the manifest are read.
const mostDescriptor, mostManifest = 1 << 20, 1 << 30

// openDatabase reads what describes the tables of a handle. A file that is missing, or of another size than the manifest says, is an error.
func (b *Backend[K]) openDatabase(ctx context.Context, files backend.Files, h *metadata.Incremental) (*database, error) {
	d := &database{h: h, groups: h.KeyGroups.Range().Intersect(b.groups), tables: map[uint64]object{}}
	if h.KeyGroups.Start < 0 || h.KeyGroups.Range().End >= b.o.MaxParallelism {
		return nil, fmt.Errorf("key groups %s of %d: %w", h.KeyGroups.Range(), b.o.MaxParallelism, serializer.ErrCorrupt)
	}
	var err error
	if d.header, err = backend.ReadMeta(ctx, files, h); err != nil {
		return nil, err
	}
	for i := range d.header.States {
		d.states = append(d.states, backend.NewState(&d.header.States[i], d.header.Key))
	}
	for _, f := range h.Private {
		switch name := f.LocalName.String(); name {
		case descriptorFile:
			if err := readDescriptor(ctx, files, f.Stream, &d.descriptor, b.tuned); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		case manifestFile:
			data, err := files.ReadAll(ctx, f.Stream, mostManifest)
			if err == nil {
				d.version, err = readVersion(bytes.NewReader(data))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	switch {
	case d.version == nil:
		return nil, fmt.Errorf("%s is not among the files: %w", manifestFile, serializer.ErrCorrupt)
	case d.version.comparer != foreign:
		return nil, fmt.Errorf("%s: it is of a database with the order %q: %w", manifestFile, d.version.comparer, serializer.ErrCorrupt)
	}
	streams := map[string]metadata.Stream{}
	for _, f := range h.Shared {
		streams[f.LocalName.String()] = f.Stream
	}
	// A manifest that lost its end would be one of less state.
	if n := len(d.version.files()); n != len(h.Shared) || n != len(streams) {
		return nil, fmt.Errorf("%s: it has %d tables, and the checkpoint %d: %w", manifestFile, n, len(h.Shared), serializer.ErrCorrupt)
	}
	if err := d.version.inside(appendPrefix(nil, int(h.KeyGroups.Start), 0), appendPrefix(nil, h.KeyGroups.Range().End+1, 0)); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	d.version = d.version.clip(appendPrefix(nil, d.groups.Start, 0), after(appendPrefix(nil, d.groups.End, 1<<16-1)))
	for number, size := range d.version.files() {
		s, ok := streams[tableName(number)]
		if !ok {
			return nil, fmt.Errorf("table %s is not among the files: %w", tableName(number), serializer.ErrCorrupt)
		}
		d.tables[number] = object{s, size}
	}
	return d, nil
}

func readDescriptor(ctx context.Context, files backend.Files, s metadata.Stream, d *descriptor, o *pebble.Options) error {
	data, err := files.ReadAll(ctx, s, mostDescriptor)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, d); err != nil {
		return fmt.Errorf("%w: %w", serializer.ErrCorrupt, err)
	}
	switch {
	case d.Format != descriptorFormat:
		return fmt.Errorf("format %d, and only %d is known: %w", d.Format, descriptorFormat, serializer.ErrUnsupported)
	case d.Pebble > pebble.FormatNewest:
		return fmt.Errorf("a database of format %d of Pebble, and %d is the newest that is known: %w", d.Pebble, pebble.FormatNewest, serializer.ErrUnsupported)
	case d.Comparer != o.Comparer.Name || d.Merger != o.Merger.Name:
		return fmt.Errorf("keys in the order %q, lists merged by %q; here it is %q and %q: %w", d.Comparer, d.Merger, o.Comparer.Name, o.Merger.Name, serializer.ErrUnsupported)
	}
	return nil
}

// bytes is the size of the tables.
func (d *database) bytes() (n uint64) {
	for _, t := range d.tables {
		n += t.size
	}
	return n
}

// alike says whether the states of two databases have the same numbers, as far as both have them.
func (d *database) alike(other *database) bool {
	n := min(len(d.states), len(other.states))
	return slices.EqualFunc(d.states[:n], other.states[:n], func(a, b *backend.State) bool {
		return a.Meta.Name == b.Meta.Name && backend.SameState(a, b) == nil
	})
}

// restoreTables makes the database of the backend of the files of other ones, without reading their entries: they are linked or copied, a manifest
// puts them together, and what is not of the backend's key groups is cut off. Entries are read only of databases whose
// states have other numbers; what takes them is called with each.
func (b *Backend[K]) restoreTables(ctx context.Context, files backend.Files, handles []*metadata.Incremental, begin func() *ingest) error {
	var all, odd []*database
	for _, h := range handles {
		d, err := b.openDatabase(ctx, files, h)
		if err != nil {
			return fmt.Errorf("key groups %s: %w", h.KeyGroups.Range(), err)
		}
		all = append(all, d)
	}
	// The database with most bytes numbers the states, and of those that number them alike the one that has most.
	largest := slices.MaxFunc(all, func(x, y *database) int { return cmp.Compare(x.bytes(), y.bytes()) })
	first := largest
	for _, d := range all {
		if len(d.states) > len(first.states) && d.alike(largest) {
			first = d
		}
	}
	all = slices.DeleteFunc(all, func(d *database) bool {
		if d.alike(first) {
			return false
		}
		odd = append(odd, d)
		return true
	})
	if err := b.checkStates(first); err != nil {
		return err
	}
	dir := filepath.Join(b.o.Dir, "restore")
	defer func() { _ = os.RemoveAll(dir) }()
	objects, err := b.stage(ctx, files, dir, all)
	if err != nil {
		return err
	}
	if err := b.reopen(dir, first, all); err != nil {
		return err
	}
	if err := b.cut(ctx, all); err != nil {
		return err
	}
	if err := b.takeStates(first); err != nil {
		return err
	}
	for i, d := range odd {
		if err := b.restoreEntries(ctx, files, filepath.Join(b.o.Dir, fmt.Sprintf("restore-%d", i)), d, begin()); err != nil {
			return fmt.Errorf("key groups %s: %w", d.h.KeyGroups.Range(), err)
		}
	}
	b.tracker.Restored(first.h.CheckpointID, objects)
	return nil
}

// checkStates checks that the states of a database can be those of the backend.
func (b *Backend[K]) checkStates(d *database) error {
	if len(d.states) == 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, s := range d.states {
		name := s.Meta.Name
		if seen[name] {
			return fmt.Errorf("state %q is there twice: %w", name, serializer.ErrCorrupt)
		}
		seen[name] = true
		if err := backend.SameKeys(b.key, s.Parts().Key); err != nil {
			return fmt.Errorf("state %q: %w", name, err)
		}
		if no, ok := b.byName[name]; ok {
			if _, err := b.states[no].parts.migrate(b.states[no].state, s); err != nil {
				return fmt.Errorf("state %q: %w", name, err)
			}
		}
	}
	return nil
}

// stage puts the files of databases into a directory, with a manifest that has all of them. It gives their objects.
func (b *Backend[K]) stage(ctx context.Context, files backend.Files, dir string, all []*database) (map[string]metadata.Stream, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	v := &version{comparer: b.tuned.Comparer.Name, nextFile: 1, backings: map[uint64]uint64{}}
	objects := map[string]metadata.Stream{}
	format := pebble.FormatMinSupported
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(or(b.o.Transfers, DefaultTransfers))
	for _, d := range all {
		format = max(format, d.descriptor.Pebble)
		for old, number := range v.merge(d.version) {
			name := tableName(number)
			table := d.tables[old]
			objects[name] = absolute(files, table.stream)
			group.Go(func() error {
				if err := fetch(groupCtx, files, table, filepath.Join(dir, name), b.o.Logger); err != nil {
					return fmt.Errorf("table %s of key groups %s: %w", tableName(old), d.h.KeyGroups.Range(), err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	return objects, writeDatabase(dir, v, format)
}

// writeDatabase writes what Pebble needs beside tables to open a directory.
func writeDatabase(dir string, v *version, format pebble.FormatMajorVersion) error {
	manifest := fmt.Sprintf("MANIFEST-%06d", v.nextFile)
	v.nextFile++
	f, err := os.Create(filepath.Join(dir, manifest))
	if err != nil {
		return err
	}
	if err := errors.Join(v.write(f), f.Close()); err != nil {
		return err
	}
	for _, m := range [][2]string{{"manifest", manifest}, {"format-version", format.String()}} {
		marker, _, err := atomicfs.LocateMarker(vfs.Default, dir, m[0])
		if err != nil {
			return err
		}
		if err := errors.Join(marker.Move(m[1]), marker.Close()); err != nil {
			return err
		}
	}
	return nil
}

// absolute gives a handle that is valid in the metadata of another checkpoint, too.
func absolute(files backend.Files, s metadata.Stream) metadata.Stream {
	if r, ok := s.(*metadata.RelativeFile); ok {
		return &metadata.File{Path: metadata.Text(storage.Join(files.Dir, r.Path.String())), Size: r.Size}
	}
	return s
}

// fetch makes a local file of an object: a hard link if there is a local copy of it.
func fetch(ctx context.Context, files backend.Files, o object, path string, log *slog.Logger) error {
	if f, ok := absolute(files, o.stream).(*metadata.File); ok {
		if l, ok := files.FS.(storage.Locator); ok {
			if local, ok := l.Locate(ctx, f.Path.String()); ok {
				info, err := os.Stat(local)
				if err == nil && info.Size() != int64(o.size) {
					err = fmt.Errorf("%d bytes where %d are expected", info.Size(), o.size)
				}
				if err == nil {
					err = os.Link(local, path)
				}
				if err == nil {
					return nil
				}
				if log != nil {
					log.Debug("the local copy of a table can't be linked", "file", local, "error", err)
				}
			}
		}
	}
	obj, err := files.Open(ctx, o.stream)
	if err != nil {
		return err
	}
	defer func() { _ = obj.Close() }()
	if n := obj.Size(); n != int64(o.size) {
		return fmt.Errorf("%d bytes, and %d in the manifest: %w", n, o.size, serializer.ErrCorrupt)
	}
	r, err := obj.Reader(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, contextReader{ctx, r}, make([]byte, 256<<10))
	if err == nil && n != int64(o.size) {
		err = fmt.Errorf("%d bytes came of %d: %w", n, o.size, io.ErrUnexpectedEOF)
	}
	return errors.Join(err, w.Close())
}

// reopen gives the backend the database that is in dir.
func (b *Backend[K]) reopen(dir string, first *database, all []*database) error {
	for i := range b.states {
		if s := b.states[i].sweep; s != nil {
			s.stop()
		}
	}
	b.share.opened(nil)
	b.metrics.show(nil)
	b.outdated()
	err := b.db.Close()
	b.db = nil // Close closes it no more
	if err != nil {
		return err
	}
	old, err := os.ReadDir(b.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range old {
		if path := filepath.Join(b.o.Dir, e.Name()); path != dir {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	staged, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range staged {
		if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(b.o.Dir, e.Name())); err != nil {
			return err
		}
	}
	b.renumber(first)
	// What a filter lacks, it lacks for good.
	for _, d := range all {
		for _, no := range d.descriptor.NoFilter {
			b.filter.leaveOut(no)
		}
	}
	if b.db, err = pebble.Open(b.o.Dir, b.tuned); err != nil {
		return fmt.Errorf("%s: %w", b.o.Dir, err)
	}
	b.share.opened(b.db)
	b.metrics.show(b.db)
	return nil
}

// renumber gives the states the numbers that they have in the tables.
func (b *Backend[K]) renumber(d *database) {
	opened := b.states
	b.states, b.byName = nil, map[string]int{}
	add := func(s slot) {
		no := len(b.states)
		b.states = append(b.states, s)
		b.byName[s.state.Meta.Name] = no
		if s.number != nil {
			*s.number = no
		}
		if s.sweep != nil {
			s.sweep.renumber(no)
		}
	}
	for no, state := range d.states {
		if i := slices.IndexFunc(opened, func(s slot) bool { return s.state.Meta.Name == state.Meta.Name }); i >= 0 {
			add(opened[i])
		} else {
			add(slot{state: state, moved: slices.Contains(d.descriptor.HeapTimers, no)})
		}
	}
	for _, s := range opened {
		if _, ok := b.byName[s.state.Meta.Name]; !ok {
			add(s)
		}
	}
	b.filter.without.Store(nil)
	for no := range b.states {
		b.configure(no, b.states[no].state.Meta.Name)
	}
	b.version++ // no state has its key ready
}

// cut takes what is not of the backend's key groups out of the tables.
func (b *Backend[K]) cut(ctx context.Context, all []*database) error {
	for _, d := range all {
		r := d.h.KeyGroups.Range()
		for _, out := range []keygroup.Range{{Start: r.Start, End: min(r.End, d.groups.Start-1)}, {Start: max(r.Start, d.groups.End+1), End: r.End}} {
			if out.Empty() {
				continue
			}
			if err := b.db.Excise(ctx, pebble.KeyRange{Start: appendPrefix(nil, out.Start, 0), End: appendPrefix(nil, out.End+1, 0)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeStates has the states that are open already take the entries as they are in the tables.
func (b *Backend[K]) takeStates(d *database) error {
	for no, was := range d.states {
		if b.onHeap(no) {
			if err := b.toHeap(no); err != nil {
				return err
			}
		}
		is := b.states[no]
		if !is.opened {
			continue
		}
		m, err := is.parts.migrate(is.state, was)
		if err == nil && m != nil {
			b.states[no] = slot{state: was}
			if b.onHeap(no) {
				err = b.rewriteHeap(no, m)
			} else {
				err = b.rewrite(no, m)
			}
			b.states[no] = is
		}
		if err != nil {
			return fmt.Errorf("state %q: %w", was.Meta.Name, err)
		}
	}
	return nil
}

// toHeap takes the timers of a queue out of the database.
func (b *Backend[K]) toHeap(no int) error {
	for g := b.groups.Start; g <= b.groups.End; g++ {
		prefix := appendPrefix(nil, g, no)
		it, err := b.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			return err
		}
		found := false
		for ok := it.First(); ok; ok = it.Next() {
			b.timers.Insert(string(it.Key()))
			found = true
		}
		if err := it.Close(); err != nil {
			return err
		}
		if found {
			if err := b.deleteRange(prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreEntries reads the entries of a database whose states have other numbers.
func (b *Backend[K]) restoreEntries(ctx context.Context, files backend.Files, dir string, d *database, in *ingest) error {
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := b.stage(ctx, files, dir, []*database{d}); err != nil {
		return err
	}
	o := &pebble.Options{ReadOnly: true, Merger: b.tuned.Merger, FormatMajorVersion: pebble.FormatNewest, Logger: logger{b.o.Logger}, Cache: b.tuned.Cache, FileCache: b.tuned.FileCache}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	targets := make([]*target, len(d.states))
	for i, s := range d.states {
		if targets[i], err = b.target(s); err != nil {
			return fmt.Errorf("state %q: %w", s.Meta.Name, err)
		}
	}
	it, err := db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: appendPrefix(nil, d.groups.Start, 0), UpperBound: appendPrefix(nil, d.groups.End+1, 0)})
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := it.Key()
		if len(key) < prefixLen || int(binary.BigEndian.Uint16(key[2:])) >= len(d.states) {
			return fmt.Errorf("key %x is of no state: %w", key, serializer.ErrCorrupt)
		}
		no := int(binary.BigEndian.Uint16(key[2:]))
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		e := &backend.Entry{State: d.states[no], KeyGroup: int(binary.BigEndian.Uint16(key))}
		if err := e.SetStored(key[prefixLen:], value); err != nil {
			return fmt.Errorf("state %q: %w", d.states[no].Meta.Name, err)
		}
		if b.onHeap(targets[no].no) {
			err = b.takeHeap(targets[no], e)
		} else {
			err = in.take(ctx, targets[no], e)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// split gives the handles of incremental checkpoints of this package, and the others. None may have key groups in common with another.
func split(h backend.Handles) (own []*metadata.Incremental, rest backend.Handles, err error) {
	rest.Raw = h.Raw
	var seen []keygroup.Range
	for _, k := range h.Managed {
		if r, ok := metadata.KeyGroupsOf(k); ok {
			for _, other := range seen {
				if common := r.Intersect(other); !common.Empty() {
					return nil, rest, fmt.Errorf("key groups %v are in two handles: %w", common, serializer.ErrCorrupt)
				}
			}
			seen = append(seen, r)
		}
		if i, ok := k.(*metadata.Incremental); ok && backend.IsPebble(i) {
			own = append(own, i)
		} else {
			rest.Managed = append(rest.Managed, k)
		}
	}
	return own, rest, nil
}
