package pebble_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	cockroach "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

const jobDir = "mem://job"

// openNumbers opens a backend with states of these names, of numbers as strings.
func openNumbers(t *testing.T, groups keygroup.Range, configure func(*pebble.Options[string]), names ...string) (*pebble.Backend[string], []backend.Value[struct{}, string]) {
	t.Helper()
	o := pebble.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Dir: filepath.Join(t.TempDir(), "db"), Tuning: pebble.Tuning{FileSize: 64 << 10}}
	if configure != nil {
		configure(&o)
	}
	b, err := pebble.Open(serializer.ForString(), o)
	check(t, err)
	t.Cleanup(func() { b.Close() })
	var states []backend.Value[struct{}, string]
	for _, name := range names {
		v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, string]{Name: name, Namespace: serializer.ForVoidNamespace(), Value: serializer.ForString()})
		check(t, err)
		states = append(states, v)
	}
	return b, states
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// content of the key, which no compression makes small.
func content(state string, key int) string {
	r := rand.New(rand.NewPCG(uint64(key), uint64(len(state))))
	b := make([]byte, 0, 100)
	for range 12 {
		b = binary.AppendUvarint(b, r.Uint64()>>1)
	}
	return state + string([]rune(fmt.Sprintf("%x", b)))
}

// fill sets the keys in the backend's key groups.
func fill(t *testing.T, b *pebble.Backend[string], v backend.Value[struct{}, string], state string, keys ...int) {
	t.Helper()
	for _, k := range keys {
		err := b.SetKey(fmt.Sprint(k))
		if errors.Is(err, backend.ErrKeyGroup) {
			continue
		}
		check(t, err)
		check(t, v.Set(content(state, k)))
	}
}

// holds compares the state with the keys that the backend must have, and no other.
func holds(t *testing.T, b *pebble.Backend[string], v backend.Value[struct{}, string], state string, keys ...int) {
	t.Helper()
	n := int64(0)
	for _, k := range keys {
		err := b.SetKey(fmt.Sprint(k))
		if errors.Is(err, backend.ErrKeyGroup) {
			continue
		}
		check(t, err)
		n++
		if got, ok, err := v.Get(); err != nil || !ok || got != content(state, k) {
			t.Fatalf("state %s, key %d: %q, %v, %v", state, k, got, ok, err)
		}
	}
	if got, err := b.Len(state); err != nil || got != n {
		t.Fatalf("state %s: %d entries where there are %d: %v", state, got, n, err)
	}
}

func numbers(from, to int) []int {
	var all []int
	for k := from; k < to; k++ {
		all = append(all, k)
	}
	return all
}

// checkpoint writes an incremental one.
func checkpoint(t *testing.T, b backend.Keyed[string], fs storage.FS, id int64, o backend.SnapshotOptions) *metadata.Incremental {
	t.Helper()
	o.Format = backend.FormatIncremental
	s, err := b.Snapshot(id, o)
	check(t, err)
	h, err := s.Write(t.Context(), backend.Target{FS: fs, Dir: fmt.Sprintf("%s/chk-%d", jobDir, id), Shared: jobDir + "/shared", InlineBelow: -1})
	check(t, err)
	return h.(*metadata.Incremental)
}

// objects are the objects of a handle's tables, by local names.
func objects(h *metadata.Incremental) map[string]string {
	all := map[string]string{}
	for _, f := range h.Shared {
		all[f.LocalName.String()] = f.Stream.(*metadata.File).Path.String()
	}
	return all
}

func restoreAll(b backend.Keyed[string], fs storage.FS, id int64, handles ...*metadata.Incremental) error {
	var h backend.Handles
	for _, one := range handles {
		h.Managed = append(h.Managed, one)
	}
	return b.Restore(context.Background(), backend.Files{FS: fs, Dir: fmt.Sprintf("%s/chk-%d", jobDir, id)}, h)
}

