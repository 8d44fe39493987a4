package tools

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// DumpOptions are the options of [DumpRaw]; the zero value is the default.
type DumpOptions struct {
	// InlineLimit is how many bytes of inline data are written in hex; the
	// length and SHA-256 are always there. Negative means all.
	InlineLimit int
}

// DumpRaw writes the tree of a metadata file to w as one JSON document, piece
// by piece, so that a large tree does not need its size in memory once more.
// Text is decoded; where the file's bytes are not plain UTF-8, they follow in
// hex in a field with "RawHex" after its name. It returns how the snapshot was found, see [Snapshot].
func DumpRaw(ctx context.Context, fsys storage.FS, arg string, w io.Writer, o DumpOptions) (chosen string, err error) {
	s, err := Open(ctx, fsys, arg)
	if err != nil {
		return "", err
	}
	b := bufio.NewWriterSize(w, 64<<10)
	d := &dumper{jsonWriter: jsonWriter{w: b}, limit: o.InlineLimit}
	d.snapshot(s)
	if err := b.Flush(); err != nil {
		return "", err
	}
	return s.Chosen, nil
}

// dumper writes a metadata tree; fields have the names of package metadata.
type dumper struct {
	jsonWriter
	limit int
}

// text writes a string, and its raw bytes where decoding changed them.
func (d *dumper) text(name string, t metadata.Text) {
	decoded := t.String()
	d.str(name, decoded)
	if decoded != string(t) || !plain(decoded) {
		d.str(name+"RawHex", hex.EncodeToString([]byte(t)))
	}
}

// plain says that s goes through JSON unchanged.
func plain(s string) bool {
	for _, r := range s {
		if r == '\uFFFD' {
			return false
		}
	}
	return true
}

// data writes inline bytes.
func (d *dumper) data(name string, b []byte) {
	d.open(name, '{')
	d.int("length", int64(len(b)))
	sum := sha256.Sum256(b)
	d.str("sha256", hex.EncodeToString(sum[:]))
	shown := b
	if d.limit >= 0 && len(b) > d.limit {
		shown = b[:d.limit]
	}
	if len(shown) > 0 || len(b) == 0 {
		d.str("hex", hex.EncodeToString(shown))
	}
	if len(shown) < len(b) {
		d.bool("cut", true)
	}
	d.close('}')
}

// list writes a list, which is left out if it is empty.
func list[T any](d *dumper, name string, items []T, write func(*T)) {
	if len(items) == 0 {
		return
	}
	d.open(name, '[')
	for i := range items {
		write(&items[i])
	}
	d.close(']')
}

func (d *dumper) snapshot(s *Snapshot) {
	d.open("", '{')
	d.str("snapshot", s.URI)
	d.int("version", int64(s.Version))
	if s.Dialect != metadata.DialectStandard {
		d.str("dialect", s.Dialect.String())
	}
	d.int("checkpointID", s.CheckpointID)
	list(d, "masterStates", s.MasterStates, func(m *metadata.MasterState) {
		d.open("", '{')
		d.int("version", int64(m.Version))
		d.text("name", m.Name)
		d.data("payload", m.Payload)
		d.close('}')
	})
	d.open("operators", '[')
	for i := range s.Operators {
		d.operator(s, &s.Operators[i])
	}
	d.close(']')
	if s.Version >= metadata.Version4 {
		info := s.Properties.Info()
		d.open("properties", '{')
		d.str("kind", info.Kind.String())
		if info.Stop != "" {
			d.str("stop", info.Stop)
		}
		if info.Retention != "" {
			d.str("retention", info.Retention)
		}
		if info.Trailing > 0 {
			d.int("trailing", int64(info.Trailing))
		}
		d.data("raw", s.Properties)
		d.close('}')
	}
	if len(s.Trailing) > 0 {
		d.data("trailing", s.Trailing)
	}
	d.close('}')
	d.end()
}

func (d *dumper) operator(s *Snapshot, o *metadata.Operator) {
	d.open("", '{')
	if s.Version >= metadata.Version5 {
		d.text("name", o.Name)
		d.text("uid", o.UID)
	}
	d.str("id", o.ID.String())
	d.int("parallelism", int64(o.Parallelism))
	d.int("maxParallelism", int64(o.MaxParallelism))
	if s.Version <= metadata.Version2 {
		d.int("chainLength", int64(o.ChainLength))
	}
	if o.Coordinator != nil {
		d.stream("coordinator", o.Coordinator)
	}
	if o.FullyFinished {
		d.bool("fullyFinished", true)
	}
	list(d, "subtasks", o.Subtasks, func(t *metadata.Subtask) { d.subtask(s, t) })
	d.close('}')
}

