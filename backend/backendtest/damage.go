package backendtest

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// testCanceled cancels the writing of a snapshot at each step: nothing is left, and the next one is written.
func testCanceled(t *testing.T, open Opener) {
	bed := newBed()
	b := open(t, All, bed.now)
	bed.settle(t, b)
	bed.steps(t, random(11), 500)
	for _, format := range formats {
		sound := storagetest.NewFaulty(storage.NewMemory(), storagetest.FaultOptions{})
		o := backend.SnapshotOptions{Format: format}
		save(t, b, sound, inFile, o)
		for n := 1; n <= sound.Steps(); n++ {
			ctx, cancel := context.WithCancel(t.Context())
			store := storage.NewMemory()
			fs := storagetest.NewFaulty(store, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.N == n {
					cancel()
					return &storagetest.Fault{Err: ctx.Err()}
				}
				return nil
			}})
			s := made[backend.Snapshot](t)(b.Snapshot(1, o))
			if _, err := s.Write(ctx, backend.Target{FS: fs, Dir: dir, Shared: shared, InlineBelow: inFile}); !errors.Is(err, context.Canceled) {
				t.Fatalf("format %v, step %d: %v", format, n, err)
			}
			equal(t, "files that are left", files(t, store), 0)
		}
		fs := storage.NewMemory()
		again := open(t, All, bed.now)
		must(t, restore(again, fs, save(t, b, fs, inFile, o)))
		(&mirror{bed, inhabit(t, again)}).check(t, "the next snapshot")
		must(t, again.Close())
	}
}

// testDamaged restores snapshots of which one file was cut or has another byte: an error must name the file, and where in it.
func testDamaged(t *testing.T, open Opener) {
	bed := newBed()
	b := open(t, All, bed.now)
	bed.settle(t, b)
	bed.steps(t, random(12), 700)
	for _, o := range []backend.SnapshotOptions{
		{Format: backend.FormatCanonical}, {Format: backend.FormatCanonical, Compress: true},
		{Format: backend.FormatFull}, {Format: backend.FormatFull, Compress: true}, {Format: backend.FormatRocksDB},
	} {
		fs := storage.NewMemory()
		h := save(t, b, fs, inFile, o)
		var uris []string
		for info, err := range fs.List(t.Context(), "mem://checkpoints") {
			must(t, err)
			uris = append(uris, info.URI)
		}
		names := map[string]string{} // by those of the files: what RocksDB calls them
		if db, ok := h.Managed[0].(*metadata.Incremental); ok {
			for _, f := range append(db.Shared, db.Private...) {
				names[f.Stream.(*metadata.RelativeFile).Path.String()] = f.LocalName.String()
			}
		}
		isRaw := map[string]bool{}
		for _, raw := range h.Raw {
			isRaw[raw.(*metadata.KeyGroups).Delegate.(*metadata.RelativeFile).Path.String()] = true
		}
		for _, uri := range uris {
			whole := made[[]byte](t)(storage.ReadAll(t.Context(), fs, uri, 0))
			name, isTable := path.Base(uri), false
			if local := names[name]; local != "" {
				name, isTable = local, strings.HasSuffix(local, ".sst")
			}
			refuse := func(what string, data []byte, checked bool) {
				t.Helper()
				must(t, fs.Delete(t.Context(), uri))
				must(t, storage.WriteFile(t.Context(), fs, uri, data, storage.CreateOptions{}))
				again := open(t, All, bed.now)
				err := restore(again, fs, h)
				must(t, again.Close())
				if isRaw[path.Base(uri)] {
					// Raw state that is damaged is taken for that of an operator, which is refused as such.
					if checked && err == nil {
						t.Errorf("raw state, %s: taken", what)
					}
					return
				}
				if checked && (err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "offset") && !strings.Contains(err.Error(), "bytes")) {
					t.Errorf("format %v, compressed %v, %s of %d bytes, %s: %v", o.Format, o.Compress, name, len(whole), what, err)
				}
			}
			for _, n := range []int{0, 1, len(whole) / 3, len(whole) / 2, len(whole) - 1} {
				refuse("cut", whole[:n], true)
			}
			for _, at := range []int{0, len(whole) / 3, len(whole) / 2, len(whole) - 2} {
				data := append([]byte(nil), whole...)
				data[at] ^= 0x5a
				// Only tables have checksums everywhere; elsewhere it may be another value, or the name of a class.
				refuse("changed", data, at == 0 || isTable)
			}
			must(t, fs.Delete(t.Context(), uri))
			must(t, storage.WriteFile(t.Context(), fs, uri, whole, storage.CreateOptions{}))
		}
		again := open(t, All, bed.now)
		must(t, restore(again, fs, h))
		must(t, again.Close())
	}
}