// Only what was not in the newest completed checkpoint is written; both sizes are told.
func TestIncrementalUploads(t *testing.T) {
	fs := storage.NewMemory()
	b, v := openNumbers(t, backendtest.All, nil, "a")
	fill(t, b, v[0], "a", numbers(0, 20_000)...)
	first := checkpoint(t, b, fs, 1, backend.SnapshotOptions{})
	full := func(h *metadata.Incremental) (n int64) {
		for _, f := range h.Shared {
			n += f.Stream.(*metadata.File).Size
		}
		return n
	}
	if first.CheckpointedSize < full(first) {
		t.Errorf("the first wrote %d bytes of %d", first.CheckpointedSize, full(first))
	}
	same := func(what string, a, b *metadata.Incremental, want bool) {
		t.Helper()
		old := slices.Sorted(maps.Values(objects(a)))
		shared := 0
		for _, uri := range objects(b) {
			if _, ok := slices.BinarySearch(old, uri); ok {
				shared++
			}
		}
		if got := shared > 0; got != want {
			t.Errorf("%s: %d tables are shared, of %d", what, shared, len(b.Shared))
		}
	}
	// Not known to be complete.
	second := checkpoint(t, b, fs, 2, backend.SnapshotOptions{})
	same("before the first is complete", first, second, false)
	b.CheckpointCompleted(1)
	third := checkpoint(t, b, fs, 3, backend.SnapshotOptions{})
	same("after the first is complete", first, third, true)
	if third.CheckpointedSize > 10_000 || full(third) != full(first) {
		t.Errorf("nothing changed, and %d bytes were written; %d of tables, %d before", third.CheckpointedSize, full(third), full(first))
	}
	b.CheckpointAborted(3)
	b.CheckpointCompleted(2)
	fourth := checkpoint(t, b, fs, 4, backend.SnapshotOptions{})
	same("after the second is complete", second, fourth, true)
	b.CheckpointCompleted(1) // late
	b.CheckpointCompleted(4)
	fifth := checkpoint(t, b, fs, 5, backend.SnapshotOptions{Rebase: true})
	for _, h := range []*metadata.Incremental{first, second, third, fourth} {
		same("rebased", h, fifth, false)
	}
	b.CheckpointCompleted(5)
	fill(t, b, v[0], "a", 1, 2, 3)
	sixth := checkpoint(t, b, fs, 6, backend.SnapshotOptions{})
	same("three keys changed", fifth, sixth, true)
	if sixth.CheckpointedSize > full(sixth)/4 {
		t.Errorf("three keys changed, and %d bytes were written of %d", sixth.CheckpointedSize, full(sixth))
	}
}

// Subtasks are restored from the tables of others: none is written anew, and the next checkpoint refers to what is there.
func TestIncrementalRescale(t *testing.T) {
	fs := storage.NewMemory()
	const keys = 20_000
	b, v := openNumbers(t, backendtest.All, nil, "a", "b")
	fill(t, b, v[0], "a", numbers(0, keys)...)
	fill(t, b, v[1], "b", numbers(0, keys/10)...)
	handles := []*metadata.Incremental{checkpoint(t, b, fs, 1, backend.SnapshotOptions{})}
	for i, parallelism := range []int{3, 2, 5, 1, 2, 1} {
		id := int64(i + 2)
		var next []*metadata.Incremental
		for sub := range parallelism {
			groups := keygroup.RangeOf(sub, backendtest.MaxParallelism, parallelism)
			b, v := openNumbers(t, groups, nil, "a", "b")
			var mine []*metadata.Incremental
			for _, h := range handles {
				if !h.KeyGroups.Range().Intersect(groups).Empty() {
					mine = append(mine, h)
				}
			}
			check(t, restoreAll(b, fs, id-1, mine...))
			m := b.DB().Metrics()
			if written := m.Flush.Count + m.Compact.Count - m.Compact.MoveCount - m.Compact.DeleteOnlyCount; m.Levels[6].TablesIngested+m.Levels[0].TablesIngested != 0 || written > 2 {
				t.Errorf("parallelism %d: entries were written: %d flushes and compactions", parallelism, written)
			}
			holds(t, b, v[0], "a", numbers(0, keys)...)
			holds(t, b, v[1], "b", numbers(0, keys/10)...)
			h := checkpoint(t, b, fs, id, backend.SnapshotOptions{})
			var before []string
			for _, old := range mine {
				before = append(before, slices.Collect(maps.Values(objects(old)))...)
			}
			fresh := 0
			for _, uri := range objects(h) {
				if !slices.Contains(before, uri) {
					fresh++
				}
			}
			if fresh > len(h.Shared)/4 {
				t.Errorf("parallelism %d: %d of %d tables are new", parallelism, fresh, len(h.Shared))
			}
			next = append(next, h)
		}
		handles = next
	}
}