func (d *dumper) subtask(s *Snapshot, t *metadata.Subtask) {
	d.open("", '{')
	d.int("index", int64(t.Index))
	st := t.State
	if st == nil {
		d.bool("finished", true)
		d.close('}')
		return
	}
	if s.Version <= metadata.Version2 {
		d.int("unused", st.Unused)
		list(d, "legacy", st.Legacy, func(h *metadata.Stream) { d.stream("", *h) })
	}
	list(d, "managedOperator", st.ManagedOperator, func(h **metadata.OperatorState) { d.operatorState(*h) })
	list(d, "rawOperator", st.RawOperator, func(h **metadata.OperatorState) { d.operatorState(*h) })
	if st.ManagedKeyed != nil {
		d.keyed("managedKeyed", st.ManagedKeyed)
	}
	if st.RawKeyed != nil {
		d.keyed("rawKeyed", st.RawKeyed)
	}
	list(d, "inputChannels", st.InputChannels, func(c *metadata.ChannelState) { d.channel("InputStateHandle", c) })
	list(d, "outputChannels", st.OutputChannels, func(c *metadata.ChannelState) { d.channel("OutputStateHandle", c) })
	d.close('}')
}

// handle begins an object that stands for a handle, by the name of its class in Flink.
func (d *dumper) handle(name, class string, tag metadata.Tag) {
	d.open(name, '{')
	d.str("handle", class)
	d.int("tag", int64(tag))
}

func (d *dumper) operatorState(h *metadata.OperatorState) {
	if h == nil {
		d.null("")
		return
	}
	class := "OperatorStreamStateHandle"
	if h.Merged != nil {
		class = "FileMergingOperatorStreamStateHandle"
	}
	d.handle("", class, h.Tag())
	list(d, "states", h.States, func(s *metadata.StateOffsets) {
		d.open("", '{')
		d.text("name", s.Name)
		d.str("mode", s.Mode.String())
		d.offsets(s.Offsets)
		d.close('}')
	})
	if m := h.Merged; m != nil {
		d.text("taskOwnedDirectory", m.TaskOwned)
		d.text("sharedDirectory", m.Shared)
		d.bool("empty", m.Empty)
	}
	d.stream("delegate", h.Delegate)
	d.close('}')
}

func (d *dumper) keyGroups(start, count int64) {
	d.open("keyGroups", '{')
	d.int("start", start)
	d.int("count", count)
	d.close('}')
}

