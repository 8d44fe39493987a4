package heap

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

// snapshot is the state of a backend as it was.
type snapshot struct {
	header   backend.KeyedHeader
	tables   []frozenTable
	groups   keygroup.Range
	o        backend.StateFilesOptions
	released []bool // by key group
	hold     *backend.Hold
}

// Snapshot is that of [backend.Keyed].
func (b *Backend[K]) Snapshot(checkpoint int64, o backend.SnapshotOptions) (backend.Snapshot, error) {
	switch {
	case b.closed:
		return nil, backend.ErrClosed
	case o.Format > backend.FormatIncremental:
		return nil, fmt.Errorf("format %d: not known", o.Format)
	}
	s := &snapshot{
		header: backend.KeyedHeader{Version: backend.KeyedVersion, Compressed: o.Compress, Key: b.key.Snapshot(), States: b.States()},
		groups: b.groups, released: make([]bool, b.groups.Len()),
	}
	s.o = backend.StateFilesOptions{
		Header: &s.header, KeyGroups: b.groups, MaxParallelism: b.o.MaxParallelism, Checkpoint: checkpoint, MaxSize: b.o.MaxSize, SnapshotOptions: o,
	}
	s.hold = backend.NewHold(s.releaseAll)
	for i := range b.states {
		if b.states[i].table != nil {
			s.tables = append(s.tables, b.states[i].table.freeze())
		} else {
			s.tables = append(s.tables, b.states[i].raw)
		}
	}
	return s, nil
}

// Raw is that of [backend.Snapshot]; there is none.
func (s *snapshot) Raw() metadata.Keyed { return nil }

// Release is that of [backend.Snapshot].
func (s *snapshot) Release() { s.hold.Release() }

func (s *snapshot) releaseAll() {
	for g := range s.released {
		s.release(g)
	}
}

// release lets go of a key group.
func (s *snapshot) release(group int) {
	if s.released[group] {
		return
	}
	s.released[group] = true
	for _, t := range s.tables {
		t.release(group)
	}
}

// Write is that of [backend.Snapshot].
func (s *snapshot) Write(ctx context.Context, t backend.Target) (metadata.Keyed, error) {
	return s.hold.Write(ctx, func(ctx context.Context) (metadata.Keyed, error) { return s.write(ctx, t) })
}

func (s *snapshot) write(ctx context.Context, t backend.Target) (metadata.Keyed, error) {
	if len(s.tables) == 0 {
		return nil, nil
	}
	if s.o.Format == backend.FormatFull || s.o.Format == backend.FormatIncremental {
		stream := t.Create(ctx)
		defer stream.Abort()
		offsets, err := s.writeNative(ctx, stream)
		if err != nil {
			return nil, err
		}
		return backend.CommitKeyGroups(stream, offsets, metadata.KeyGroupsV2)
	}
	files, err := backend.NewStateFiles(ctx, t, s.o)
	if err != nil {
		return nil, err
	}
	defer files.Abort()
	if err := s.writeSorted(ctx, files); err != nil {
		return nil, err
	}
	return files.Commit()
}

func (s *snapshot) writeNative(ctx context.Context, stream *backend.TargetStream) (metadata.KeyGroupOffsets, error) {
	w := backend.NewHeapWriter(stream, &s.header, s.groups)
	for g := range s.groups.Len() {
		if err := ctx.Err(); err != nil {
			return metadata.KeyGroupOffsets{}, err
		}
		if err := w.StartKeyGroup(s.groups.Start + g); err != nil {
			return metadata.KeyGroupOffsets{}, err
		}
		for i, t := range s.tables {
			if err := w.StartState(i, -1); err != nil {
				return metadata.KeyGroupOffsets{}, err
			}
			if err := t.native(g, w); err != nil {
				return metadata.KeyGroupOffsets{}, err
			}
		}
		s.release(g)
	}
	offsets, _, err := w.Close()
	return offsets, err
}

// writeSorted sorts the entries of a key group, so that the bytes depend on the content only and a backend
// with ordered keys can take them up as they come. The next key groups are sorted while one is written.
func (s *snapshot) writeSorted(ctx context.Context, w backend.StateFiles) error {
	sorted := make(chan chan *sortedGroup, runtime.GOMAXPROCS(0))
	spare := make(chan *sortedGroup, cap(sorted)+2)
	eg, ctx := errgroup.WithContext(ctx)
	eg.Go(func() error {
		defer close(sorted)
		workers, ctx := errgroup.WithContext(ctx)
		workers.SetLimit(cap(sorted))
		for g := range s.groups.Len() {
			done := make(chan *sortedGroup, 1)
			select {
			case sorted <- done:
			case <-ctx.Done():
				return cmp.Or(workers.Wait(), ctx.Err())
			}
			workers.Go(func() error {
				var group *sortedGroup
				select {
				case group = <-spare:
				default:
					group = new(sortedGroup)
				}
				err := group.fill(s.tables, g)
				if err == nil {
					done <- group
				}
				return err
			})
		}
		return workers.Wait()
	})
	eg.Go(func() error {
		g := s.groups.Start
		for done := range sorted {
			select {
			case group := <-done:
				if err := group.write(w, g); err != nil {
					return err
				}
				s.release(g - s.groups.Start)
				g++
				select {
				case spare <- group:
				default:
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return ctx.Err()
	})
	return eg.Wait()
}

// sortedGroup holds the entries of a key group, sorted by their keys within each state.
type sortedGroup struct {
	arena  []byte
	items  []sortedItem
	ends   []int // by state: index behind its last item
	sorter sorter
}

func (s *sortedGroup) fill(tables []frozenTable, group int) error {
	s.arena, s.items, s.ends = s.arena[:0], s.items[:0], s.ends[:0]
	for _, t := range tables {
		from := len(s.items)
		err := t.entries(group, func(key, value []byte) bool {
			at := len(s.arena)
			s.arena = append(append(s.arena, key...), value...)
			s.items = append(s.items, sortedItem{prefix(key), at, at + len(key), len(s.arena)})
			return true
		})
		if err != nil {
			return err
		}
		s.sorter.sort(s.arena, s.items[from:])
		s.ends = append(s.ends, len(s.items))
	}
	return nil
}

func (s *sortedGroup) write(w backend.StateFiles, group int) error {
	if err := w.StartKeyGroup(group); err != nil {
		return err
	}
	from := 0
	for state, end := range s.ends {
		for _, i := range s.items[from:end] {
			if err := w.Entry(state, s.arena[i.at:i.key], s.arena[i.key:i.end]); err != nil {
				return err
			}
		}
		from = end
	}
	return nil
}
