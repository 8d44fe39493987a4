package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

const (
	dir    = "mem://checkpoints/chk-1"
	shared = "mem://checkpoints/shared"
)

var formats = []backend.Format{backend.FormatCanonical, backend.FormatFull, backend.FormatRocksDB, backend.FormatIncremental}

// foreign checks that a backend that can't restore the files of another's database says so.
func foreign(t *testing.T, open Opener, fs storage.FS, h backend.Handles) bool {
	t.Helper()
	if i, ok := h.Managed[0].(*metadata.Incremental); !ok || !backend.IsPebble(i) {
		return false
	}
	b := open(t, All, nil)
	err := restore(b, fs, h)
	must(t, b.Close())
	if err != nil && !errors.Is(err, backend.ErrPebble) {
		t.Fatal(err)
	}
	return err != nil
}

// Sizes of what is put inline: everything, or nothing.
const (
	inline = 1 << 30
	inFile = -1
)

// save writes a snapshot of a backend as it is now.
func save(t tb, b backend.Keyed[string], fs storage.FS, inlineBelow int, o backend.SnapshotOptions) backend.Handles {
	t.Helper()
	return write(t, made[backend.Snapshot](t)(b.Snapshot(1, o)), fs, inlineBelow)
}

// write writes a snapshot.
func write(t tb, s backend.Snapshot, fs storage.FS, inlineBelow int) backend.Handles {
	t.Helper()
	return handles(s, made[metadata.Keyed](t)(s.Write(context.Background(), backend.Target{FS: fs, Dir: dir, Shared: shared, InlineBelow: inlineBelow})))
}

// handles are those of a snapshot that gave h when it was written.
func handles(s backend.Snapshot, h metadata.Keyed) backend.Handles {
	all := backend.Handles{Managed: []metadata.Keyed{h}}
	if raw := s.Raw(); raw != nil {
		all.Raw = []metadata.Keyed{raw}
	}
	return all
}

// canonical gives the bytes of a canonical savepoint.
func canonical(t tb, b backend.Keyed[string], compress bool) string {
	t.Helper()
	h := save(t, b, storage.NewMemory(), inline, backend.SnapshotOptions{Compress: compress})
	return string(h.Managed[0].(*metadata.KeyGroups).Delegate.(*metadata.ByteStream).Data)
}

func restore(b backend.Keyed[string], fs storage.FS, h ...backend.Handles) error {
	var all backend.Handles
	for _, one := range h {
		all.Managed, all.Raw = append(all.Managed, one.Managed...), append(all.Raw, one.Raw...)
	}
	return b.Restore(context.Background(), backend.Files{FS: fs, Dir: dir}, all)
}

// files counts what is stored.
func files(t tb, fs storage.FS) int {
	t.Helper()
	n := 0
	for _, err := range fs.List(context.Background(), "mem://checkpoints") {
		must(t, err)
		n++
	}
	return n
}

// eachKind calls f for each kind of backend with a name, in order.
func eachKind(all map[string]Opener, f func(name string, open Opener)) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f(name, all[name])
	}
}

func testSnapshots(t *testing.T, open Opener, restorers map[string]Opener) {
	bed := newBed()
	source := open(t, All, bed.now)
	bed.settle(t, source)
	bed.steps(t, random(1), 700)
	bed.check(t, "before")
	for _, format := range formats {
		for _, compress := range []bool{false, true} {
			for _, below := range []int{inline, inFile} {
				fs := storage.NewMemory()
				h := save(t, source, fs, below, backend.SnapshotOptions{Format: format, Compress: compress})
				one := 1 // a database has many
				switch n := files(t, fs); format {
				case backend.FormatRocksDB:
					one = max(n, 2)
				case backend.FormatIncremental: // on heap it is one file
					one = max(n, 1)
				}
				if below == inFile && files(t, fs) != one || below == inline && files(t, fs) != 0 {
					t.Fatalf("%d files, inline %d", files(t, fs), below)
				}
				eachKind(restorers, func(name string, open Opener) {
					if foreign(t, open, fs, h) {
						return
					}
					for _, before := range []bool{false, true} {
						b := open(t, All, bed.now)
						again := &mirror{bed, nil}
						if before {
							again.w = inhabit(t, b)
						}
						must(t, restore(b, fs, h))
						if !before {
							again.w = inhabit(t, b)
						}
						again.check(t, fmt.Sprintf("format %v, compressed %v, inline %d, restored by %s, opened before %v", format, compress, below, name, before))
						if _, ok, err := again.w.event.Next(); !ok || err != nil {
							t.Fatalf("no next timer: %v", err)
						}
						must(t, b.Close())
					}
				})
			}
		}
	}
	// The backend went on as if nothing had been.
	bed.steps(t, random(2), 200)
	bed.check(t, "after")
}

// mirror is another backend that must hold what a bed does.
type mirror struct {
	of *bed
	w  *world
}

func (b *mirror) check(t tb, what string) {
	t.Helper()
	got := map[string]any{}
	b.w.read(t, got)
	equal(t, what, got, b.of.want())
}