// States that were opened in another order have other numbers in the tables.
func TestIncrementalNumbers(t *testing.T) {
	fs := storage.NewMemory()
	var handles []*metadata.Incremental
	for sub, names := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "a", "c"}} {
		b, v := openNumbers(t, keygroup.RangeOf(sub, backendtest.MaxParallelism, 3), nil, names...)
		for i, name := range names {
			fill(t, b, v[i], name, numbers(0, 1000)...)
		}
		handles = append(handles, checkpoint(t, b, fs, 1, backend.SnapshotOptions{}))
	}
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"d", "a", "c", "b"}} {
		for _, before := range []bool{false, true} {
			names := order
			if !before {
				names = nil
			}
			b, v := openNumbers(t, backendtest.All, nil, names...)
			check(t, restoreAll(b, fs, 1, handles...))
			for _, name := range order[len(names):] {
				s, err := pebble.OpenValue(b, backend.Descriptor[struct{}, string]{Name: name, Namespace: serializer.ForVoidNamespace(), Value: serializer.ForString()})
				check(t, err)
				v = append(v, s)
			}
			for i, name := range order {
				switch name {
				case "a", "b":
					holds(t, b, v[i], name, numbers(0, 1000)...)
				case "c":
					var third []int
					for k := range 1000 {
						if g := keygroup.ForHash(keygroup.StringHash(fmt.Sprint(k)), backendtest.MaxParallelism); g >= handles[2].KeyGroups.Range().Start {
							third = append(third, k)
						}
					}
					holds(t, b, v[i], name, third...)
				}
			}
		}
	}
}

// Tables keep the filters that they were written with: a state that was left out of them is found by a backend that has it in its own.
func TestIncrementalFilters(t *testing.T) {
	fs := storage.NewMemory()
	without := func(o *pebble.Options[string]) {
		o.ConfigureState = func(name string, s *pebble.StateOptions) { s.NoFilter = name == "a" }
	}
	b, v := openNumbers(t, backendtest.All, without, "a", "b")
	fill(t, b, v[0], "a", numbers(0, 5000)...)
	fill(t, b, v[1], "b", numbers(0, 5000)...)
	h := checkpoint(t, b, fs, 1, backend.SnapshotOptions{})
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}} { // opened before, with other numbers
		b, v = openNumbers(t, backendtest.All, nil, names...)
		check(t, restoreAll(b, fs, 1, h))
		holds(t, b, v[0], names[0], numbers(0, 5000)...)
		holds(t, b, v[1], names[1], numbers(0, 5000)...)
		again := checkpoint(t, b, fs, 2, backend.SnapshotOptions{})
		b, v = openNumbers(t, backendtest.All, nil, "b", "a")
		check(t, restoreAll(b, fs, 2, again))
		holds(t, b, v[1], "a", numbers(0, 5000)...)
	}
}

// What is missing or not as it should be is told by the name of the file, and nothing is taken up.
func TestIncrementalDamaged(t *testing.T) {
	whole := storage.NewMemory()
	b, v := openNumbers(t, backendtest.All, nil, "a")
	fill(t, b, v[0], "a", numbers(0, 3000)...)
	h := checkpoint(t, b, whole, 1, backend.SnapshotOptions{})
	type file struct{ name, uri string }
	files := []file{{"", storage.Join(jobDir, "chk-1", h.Meta.(*metadata.RelativeFile).Path.String())}}
	for _, f := range slices.Concat(h.Shared, h.Private) {
		if name := f.LocalName.String(); name != "CURRENT" { // for RocksDB only
			files = append(files, file{name, f.Stream.(*metadata.File).Path.String()})
		}
	}
	for _, f := range files {
		data, err := storage.ReadAll(t.Context(), whole, f.uri, 0)
		check(t, err)
		cuts := []int{-1, 0, len(data) / 2, len(data) - 1}
		if f.name == "MANIFEST-000001" {
			cuts = numbers(-1, len(data))
		}
		for _, cut := range cuts {
			fs := storage.NewMemory()
			for info, err := range whole.List(t.Context(), jobDir) {
				check(t, err)
				if info.URI != f.uri {
					_, err := storage.Copy(t.Context(), whole, info.URI, fs, info.URI, storage.CopyOptions{})
					check(t, err)
				}
			}
			if cut >= 0 {
				check(t, storage.WriteFile(t.Context(), fs, f.uri, data[:cut], storage.CreateOptions{}))
			}
			again, _ := openNumbers(t, backendtest.All, nil, "a")
			err := restoreAll(again, fs, 1, h)
			if err == nil || !strings.Contains(err.Error(), f.name) {
				t.Errorf("%s of %d bytes cut to %d: %v", f.name, len(data), cut, err)
			}
			check(t, again.Close())
		}
	}
}

