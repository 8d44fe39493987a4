package localrecovery

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/storage"
)

// modelCopy is what a copy should have.
type modelCopy struct {
	files  map[string]bool
	sealed bool
	c      *Copy
	gone   bool
}

// TestHistories runs random histories of one task beside a plain model: which checkpoints have a copy, and with which objects.
func TestHistories(t *testing.T) {
	db := t.TempDir()
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		write(t, filepath.Join(db, name), contentOf("s3://b/shared/"+name, 100))
	}
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(db, "root")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		open := func() (*Store, *Task) {
			s, err := Open(Options{Roots: []string{root + "/1", root + "/2"}})
			if err != nil {
				rt.Fatal(err)
			}
			s.boot = "this-one"
			k, err := s.Task(me)
			if err != nil {
				rt.Fatal(err)
			}
			return s, k
		}
		s, k := open()
		defer func() { s.Close() }()
		primary := storage.NewMemory()
		model := map[int64]*modelCopy{}
		var begun []*modelCopy // also those that are gone
		confirmed, made := int64(-1), 0
		remove := func(which func(int64, *modelCopy) bool) {
			for n, m := range model {
				if which(n, m) {
					m.gone = true
					delete(model, n)
				}
			}
		}
		number := rapid.Int64Range(0, 9)
		some := func(rt *rapid.T) *modelCopy {
			if len(begun) == 0 {
				rt.Skip()
			}
			return begun[rapid.IntRange(0, len(begun)-1).Draw(rt, "copy")]
		}
		add := func(m *modelCopy, uri string) {
			if !m.sealed && !m.gone {
				m.files[uri] = true
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"begin": func(rt *rapid.T) {
				n := number.Draw(rt, "checkpoint")
				m := &modelCopy{files: map[string]bool{}, c: k.Begin(n), gone: n <= confirmed}
				begun = append(begun, m)
				if !m.gone {
					remove(func(o int64, _ *modelCopy) bool { return o == n })
					model[n] = m
				}
			},
			"write": func(rt *rapid.T) {
				m := some(rt)
				made++
				uri := fmt.Sprintf("s3://b/%d", made)
				w, err := m.c.FS(primary).Create(t.Context(), uri, storage.CreateOptions{})
				if err != nil {
					rt.Fatal(err)
				}
				w.Write(contentOf(uri, 100))
				if rapid.Bool().Draw(rt, "abort") {
					w.Abort()
				} else if err := w.Commit(); err != nil {
					rt.Fatal(err)
				} else {
					add(m, uri)
				}
			},
			"keep": func(rt *rapid.T) {
				m, name := some(rt), rapid.SampledFrom(names).Draw(rt, "name")
				m.c.FS(primary).(storage.Keeper).Keep(t.Context(), "s3://b/shared/"+name, filepath.Join(db, name))
				add(m, "s3://b/shared/"+name)
			},
			"seal": func(rt *rapid.T) {
				m := some(rt)
				m.c.Seal(t.Context())
				m.sealed = true
				remove(func(_ int64, o *modelCopy) bool { return o == m && len(m.files) == 0 })
			},
			"confirm": func(rt *rapid.T) {
				n := number.Draw(rt, "checkpoint")
				k.Confirm(n)
				confirmed = max(confirmed, n)
				remove(func(o int64, _ *modelCopy) bool { return o < confirmed })
			},
			"discard": func(rt *rapid.T) {
				n := number.Draw(rt, "checkpoint")
				k.Discard(n)
				remove(func(o int64, _ *modelCopy) bool { return o == n && n != confirmed })
			},
			"restore": func(rt *rapid.T) {
				n := number.Draw(rt, "checkpoint")
				r := k.Restore(t.Context(), n, failing{})
				confirmed = n
				remove(func(o int64, m *modelCopy) bool { return o != n || !m.sealed })
				m := model[n]
				for i := range made + 1 {
					uri := fmt.Sprintf("s3://b/%d", i)
					has := m != nil && m.files[uri]
					if o, err := r.Open(t.Context(), uri); (err == nil) != has {
						rt.Fatalf("%s of checkpoint %d: %v", uri, n, err)
					} else if has {
						data := make([]byte, 100)
						if _, err := o.ReadAt(data, 0); err != nil && err != io.EOF || string(data) != string(contentOf(uri, 100)) {
							rt.Fatalf("%s has other bytes: %v", uri, err)
						}
						o.Close()
					}
				}
				for _, name := range names {
					if _, ok := r.Locate(t.Context(), "s3://b/shared/"+name); ok != (m != nil && m.files["s3://b/shared/"+name]) {
						rt.Fatalf("Locate of %s in checkpoint %d says %v", name, n, ok)
					}
				}
			},
			"restart": func(rt *rapid.T) {
				if rapid.Bool().Draw(rt, "crash") {
					crash(s)
				} else if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				s, k = open()
				confirmed = -1
				remove(func(_ int64, m *modelCopy) bool { return !m.sealed })
			},
			"": func(rt *rapid.T) {
				var want []int64
				files := 0
				for _, n := range slices.Sorted(maps.Keys(model)) {
					if m := model[n]; m.sealed {
						want = append(want, n)
						files++ // the index
					}
					files += len(model[n].files)
				}
				if got := k.Checkpoints(); !slices.Equal(got, want) {
					rt.Fatalf("copies of %v, want %v", got, want)
				}
				found := 0
				for _, d := range []string{"/1", "/2"} {
					filepath.WalkDir(root+d, func(_ string, d os.DirEntry, err error) error {
						if err == nil && !d.IsDir() && d.Name() != lockName {
							found++
						}
						return err
					})
				}
				if found != files {
					rt.Fatalf("%d files on disk, want %d", found, files)
				}
			},
		})
	})
}
