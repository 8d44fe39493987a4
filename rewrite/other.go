package rewrite

import (
	"context"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// copyStream copies a stream into the target.
func (x *execution) copyStream(ctx context.Context, s metadata.Stream) (metadata.Stream, error) {
	obj, err := x.src.Files.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = obj.Close() }() // it was only read
	if n, ok := sizeOf(s); ok && n != obj.Size() {
		return nil, fmt.Errorf("%s: it has %d bytes, the metadata says %d: %w", nameOf(s), obj.Size(), n, serializer.ErrCorrupt)
	}
	r, err := obj.Reader(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	out := x.target.Create(ctx)
	defer out.Abort()
	n, err := io.Copy(out, &told{r, x.progress})
	if err == nil && n != obj.Size() {
		err = fmt.Errorf("%d bytes of %d: %w", n, obj.Size(), io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, err
	}
	return out.Commit()
}

// sizeOf gives the size that the metadata says a file has, or that of inline data.
func sizeOf(s metadata.Stream) (int64, bool) {
	switch s := s.(type) {
	case *metadata.ByteStream:
		return int64(len(s.Data)), true
	case *metadata.File:
		return s.Size, s.Size >= 0
	case *metadata.RelativeFile:
		return s.Size, s.Size >= 0
	}
	return 0, false
}

func nameOf(s metadata.Stream) string {
	switch s := s.(type) {
	case *metadata.File:
		return s.Path.String()
	case *metadata.RelativeFile:
		return s.Path.String()
	}
	return "state"
}

// told tells of the bytes that are read.
type told struct {
	io.Reader
	progress func(int64)
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.progress(int64(n))
	return n, err
}

// copiesAtOnce is how many files of a handle are copied at once: a store takes its time for each.
const copiesAtOnce = 8

// copyKeyed copies a handle of keyed state with its files as they are.
func (x *execution) copyKeyed(ctx context.Context, op *OperatorPlan, h *handle, t *metadata.Operator) error {
	k, err := x.copied(ctx, op, h)
	if err != nil {
		return fmt.Errorf("subtask %d: %w", h.subtask, err)
	}
	state := t.Subtasks[h.subtask].State
	if h.isRaw {
		state.RawKeyed = k
	} else {
		state.ManagedKeyed = k
	}
	return nil
}

func (x *execution) copied(ctx context.Context, op *OperatorPlan, h *handle) (metadata.Keyed, error) {
	switch k := h.keyed.(type) {
	case *metadata.KeyGroups:
		delegate, err := x.copyStream(ctx, k.Delegate)
		if err != nil {
			return nil, err
		}
		c := &metadata.KeyGroups{Form: metadata.KeyGroupsV2, KeyGroupOffsets: k.KeyGroupOffsets, Delegate: delegate, ID: backend.NewHandleID()}
		if op.Format == Canonical && !h.isRaw {
			c.Form, c.ID = metadata.KeyGroupsSavepoint, ""
		}
		return c, nil
	case *metadata.Incremental:
		c := *k
		c.V1, c.ID = false, backend.NewHandleID()
		c.Shared, c.Private = slices.Clone(c.Shared), slices.Clone(c.Private)
		eg, ctx := errgroup.WithContext(ctx)
		eg.SetLimit(copiesAtOnce)
		one := func(name string, s *metadata.Stream) {
			eg.Go(func() (err error) {
				if *s, err = x.copyStream(ctx, *s); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			})
		}
		one("meta", &c.Meta)
		for _, list := range [][]metadata.LocalFile{c.Shared, c.Private} {
			for i := range list {
				one(list[i].LocalName.String(), &list[i].Stream)
			}
		}
		if err := eg.Wait(); err != nil {
			return nil, err
		}
		c.CheckpointedSize = fileBytes(&c)
		return &c, nil
	}
	return nil, fmt.Errorf("a handle of type %T can't be copied as it is", h.keyed)
}

// rawTasks gives the tasks that carry raw keyed state that is no timers: the bytes of each key group, as they are.
func (x *execution) rawTasks(op *OperatorPlan, t *metadata.Operator) []task {
	if len(op.raw) == 0 {
		return nil
	}
	var tasks []task
	for i := range t.Subtasks {
		groups := rangeOf(t, i)
		var from []*handle
		for _, h := range op.raw {
			if !h.groups.Intersect(groups).Empty() {
				from = append(from, h)
			}
		}
		if len(from) > 0 {
			tasks = append(tasks, func(ctx context.Context, _ int) error { return x.writeRaw(ctx, op, from, groups, &t.Subtasks[i]) })
		}
	}
	return tasks
}

func (x *execution) writeRaw(ctx context.Context, op *OperatorPlan, from []*handle, groups keygroup.Range, sub *metadata.Subtask) error {
	if sub.State == nil {
		return fmt.Errorf("subtask %d had finished, but there is raw keyed state of its key groups %v", sub.Index, groups)
	}
	out := x.target.Create(ctx)
	defer out.Abort()
	offsets := metadata.KeyGroupOffsets{Start: int32(groups.Start), Offsets: make([]int64, groups.Len())}
	for i := range offsets.Offsets {
		offsets.Offsets[i] = -1 // nothing was written
	}
	for _, h := range from {
		r, err := h.open(ctx, x, op)
		if err != nil {
			return err
		}
		defer h.close()
		for e, err := range r.Entries(ctx, backend.Filter{KeyGroups: []keygroup.Range{groups}}) {
			if err != nil {
				return fmt.Errorf("subtask %d: raw keyed state: %w", h.subtask, err)
			}
			if o := &offsets.Offsets[e.KeyGroup-groups.Start]; *o < 0 {
				*o = out.Size()
			}
			if _, err := out.Write(e.Value); err != nil {
				return err
			}
		}
	}
	delegate, err := out.Commit()
	if err != nil {
		return err
	}
	sub.State.RawKeyed = &metadata.KeyGroups{Form: metadata.KeyGroupsV2, KeyGroupOffsets: offsets, Delegate: delegate, ID: backend.NewHandleID()}
	return nil
}

// channelTasks gives the task that carries records in flight: the files as they are. Several handles may be in one file.
func (x *execution) channelTasks(op *OperatorPlan, t *metadata.Operator) []task {
	if !op.channels {
		return nil
	}
	return []task{func(ctx context.Context, _ int) error {
		for _, sub := range op.Source.Subtasks {
			if sub.State == nil {
				continue
			}
			to := t.Subtasks[sub.Index].State
			for _, list := range []struct {
				from []metadata.ChannelState
				to   *[]metadata.ChannelState
			}{{sub.State.InputChannels, &to.InputChannels}, {sub.State.OutputChannels, &to.OutputChannels}} {
				for _, c := range list.from {
					delegate, err := x.shared(ctx, c.Delegate)
					if err != nil {
						return fmt.Errorf("subtask %d: records in flight: %w", sub.Index, err)
					}
					c.Delegate = delegate
					*list.to = append(*list.to, c)
				}
			}
		}
		return nil
	}}
}

// shared copies a stream that others may name, too, once.
func (x *execution) shared(ctx context.Context, s metadata.Stream) (metadata.Stream, error) {
	var id string
	switch s := s.(type) {
	case *metadata.File:
		id = "file " + s.Path.String()
	case *metadata.RelativeFile:
		id = "relative " + s.Path.String()
	case *metadata.Segment:
		id = fmt.Sprintf("segment %d %d %s", s.Start, s.Size, s.Path)
	default:
		return x.copyStream(ctx, s)
	}
	x.copiesMu.Lock()
	defer x.copiesMu.Unlock() // while it is copied, so that nobody copies it again
	if c := x.copies[id]; c != nil {
		return c, nil
	}
	c, err := x.copyStream(ctx, s)
	if err == nil {
		x.copies[id] = c
	}
	return c, err
}

// mostCoordinator is the largest state of a coordinator that is carried, in bytes.
const mostCoordinator = 256 << 20

// coordinatorTasks gives the task that carries the state of the operator's coordinator.
func (x *execution) coordinatorTasks(op *OperatorPlan, t *metadata.Operator) []task {
	if op.Source.Coordinator == nil {
		return nil
	}
	return []task{func(ctx context.Context, _ int) (err error) {
		defer func() {
			if err != nil {
				err = fmt.Errorf("coordinator: %w", err)
			}
		}()
		data, err := x.src.Files.ReadAll(ctx, op.Source.Coordinator, mostCoordinator)
		if err != nil {
			return err
		}
		if op.t.Coordinator != nil {
			if data, err = op.t.Coordinator(data); err != nil {
				return err
			}
		}
		// It always stands in the metadata.
		t.Coordinator = &metadata.ByteStream{Name: backend.NewHandleID(), Data: data}
		return nil
	}}
}

// fileBytes is the size of a handle's files.
func fileBytes(h *metadata.Incremental) (n int64) {
	n, _ = sizeOf(h.Meta)
	for _, f := range slices.Concat(h.Shared, h.Private) {
		size, _ := sizeOf(f.Stream)
		n += size
	}
	return n
}
