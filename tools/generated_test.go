package tools

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// generatedFS is a store with canonical savepoints whose state files are never
// anywhere: their bytes are made as they are read.
type generatedFS struct {
	*storage.Memory
	files map[string]*generated
}

// generated is a state file with the states "count" (Long -> Long) and "name"
// (Long -> String) in 128 key groups.
type generated struct {
	perGroup int64 // entries of each state in each key group
	// changed is the number of the entry that has another value; -1 for none.
	changed int64
	header  []byte
	size    int64
	read    *atomic.Int64
}

const (
	generatedGroups = 128
	generatedName   = "user-0123456789abcdef" // the value of a name, but for its digits
	countBytes      = 4 + 10 + 4 + 8
	nameBytes       = 4 + 10 + 4 + 1 + len(generatedName)
)

func newGeneratedFS() *generatedFS {
	return &generatedFS{storage.NewMemory(), map[string]*generated{}}
}

func (s *generated) blockBytes() int64 {
	return 2 + s.perGroup*countBytes + 2 + s.perGroup*int64(nameBytes) + 2
}

// add makes a savepoint of 256*perGroup entries and opens it.
func (f *generatedFS) add(t testing.TB, dir string, perGroup, changed int64) (*generated, *Snapshot) {
	t.Helper()
	basic := func(name string) *serializer.Snapshot {
		const base = "org.apache.flink.api.common.typeutils.base."
		return &serializer.Snapshot{Class: base + name + "Serializer$" + name + "SerializerSnapshot", Version: 3}
	}
	state := func(name, value string) backend.StateMeta {
		return backend.StateMeta{
			Name:    name,
			Options: []backend.Option{{Key: backend.OptionStateType, Value: "VALUE"}},
			Serializers: []backend.NamedSnapshot{
				{Key: backend.SerializerValue, Snapshot: basic(value)},
				{Key: backend.SerializerNamespace, Snapshot: &serializer.Snapshot{
					Class: "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", Version: 3,
				}},
			},
		}
	}
	h := backend.KeyedHeader{Version: 6, Key: basic("Long"), States: []backend.StateMeta{state("count", "Long"), state("name", "String")}}
	out := serializer.NewOutput(nil)
	h.Write(out)
	s := &generated{perGroup: perGroup, changed: changed, header: out.Bytes(), read: new(atomic.Int64)}
	s.size = int64(len(s.header)) + generatedGroups*s.blockBytes()
	keyed := &metadata.KeyGroups{Form: metadata.KeyGroupsSavepoint, Delegate: &metadata.File{Path: metadata.Text(dir + "/state"), Size: s.size}}
	for g := range int64(generatedGroups) {
		keyed.Offsets = append(keyed.Offsets, int64(len(s.header))+g*s.blockBytes())
	}
	m := &metadata.Snapshot{Version: 4, CheckpointID: 1, Properties: metadata.NullProperties, Operators: []metadata.Operator{{
		ID: metadata.UIDHash("generated"), Parallelism: 1, MaxParallelism: generatedGroups,
		Subtasks: []metadata.Subtask{{State: &metadata.SubtaskState{ManagedKeyed: keyed}}},
	}}}
	data, err := metadata.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.WriteFile(t.Context(), f.Memory, dir+"/_metadata", data, storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.files[dir+"/state"] = s
	snapshot, err := Open(t.Context(), f, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, snapshot
}

func (f *generatedFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	if s := f.files[uri]; s != nil {
		return generatedObject{s}, nil
	}
	return f.Memory.Open(ctx, uri)
}

type generatedObject struct{ *generated }

func (o generatedObject) Size() int64  { return o.size }
func (o generatedObject) Close() error { return nil }

func (o generatedObject) Reader(_ context.Context, off int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(o, off, o.size-off)), nil
}

// ReadAt makes the bytes piece by piece: the header, then of each key group
// its two blocks with an entry or a number of a state at a time.
func (o generatedObject) ReadAt(p []byte, off int64) (n int, err error) {
	var piece [64]byte
	for n < len(p) && off < o.size {
		b, start := o.piece(piece[:0], off)
		step := copy(p[n:], b[off-start:])
		n += step
		off += int64(step)
	}
	o.read.Add(int64(n))
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// piece makes the piece that holds off, and says where it begins.
func (o generatedObject) piece(b []byte, off int64) ([]byte, int64) {
	if off < int64(len(o.header)) {
		return o.header, 0
	}
	rel := off - int64(len(o.header))
	group, in := rel/o.blockBytes(), rel%o.blockBytes()
	start := off - in
	names := 2 + o.perGroup*countBytes
	switch {
	case in < 2:
		return append(b, 0, 0), start
	case in < names:
		i := (in - 2) / countBytes
		b = o.key(b, group, i)
		number := group*o.perGroup + i
		value := uint64(number)
		if number == o.changed {
			value++
		}
		b = append(b, 0, 0, 0, 8)
		return binary.BigEndian.AppendUint64(b, value), start + 2 + i*countBytes
	case in < names+2:
		return append(b, 0, 1), start + names
	case in < o.blockBytes()-2:
		i := (in - names - 2) / int64(nameBytes)
		b = o.key(b, group, i)
		b = append(b, 0, 0, 0, byte(1+len(generatedName)), byte(1+len(generatedName)))
		b = append(b, generatedName...)
		for j, n := len(b)-1, i; n > 0; j, n = j-1, n/10 {
			b[j] = '0' + byte(n%10)
		}
		return b, start + names + 2 + i*int64(nameBytes)
	}
	return append(b, 0xff, 0xff), start + o.blockBytes() - 2
}

// key is the key of entry i of a key group, marked if it is the last of its state.
func (o generatedObject) key(b []byte, group, i int64) []byte {
	first := byte(group)
	if i == o.perGroup-1 {
		first |= 0x80
	}
	b = append(b, 0, 0, 0, 10, first)
	b = binary.BigEndian.AppendUint64(b, uint64(i))
	return append(b, 0)
}

// heapPeak is the most that fn has on the heap, in bytes, beside what was
// there before. Garbage is collected early, so that it is not what is measured.
func heapPeak(fn func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC() // what earlier tests left
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	var peak atomic.Uint64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				peak.Store(max(peak.Load(), sample[0].Value.Uint64()))
			case <-stop:
				return
			}
		}
	}()
	fn()
	close(stop)
	<-ended
	return max(peak.Load(), before) - before
}
