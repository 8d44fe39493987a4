package backendtest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

func testNulls(t *testing.T, open Opener) {
	b := open(t, All, nil)
	m := made[backend.Map[serializer.Window, string, *int64]](t)(state.OpenMap(b, tableDescriptor()))
	must(t, b.SetKey("k"))
	must(t, m.Put("null", nil))
	if v, ok, err := m.Get("null"); v != nil || !ok || err != nil {
		t.Fatalf("%v, %v, %v", v, ok, err)
	}
	fs := storage.NewMemory()
	h := save(t, b, fs, 0, backend.SnapshotOptions{})
	// Who does not know nulls can't have the map.
	other := open(t, All, nil)
	must(t, restore(other, fs, h))
	d := backend.MapDescriptor[serializer.Window, string, int64]{
		Name: "table", Namespace: serializer.ForTimeWindow(), UserKey: serializer.ForString(), Value: serializer.ForLong(),
	}
	plain, err := state.OpenMap(other, d)
	if err == nil {
		must(t, other.SetKey("k"))
		_, _, err = plain.Get("null")
	}
	if !errors.Is(err, serializer.ErrNull) {
		t.Errorf("a null as a number: %v", err)
	}
	d.Name, d.Null = "wrong", func(v int64) bool { return v == -1 }
	if _, err := state.OpenMap(b, d); err == nil {
		t.Error("a null that is not the zero value was taken")
	}
	d.Null, d.TTL = func(v int64) bool { return v == 0 }, &backend.TTL{After: 1e9}
	if _, err := state.OpenMap(b, d); err == nil {
		t.Error("nulls with time to live were taken")
	}
}

// What a state gave stays as it is, whatever becomes of the state.
func testMemory(t *testing.T, open Opener) {
	b := open(t, All, nil)
	v := made[backend.Value[void, []byte]](t)(state.OpenValue(b, value("bytes", serializer.ForBytes())))
	var got [][]byte
	for round := range byte(20) {
		for _, k := range someKeys {
			must(t, b.SetKey(k))
			must(t, v.Set(bytes.Repeat([]byte{round}, 1000)))
			one, _, err := v.Get()
			must(t, err)
			got = append(got, one)
		}
	}
	for i, one := range got {
		if !bytes.Equal(one, bytes.Repeat([]byte{byte(i / len(someKeys))}, 1000)) {
			t.Fatalf("value %d has changed", i)
		}
	}
}

func testIncompatible(t *testing.T, open Opener) {
	source := open(t, All, nil)
	v := made[backend.Value[void, int64]](t)(state.OpenValue(source, value("value", serializer.ForLong())))
	must(t, source.SetKey("k"))
	must(t, v.Set(7))
	fs := storage.NewMemory()
	h := save(t, source, fs, 0, backend.SnapshotOptions{})
	for _, test := range []struct {
		name string
		open func(b backend.Keyed[string]) error
		want error
	}{
		{"other value", func(b backend.Keyed[string]) error {
			_, err := state.OpenValue(b, value("value", serializer.ForInt()))
			return err
		}, backend.ErrIncompatible},
		{"other namespace", func(b backend.Keyed[string]) error {
			_, err := state.OpenValue(b, backend.Descriptor[string, int64]{Name: "value", Namespace: serializer.ForString(), Value: serializer.ForLong()})
			return err
		}, backend.ErrIncompatible},
		{"other kind", func(b backend.Keyed[string]) error {
			_, err := state.OpenList(b, value("value", serializer.ForLong()))
			return err
		}, backend.ErrState},
		{"time to live, other value", func(b backend.Keyed[string]) error {
			d := value("value", serializer.ForInt())
			d.TTL = &backend.TTL{After: 1e9}
			_, err := state.OpenValue(b, d)
			return err
		}, backend.ErrIncompatible},
	} {
		b := open(t, All, nil)
		must(t, restore(b, fs, h))
		if err := test.open(b); !errors.Is(err, test.want) {
			t.Errorf("%s, opened after: %v", test.name, err)
		}
		// What was restored is still there.
		v, err := state.OpenValue(b, value("value", serializer.ForLong()))
		must(t, err)
		must(t, b.SetKey("k"))
		if n, ok, err := v.Get(); n != 7 || !ok || err != nil {
			t.Errorf("%s: then %v, %v, %v", test.name, n, ok, err)
		}
		b = open(t, All, nil)
		must(t, test.open(b))
		if err := restore(b, fs, h); !errors.Is(err, test.want) {
			t.Errorf("%s, opened before: %v", test.name, err)
		}
		must(t, b.Close())
	}
	if err := restore(open(t, All, nil), fs, h, h); !errors.Is(err, serializer.ErrCorrupt) {
		t.Errorf("the same key groups twice: %v", err)
	}
	b := open(t, All, nil)
	must(t, restore(b, fs))
	if err := restore(b, fs, h); err == nil {
		t.Error("Restore was called twice")
	}
}