func testSameBytes(t *testing.T, all map[string]Opener) {
	for _, compress := range []bool{false, true} {
		want := ""
		eachKind(all, func(name string, open Opener) {
			bed := newBed()
			b := open(t, All, bed.now)
			bed.settle(t, b)
			bed.steps(t, random(3), 1500)
			got := canonical(t, b, compress)
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s: another file of %d bytes, compressed %v", name, len(got), compress)
			}
		})
	}
}

// piece is a handle and its key groups.
type piece struct {
	groups keygroup.Range
	h      backend.Handles
}

// rescale saves the state of all subtasks and restores it into so many.
func (b *bed) rescale(t tb, parallelism int, o backend.SnapshotOptions, open func(keygroup.Range) backend.Keyed[string]) {
	t.Helper()
	fs := storage.NewMemory()
	var pieces []piece
	for _, w := range b.worlds {
		pieces = append(pieces, piece{w.b.KeyGroups(), save(t, w.b, fs, inFile, o)})
		must(t, w.b.Close())
	}
	slices.Reverse(pieces) // they may come in any order
	b.worlds = nil
	for i := range parallelism {
		groups := keygroup.RangeOf(i, MaxParallelism, parallelism)
		var handles []backend.Handles
		for _, p := range pieces {
			if !p.groups.Intersect(groups).Empty() {
				handles = append(handles, p.h)
			}
		}
		k := open(groups)
		must(t, restore(k, fs, handles...))
		b.worlds = append(b.worlds, inhabit(t, k))
	}
}

func testRescale(t *testing.T, all map[string]Opener) {
	kinds := slices.Sorted(maps.Keys(all))
	for turn := range kinds {
		bed := newBed()
		bed.settle(t, all[kinds[turn]](t, All, bed.now))
		bed.steps(t, random(4), 1000)
		for i, parallelism := range []int{2, 3, 1, 3} {
			bed.rescale(t, parallelism, backend.SnapshotOptions{Format: backend.Format(i % 3)}, func(groups keygroup.Range) backend.Keyed[string] {
				turn++
				return all[kinds[turn%len(kinds)]](t, groups, bed.now)
			})
			bed.check(t, fmt.Sprintf("%d subtasks", parallelism))
			bed.steps(t, random(5), 200)
		}
	}
}

func testUnopened(t *testing.T, open Opener, restorers map[string]Opener) {
	bed := newBed()
	source := open(t, All, bed.now)
	bed.settle(t, source)
	bed.steps(t, random(6), 700)
	want := canonical(t, source, false)
	eachKind(restorers, func(name string, restorer Opener) {
		for _, format := range formats {
			fs := storage.NewMemory()
			h := save(t, source, fs, 0, backend.SnapshotOptions{Format: format})
			if foreign(t, restorer, fs, h) {
				continue
			}
			b := restorer(t, All, bed.now)
			must(t, restore(b, fs, h))
			// Raw keyed state comes behind the other, so that its states have other numbers, and has both queues of each service.
			count := 11
			if h.Raw != nil {
				count += 2
			}
			// An incremental checkpoint has what expired, too.
			if got := canonical(t, b, false); got != want && h.Raw == nil && format != backend.FormatIncremental {
				t.Errorf("%s, format %v: another savepoint of %d bytes; want %d", name, format, len(got), len(want))
			}
			h = save(t, b, fs, 0, backend.SnapshotOptions{Format: backend.FormatFull})
			must(t, b.Close())
			b = open(t, All, bed.now)
			must(t, restore(b, fs, h))
			equal(t, "states", len(b.States()), count)
			(&mirror{bed, inhabit(t, b)}).check(t, name+" and back")
			must(t, b.Close())
		}
	})
}

// Snapshots that overlap are written and given up in any order.
func testOverlap(t *testing.T, open Opener) {
	bed := newBed()
	bed.clock = 0
	b := open(t, All, bed.now)
	bed.settle(t, b)
	d := random(8)
	type taken struct {
		s     backend.Snapshot
		want  map[string]any
		clock int64
	}
	var snapshots []taken
	for range 12 {
		bed.steps(t, d, 200)
		snapshots = append(snapshots, taken{made[backend.Snapshot](t)(b.Snapshot(1, backend.SnapshotOptions{})), bed.want(), bed.clock})
	}
	for len(snapshots) > 0 {
		last := len(snapshots) - 1
		snapshots[last].s.Release()
		bed.steps(t, d, 200)
		if snapshots = snapshots[:last]; last == 0 {
			break
		}
		first := snapshots[0]
		snapshots = snapshots[1:]
		fs := storage.NewMemory()
		h := write(t, first.s, fs, 0)
		again := open(t, All, func() int64 { return first.clock })
		must(t, restore(again, fs, h))
		got := map[string]any{}
		inhabit(t, again).read(t, got)
		equal(t, "a snapshot", got, first.want)
		must(t, again.Close())
	}
	bed.check(t, "the backend itself")
}