// A heap backend says what the files are.
func TestIncrementalForeign(t *testing.T) {
	fs := storage.NewMemory()
	b, v := openNumbers(t, backendtest.All, nil, "a")
	fill(t, b, v[0], "a", 1)
	h := checkpoint(t, b, fs, 1, backend.SnapshotOptions{})
	if _, err := backend.OpenKeyed(t.Context(), backend.Files{FS: fs, Dir: jobDir + "/chk-1"}, h, backend.Options{MaxParallelism: backendtest.MaxParallelism}); !errors.Is(err, backend.ErrPebble) {
		t.Fatal(err)
	}
	if _, err := b.Snapshot(2, backend.SnapshotOptions{Format: backend.FormatIncremental, Savepoint: true}); err == nil {
		t.Fatal("an incremental savepoint")
	}
	s, err := b.Snapshot(2, backend.SnapshotOptions{Format: backend.FormatIncremental})
	check(t, err)
	if _, err := s.Write(t.Context(), backend.Target{FS: fs, Dir: jobDir + "/chk-2"}); err == nil {
		t.Fatal("without a directory for shared files")
	}
}

// A byte that is another one in a table is told when the entry is read, and no value is another one.
func TestIncrementalFlipped(t *testing.T) {
	whole := storage.NewMemory()
	b, v := openNumbers(t, backendtest.All, nil, "a")
	fill(t, b, v[0], "a", numbers(0, 3000)...)
	h := checkpoint(t, b, whole, 1, backend.SnapshotOptions{})
	uri := slices.Sorted(maps.Values(objects(h)))[0]
	data, err := storage.ReadAll(t.Context(), whole, uri, 0)
	check(t, err)
	for i := range 40 {
		fs := storage.NewMemory()
		for info, err := range whole.List(t.Context(), jobDir) {
			check(t, err)
			if info.URI != uri {
				_, err := storage.Copy(t.Context(), whole, info.URI, fs, info.URI, storage.CopyOptions{})
				check(t, err)
			}
		}
		flipped := slices.Clone(data)
		flipped[(len(data)-1)*i/39] ^= 0x10
		check(t, storage.WriteFile(t.Context(), fs, uri, flipped, storage.CreateOptions{}))
		again, v := openNumbers(t, backendtest.All, nil, "a")
		if err := restoreAll(again, fs, 1, h); err != nil {
			continue
		}
		for k := range 3000 {
			check(t, again.SetKey(fmt.Sprint(k)))
			if got, ok, err := v[0].Get(); err == nil && (!ok || got != content("a", k)) {
				t.Fatalf("byte %d: key %d: %q, %v", (len(data)-1)*i/39, k, got, ok)
			}
		}
		_ = again.Compact(t.Context())
		s, err := again.Snapshot(2, backend.SnapshotOptions{})
		check(t, err)
		if _, err := s.Write(t.Context(), backend.Target{FS: fs, Dir: jobDir + "/sp"}); err == nil {
			n, err := again.Len("a")
			if err != nil || n != 3000 {
				t.Fatalf("byte %d: a savepoint of %d entries: %v", (len(data)-1)*i/39, n, err)
			}
		}
		check(t, again.Close())
	}
}

// fullFS is a disk that has no room for tables.
type fullFS struct {
	vfs.FS
	full *atomic.Bool
}

func (f fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() && strings.HasSuffix(name, ".sst") {
		return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return f.FS.Create(name, c)
}

// A full disk fails the checkpoint, which can be taken again when there is room; the name of the directory may be any.
func TestIncrementalFullDisk(t *testing.T) {
	var full atomic.Bool
	fs := storage.NewMemory()
	b, v := openNumbers(t, backendtest.All, func(o *pebble.Options[string]) {
		o.Dir = filepath.Join(t.TempDir(), "slot[1]*", "db")
		o.Configure = func(p *cockroach.Options) { p.FS = fullFS{p.FS, &full} }
	}, "a")
	fill(t, b, v[0], "a", numbers(0, 1000)...)
	full.Store(true)
	if _, err := b.Snapshot(1, backend.SnapshotOptions{Format: backend.FormatIncremental}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	full.Store(false)
	h := checkpoint(t, b, fs, 2, backend.SnapshotOptions{})
	again, v := openNumbers(t, backendtest.All, nil, "a")
	check(t, restoreAll(again, fs, 2, h))
	holds(t, again, v[0], "a", numbers(0, 1000)...)
}