// written is a handle of one list whose only entry is of this key in this key group.
func written(t tb, keys *serializer.Snapshot, key []byte, group int, list string) backend.Handles {
	t.Helper()
	var file bytes.Buffer
	meta := backend.NewStateMeta("list", backend.TypeList, serializer.ForVoidNamespace().Snapshot(), serializer.ForList(serializer.ForByte()).Snapshot())
	w := backend.NewCanonicalWriter(&file, &backend.KeyedHeader{Version: 6, Key: keys, States: []backend.StateMeta{meta}}, All, MaxParallelism)
	must(t, w.StartKeyGroup(group))
	joined := backend.AppendComposite(nil, false, key, []byte{0}, nil)
	must(t, w.Entry(0, joined, []byte(list)))
	offsets, _, err := w.Close()
	must(t, err)
	return backend.Handles{Managed: []metadata.Keyed{
		&metadata.KeyGroups{Form: metadata.KeyGroupsSavepoint, KeyGroupOffsets: offsets, Delegate: &metadata.ByteStream{Name: "file", Data: file.Bytes()}},
	}}
}

// testForeign restores files that these backends don't write.
func testForeign(t *testing.T, open Opener) {
	group := keygroup.ForHash(keygroup.StringHash("k"), MaxParallelism)
	key := serializer.NewOutput(nil)
	serializer.ForString().Write(key, "k")
	strings := serializer.ForString().Snapshot()
	fs := storage.NewMemory()

	if err := restore(open(t, All, nil), fs, written(t, serializer.ForLong().Snapshot(), make([]byte, 8), 0, "\x05")); !errors.Is(err, backend.ErrIncompatible) {
		t.Errorf("keys of another serializer: %v", err)
	}
	if err := restore(open(t, All, nil), fs, written(t, strings, key.Bytes(), group+1, "\x05")); !errors.Is(err, backend.ErrKeyGroup) {
		t.Errorf("a key in another key group: %v", err)
	}
	for _, bad := range []string{"\x05,", "\x05;\x06", ",\x05"} {
		b := open(t, All, nil)
		must(t, restore(b, fs, written(t, strings, key.Bytes(), group, bad)))
		l, err := state.OpenList(b, value("list", serializer.ForByte()))
		if err == nil {
			must(t, b.SetKey("k"))
			_, err = l.Get()
		}
		if !errors.Is(err, serializer.ErrCorrupt) && !errors.Is(err, serializer.ErrTruncated) {
			t.Errorf("a list of %q: %v", bad, err)
		}
	}
	// A list of nothing is none, and one may add to it.
	for _, before := range []bool{false, true} {
		b := open(t, All, nil)
		h := written(t, strings, key.Bytes(), group, "")
		if !before {
			must(t, restore(b, fs, h))
		}
		l := made[backend.List[void, int8]](t)(state.OpenList(b, value("list", serializer.ForByte())))
		if before {
			must(t, restore(b, fs, h))
		}
		must(t, b.SetKey("k"))
		equal(t, "empty list", made[[]int8](t)(l.Get()), []int8(nil))
		must(t, l.Add(1))
		must(t, l.Add(2))
		equal(t, "added", made[[]int8](t)(l.Get()), []int8{1, 2})
	}
}

func testFaults(t *testing.T, open Opener) {
	bed := newBed()
	b := open(t, All, bed.now)
	bed.settle(t, b)
	bed.steps(t, random(9), 500)
	broken := errors.New("broken")
	for _, format := range formats {
		o := backend.SnapshotOptions{Format: format}
		sound := storagetest.NewFaulty(storage.NewMemory(), storagetest.FaultOptions{})
		h := save(t, b, sound, inFile, o)
		steps := sound.Steps()
		for _, done := range []bool{false, true} {
			for n := 1; n <= steps; n++ {
				store := storage.NewMemory()
				fs := storagetest.NewFaulty(store, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
					if s.N == n {
						return &storagetest.Fault{Err: broken, Done: done}
					}
					return nil
				}})
				s := made[backend.Snapshot](t)(b.Snapshot(1, o))
				if _, err := s.Write(t.Context(), backend.Target{FS: fs, Dir: dir, Shared: shared, InlineBelow: inFile}); !errors.Is(err, broken) {
					t.Fatalf("format %v, step %d of %d: %v", format, n, steps, err)
				}
				if left := files(t, store); left != 0 {
					t.Fatalf("format %v, step %d of %d: %d files are left", format, n, steps, left)
				}
				if _, err := s.Write(t.Context(), backend.Target{FS: store, Dir: dir, Shared: shared}); err == nil {
					t.Fatal("written a second time")
				}
			}
		}
		reads := storagetest.NewFaulty(sound, storagetest.FaultOptions{})
		must(t, restore(open(t, All, bed.now), reads, h))
		for n := 1; n <= reads.Steps(); n++ {
			fs := storagetest.NewFaulty(sound, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.N == n {
					return &storagetest.Fault{Err: broken}
				}
				return nil
			}})
			again := open(t, All, bed.now)
			if err := restore(again, fs, h); !errors.Is(err, broken) {
				t.Fatalf("restored, step %d of %d: %v", n, reads.Steps(), err)
			}
			must(t, again.Close())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := storage.NewMemory()
	s := made[backend.Snapshot](t)(b.Snapshot(1, backend.SnapshotOptions{}))
	if _, err := s.Write(ctx, backend.Target{FS: store, Dir: dir, Shared: shared, InlineBelow: inFile}); !errors.Is(err, context.Canceled) {
		t.Fatalf("canceled: %v", err)
	}
	equal(t, "files", files(t, store), 0)

	bed.steps(t, random(10), 100)
	bed.check(t, "after all")
	again := open(t, All, bed.now)
	h := save(t, b, store, inFile, backend.SnapshotOptions{})
	must(t, restore(again, store, h))
	(&mirror{bed, inhabit(t, again)}).check(t, "the next snapshot")
}
