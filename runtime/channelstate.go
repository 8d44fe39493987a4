package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// checkpointFiles is where a task writes its part of a checkpoint.
type checkpointFiles struct {
	target  backend.Target
	local   *localrecovery.Copy
	discard func()
}

func (t *task) begin(b *barrier) *checkpointFiles {
	f := &checkpointFiles{target: backend.Target{
		FS: b.pending.FS(), Dir: b.pending.Dir(), Shared: b.pending.SharedDir(), InlineBelow: b.inlineBelow,
	}}
	if t.run.x.o.Checkpoints.InlineOnly {
		f.target.FS, f.target.InlineBelow = noFiles{f.target.FS}, maxInline
	}
	if t.local != nil && !b.savepoint {
		f.local = t.local.Begin(b.id)
		f.target.FS = f.local.FS(f.target.FS)
		f.discard = func() { t.local.Discard(b.id) }
	}
	return f
}

// maxInline is the most of a state that stands in the metadata if all is to, in bytes (JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE).
const maxInline = 5 << 20

// ErrInlineSize says that a state is too large for the metadata, where all state is to be.
var ErrInlineSize = errors.New("a state of more than 5 MiB, where all state is to be in the metadata: " +
	"use the storage filesystem, with a backend other than jobmanager (execution.checkpointing.storage, state.backend.type; InlineOnly: false)")

// noFiles is a store in which nothing can be written.
type noFiles struct{ storage.FS }

func (noFiles) Create(context.Context, string, storage.CreateOptions) (storage.Writer, error) {
	return nil, ErrInlineSize
}

func (f *checkpointFiles) end(ctx context.Context, err error) {
	switch {
	case f.local == nil:
	case err != nil:
		f.discard()
	default:
		f.local.Seal(ctx)
	}
}

// write writes what was captured, and gives the handles and the number of bytes.
func (k *capture) write(ctx context.Context, subtask int, target backend.Target) ([]metadata.ChannelState, int64, error) {
	out := serializer.NewOutput(nil)
	var handles []metadata.ChannelState
	var contents [][]byte
	total := int64(0)
	for _, p := range k.parts {
		data, err := p.encode(out)
		if err != nil {
			return nil, 0, fmt.Errorf("channel %d:%d: %w", p.input, p.from, err)
		}
		if len(data) == 0 {
			continue
		}
		handles = append(handles, metadata.ChannelState{Subtask: int32(subtask), Group: int32(p.input), Channel: int32(p.from)})
		contents = append(contents, data)
		total += int64(len(data)) + 4
	}
	if err := backend.WriteChannels(ctx, target, handles, contents); err != nil {
		return nil, 0, err
	}
	return handles, total, nil
}

// decodeChannel reads the elements of a channel and gives each that goes by key to the subtask that has it now, others to target 0.
func decodeChannel[T any](x *exchange[T], route func(int, int) (func(T) (int, error), error), data []byte, maxParallelism, parallelism int, add func(int, item)) error {
	var to func(T) (int, error)
	if route != nil {
		var err error
		if to, err = route(maxParallelism, parallelism); err != nil {
			return err
		}
	}
	open := map[int]*batch[T]{}
	flush := func() {
		for target, b := range open {
			add(target, item{data: b})
		}
		clear(open)
	}
	var failed error
	err := x.decode(data, func(r Record[T]) {
		target := 0
		if to != nil {
			var err error
			if target, err = to(r.Value); err != nil {
				failed = err
				return
			}
		}
		b := open[target]
		if b == nil {
			b = &batch[T]{x: x, held: true}
			open[target] = b
		}
		b.records = append(b.records, r)
	}, func(it item) {
		flush()
		add(-1, it)
	})
	if err != nil {
		return err
	}
	flush()
	return failed
}

// readChannel gives the elements of a channel.
func readChannel(ctx context.Context, files backend.Files, h *metadata.ChannelState, each func(c *backend.Channel, data []byte) error) error {
	r, err := backend.OpenChannel(ctx, files, h, backend.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	var c *backend.Channel
	var data []byte
	total := int64(0) // no more than the file has, however often it is named
	for b, err := range r.Buffers(ctx) {
		if err != nil {
			return err
		}
		if total += int64(len(b.Data)) + 4; total > r.Size() {
			return fmt.Errorf("%s: buffers of more bytes than their file has: %w", b.Channel, serializer.ErrCorrupt)
		}
		if b.Channel != c && c != nil {
			if err := each(c, data); err != nil {
				return err
			}
			data = nil
		}
		c, data = b.Channel, append(data, b.Data...)
	}
	if c == nil {
		return nil
	}
	return each(c, data)
}
