package interop

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

const (
	largeKeys = 40_000
	largeText = 3600 // bytes, which don't compress: 144 MB in all
)

// largePart is a circlePart whose state has several tables. Entries are not compared one
// by one, but by their number and the sum of their check sums.
type largePart struct {
	written, changed map[string]map[string]any
}

// largeStates are the states of the operator.
type largeStates struct {
	value backend.Value[struct{}, string]
	list  backend.List[struct{}, string]
	table backend.Map[struct{}, int64, *string]
}

func openLarge(b backend.Keyed[int64]) (*largeStates, error) {
	s := &largeStates{}
	var errs [3]error
	void := serializer.ForVoidNamespace()
	s.value, errs[0] = state.OpenValue(b, backend.Descriptor[struct{}, string]{Name: "value", Namespace: void, Value: serializer.ForString()})
	s.list, errs[1] = state.OpenList(b, backend.Descriptor[struct{}, string]{Name: "list", Namespace: void, Value: serializer.ForString()})
	s.table, errs[2] = state.OpenMap(b, backend.MapDescriptor[struct{}, int64, *string]{
		Name: "map", Namespace: void, UserKey: serializer.ForLong(), Value: serializer.ForPointer(serializer.ForString()),
		Null: func(v *string) bool { return v == nil },
	})
	return s, errors.Join(errs[:]...)
}

// largeCell is what the states hold of a key: at first, and after Flink has changed it.
func largeCell(i int, changed bool) *cell {
	b := make([]byte, 0, largeText*3/4+8)
	for r := rand.NewPCG(uint64(i), 0); len(b) < largeText*3/4; {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	b = b[:largeText*3/4]
	c := &cell{
		value: new(base64.StdEncoding.EncodeToString(b)), list: []string{"a", fmt.Sprint(i)},
		table: map[int64]*string{1: new("one")},
	}
	if !changed {
		return c
	}
	switch i % 4 {
	case 0:
		c.value, c.list = new(fmt.Sprintf("flink %d 0", i)), append(c.list, fmt.Sprint("flink ", i))
		c.table = map[int64]*string{int64(i): new("flink"), 1: c.table[1]}
	case 1:
		c = &cell{}
	case 2:
		c.list = []string{"x", "y"}
		c.table = nil
	}
	return c
}

// sums adds up entries as Circle.count does.
type sums map[string]map[string]any

func (s sums) add(key int64, c *cell) {
	for state, v := range c.shown() {
		if s[state] == nil {
			s[state] = map[string]any{"entries": int64(0), "sum": int64(0)}
		}
		s[state]["entries"] = s[state]["entries"].(int64) + 1
		s[state]["sum"] = s[state]["sum"].(int64) + int64(crc32.ChecksumIEEE([]byte(fmt.Sprint(key, "=", canonical(v)))))
	}
}

func (p *largePart) write(t *testing.T, c *circle, parallelism int) metadata.Operator {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	op := metadata.Operator{ID: metadata.UIDHash("go-large"), Parallelism: int32(parallelism), MaxParallelism: int32(c.max)}
	written, changed := sums{}, sums{}
	for i := range parallelism {
		b := openGo(t, c.goBackend, serializer.ForLong(), nil, c.max, keygroup.RangeOf(i, c.max, parallelism), nil)
		s, err := openLarge(b)
		fail(err)
		for i := range largeKeys {
			key := longKey(i)
			if err := b.SetKey(key); errors.Is(err, backend.ErrKeyGroup) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			held := largeCell(i, false)
			fail(s.value.Set(*held.value))
			for _, e := range held.list {
				fail(s.list.Add(e))
			}
			for k, v := range held.table {
				fail(s.table.Put(k, v))
			}
			written.add(key, held)
			changed.add(key, largeCell(i, true))
		}
		view, err := b.Snapshot(1, c.o)
		fail(err)
		to := c.target()
		m := newMeter(to.FS)
		to.FS = m
		h, err := view.Write(t.Context(), to)
		fail(err)
		t.Logf("%s, %s: %d MB were written, %d KB of memory more at most", c.goBackend, c.format(), m.written>>20, m.growth()>>10)
		if m.written < largeKeys*largeText || m.growth() > 16<<20 {
			t.Error("too little was written, or too much memory was used")
		}
		fail(b.Close())
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: &metadata.SubtaskState{ManagedKeyed: h}})
	}
	p.written, p.changed = written, changed
	return op
}

// meter is a store that looks now and then how much memory is in use while files are written.
type meter struct {
	storage.FS
	before, most, written uint64
}

func newMeter(fsys storage.FS) *meter { return &meter{FS: fsys, before: memoryInUse()} }

// memoryInUse is what Go's heap holds that is no garbage, in bytes.
func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// growth is how much more was in use at most than before the first file, in bytes.
func (m *meter) growth() uint64 { return m.most - min(m.most, m.before) }

func (m *meter) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	w, err := m.FS.Create(ctx, uri, o)
	return meteredWriter{w, m}, err
}

type meteredWriter struct {
	storage.Writer
	m *meter
}

func (w meteredWriter) Write(p []byte) (int, error) {
	const each = 8 << 20
	was := w.m.written / each
	if w.m.written += uint64(len(p)); w.m.written/each > was {
		w.m.most = max(w.m.most, memoryInUse())
	}
	return w.Writer.Write(p)
}

func (p *largePart) shown() map[string]map[string]any { return p.written }

func (p *largePart) seen(_ *testing.T, got map[string]map[string]any) map[string]map[string]any {
	return got
}

func (p *largePart) change(*circle) { p.written = p.changed }

func (p *largePart) restore(t *testing.T, c *circle, kind string, files backend.Files, op *metadata.Operator) map[string]map[string]any {
	t.Helper()
	b := openGo(t, kind, serializer.ForLong(), nil, c.max, keygroup.RangeOf(0, c.max, 1), nil)
	s, err := openLarge(b)
	if err != nil {
		t.Fatal(err)
	}
	handles, err := backend.HandlesOf(op, b.KeyGroups())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(t.Context(), files, handles); err != nil {
		t.Fatal(err)
	}
	all := sums{}
	for i := range largeKeys {
		key := longKey(i)
		held := &cell{table: map[int64]*string{}}
		var errs [4]error
		errs[0] = b.SetKey(key)
		held.value, errs[1] = ifThere(s.value.Get())
		held.list, errs[2] = s.list.Get()
		for e, err := range s.table.All() {
			errs[3] = errors.Join(errs[3], err)
			held.table[e.Key] = e.Value
		}
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		all.add(key, held)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}