func (d *dumper) keyed(name string, k metadata.Keyed) {
	switch h := k.(type) {
	case nil:
		d.null(name)
		return
	case *metadata.KeyGroups:
		class := "KeyGroupsStateHandle"
		if h.Form == metadata.KeyGroupsSavepoint {
			class = "KeyGroupsSavepointStateHandle"
		}
		d.handle(name, class, h.Tag())
		d.keyGroups(int64(h.Start), int64(len(h.Offsets)))
		d.offsets(h.Offsets)
		d.stream("delegate", h.Delegate)
		if h.Form == metadata.KeyGroupsV2 {
			d.text("id", h.ID)
		}
	case *metadata.Incremental:
		d.handle(name, "IncrementalRemoteKeyedStateHandle", h.Tag())
		d.int("checkpointID", h.CheckpointID)
		d.text("backendID", h.BackendID)
		d.keyGroups(int64(h.KeyGroups.Start), int64(h.KeyGroups.Count))
		if !h.V1 {
			d.int("checkpointedSize", h.CheckpointedSize)
		}
		d.stream("meta", h.Meta)
		d.localFiles("shared", h.Shared)
		d.localFiles("private", h.Private)
		if !h.V1 {
			d.text("id", h.ID)
		}
	case *metadata.Changelog:
		d.handle(name, "ChangelogStateBackendHandle", h.Tag())
		d.keyGroups(int64(h.KeyGroups.Start), int64(h.KeyGroups.Count))
		d.int("checkpointedSize", h.CheckpointedSize)
		list(d, "base", h.Base, func(k *metadata.Keyed) { d.keyed("", *k) })
		list(d, "delta", h.Delta, func(k *metadata.Keyed) { d.keyed("", *k) })
		d.int("materializationID", h.MaterializationID)
		if !h.V1 {
			d.int("checkpointID", h.CheckpointID)
		}
		d.text("id", h.ID)
	case *metadata.ChangelogMemory:
		d.handle(name, "InMemoryChangelogStateHandle", h.Tag())
		d.keyGroups(int64(h.KeyGroups.Start), int64(h.KeyGroups.Count))
		d.int("from", h.From)
		d.int("to", h.To)
		list(d, "changes", h.Changes, func(c *metadata.StateChange) {
			d.open("", '{')
			d.int("keyGroup", int64(c.KeyGroup))
			d.data("change", c.Change)
			d.close('}')
		})
		d.text("id", h.ID)
	case *metadata.ChangelogFile:
		d.handle(name, "ChangelogStateHandleStreamImpl", h.Tag())
		d.keyGroups(int64(h.KeyGroups.Start), int64(h.KeyGroups.Count))
		list(d, "streams", h.Streams, func(s *metadata.ChangelogStream) {
			d.open("", '{')
			d.int("offset", s.Offset)
			d.stream("stream", s.Stream)
			d.close('}')
		})
		d.int("size", h.Size)
		d.int("incrementalSize", h.IncrementalSize)
		d.text("id", h.ID)
		if !h.V1 {
			d.text("storageID", h.StorageID)
		}
	default:
		d.handle(name, fmt.Sprintf("%T", k), k.Tag())
	}
	d.close('}')
}

func (d *dumper) localFiles(name string, files []metadata.LocalFile) {
	d.open(name, '[')
	for i := range files {
		d.open("", '{')
		d.text("localName", files[i].LocalName)
		d.stream("stream", files[i].Stream)
		d.close('}')
	}
	d.close(']')
}

func (d *dumper) channel(class string, c *metadata.ChannelState) {
	d.open("", '{')
	if c.Merged {
		class = "Merged" + class
	}
	d.str("handle", class)
	d.int("subtask", int64(c.Subtask))
	if !c.Merged {
		d.int("group", int64(c.Group))
		d.int("channel", int64(c.Channel))
		d.offsets(c.Offsets)
	}
	d.int("size", c.Size)
	d.stream("delegate", c.Delegate)
	if c.Merged {
		if channels, err := c.Channels(); err == nil {
			list(d, "channels", channels, func(ch *metadata.Channel) {
				d.open("", '{')
				d.int("group", int64(ch.Group))
				d.int("channel", int64(ch.Channel))
				d.int("size", ch.Size)
				d.offsets(ch.Offsets)
				d.close('}')
			})
		}
		d.data("blob", c.Blob)
	}
	d.close('}')
}

func (d *dumper) stream(name string, s metadata.Stream) {
	switch h := s.(type) {
	case nil:
		d.null(name)
		return
	case *metadata.ByteStream:
		d.handle(name, "ByteStreamStateHandle", h.Tag())
		d.text("name", h.Name)
		d.data("data", h.Data)
	case *metadata.File:
		d.handle(name, "FileStateHandle", h.Tag())
		d.text("path", h.Path)
		d.int("size", h.Size)
	case *metadata.RelativeFile:
		d.handle(name, "RelativeFileStateHandle", h.Tag())
		d.text("path", h.Path)
		d.int("size", h.Size)
	case *metadata.Segment:
		d.handle(name, "SegmentFileStateHandle", h.Tag())
		d.text("path", h.Path)
		d.int("start", h.Start)
		d.int("size", h.Size)
		d.int("scope", int64(h.Scope))
		d.text("logicalFileID", h.LogicalFileID)
	case *metadata.EmptySegment:
		d.handle(name, "EmptySegmentFileStateHandle", h.Tag())
	case *metadata.KeyGroupsStream:
		d.handle(name, "KeyGroupsStateHandle", h.Tag())
		d.keyGroups(int64(h.Start), int64(len(h.Offsets)))
		d.offsets(h.Offsets)
		d.stream("delegate", h.Delegate)
	default:
		d.handle(name, fmt.Sprintf("%T", s), s.Tag())
	}
	d.close('}')
}
