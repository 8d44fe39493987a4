package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// besideFS finds files beside the metadata whatever the path that names them:
// the files of Flink's own test resources were moved there.
type besideFS struct {
	storage.FS
	dir string
}

func (f besideFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	o, err := f.FS.Open(ctx, uri)
	if errors.Is(err, fs.ErrNotExist) {
		return f.FS.Open(ctx, storage.Join(f.dir, storage.Base(uri)))
	}
	return o, err
}

// publicTally counts what Flink's test resources hold.
type publicTally struct {
	mu                          sync.Mutex
	snapshots, entries, unknown map[string]int
	// lost counts snapshots that have entries which cannot be read, by reason.
	lost    map[string]int
	lacking []string
}

func (a *publicTally) lose(reasons map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for why := range reasons {
		a.lost[why]++
	}
}

// add counts the values that have no form but their bytes.
func (a *publicTally) add(origin string, c *content) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.snapshots[origin]++
	a.entries[origin] += c.entries
	for _, o := range c.operators {
		for _, s := range o.keyed {
			for _, e := range s.entries {
				for _, v := range []any{e.key, e.namespace, e.userKey, e.value} {
					a.opaque(v)
				}
			}
		}
		for _, s := range o.states {
			for _, list := range s.lists {
				a.opaque(list)
			}
			for _, m := range s.maps {
				a.opaque(m)
			}
		}
	}
}

func (a *publicTally) opaque(v any) {
	switch v := v.(type) {
	case serializer.Opaque:
		a.unknown[v.Class+": "+v.Reason]++
	case []any:
		for _, e := range v {
			a.opaque(e)
		}
	case serializer.Map:
		for _, e := range v {
			a.opaque(e.Key)
			a.opaque(e.Value)
		}
	case *serializer.Record:
		for _, f := range v.Fields {
			a.opaque(f.Value)
		}
	case serializer.Either:
		a.opaque(v.Value)
	case serializer.TTL:
		a.opaque(v.Value)
	}
}

// TestPublicSnapshots decodes all snapshots among the test resources of
// Flink's releases to the end. They have no truth; each key must be in the
// range of its handle, and each value must end where its bytes do.
func TestPublicSnapshots(t *testing.T) {
	root := filepath.Join(sharedFixtures(t), "public")
	var paths []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == MetadataName {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 490 {
		t.Fatalf("%d snapshots, %v", len(paths), err)
	}
	total := &publicTally{snapshots: map[string]int{}, entries: map[string]int{}, unknown: map[string]int{}, lost: map[string]int{}}
	t.Run("cases", func(t *testing.T) {
		for _, path := range paths {
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			t.Run(filepath.ToSlash(rel), func(t *testing.T) {
				t.Parallel()
				readPublic(t, path, filepath.ToSlash(rel), total)
			})
		}
	})
	for _, origin := range slices.Sorted(maps.Keys(total.snapshots)) {
		t.Logf("%s: %d snapshots, %d entries decoded to the end", origin, total.snapshots[origin], total.entries[origin])
	}
	for _, class := range slices.Sorted(maps.Keys(total.unknown)) {
		t.Logf("%d values of %s", total.unknown[class], class)
	}
	for why, n := range total.lost {
		t.Logf("%d snapshots with entries %s", n, why)
		if n > 6 {
			t.Errorf("%d snapshots with entries %s", n, why)
		}
	}
	t.Logf("by Flink 1.1, which no later Flink reads: %s", strings.Join(total.lacking, ", "))
	if len(total.lacking) > 2 {
		t.Errorf("%d snapshots could not be read", len(total.lacking))
	}
}

// byNature says why an entry cannot be read by anyone without the job's
// classes, or "".
func byNature(err error) string {
	if !errors.Is(err, serializer.ErrUnsupported) {
		return ""
	}
	switch text := err.Error(); {
	case strings.Contains(text, "TypeSerializerSnapshotMigrationITCase$TestSerializer"):
		return "on a heap, where values have no length, by a serializer of the job's own"
	case strings.Contains(text, "inline change") && strings.Contains(text, "the serializer of keys"):
		return "of a changelog without a base, in which nothing says how keys are written"
	}
	return ""
}

func readPublic(t *testing.T, path, rel string, total *publicTally) {
	dir := "file:" + filepath.ToSlash(filepath.Dir(path))
	c, err := readContent(t.Context(), besideFS{storage.NewLocal(storage.LocalOptions{}), dir}, dir)
	if errors.Is(err, metadata.ErrVersion) {
		// Flink 1.1 serialized the objects of its own classes; no later Flink reads it.
		total.mu.Lock()
		total.lacking = append(total.lacking, rel)
		total.mu.Unlock()
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := map[string]bool{}
	for _, err := range slices.Concat(c.errs, c.missing) {
		if why := byNature(err); why != "" {
			lost[why] = true
		} else {
			t.Error(err)
		}
	}
	total.lose(lost)
	parts := strings.SplitN(rel, "/", 3)
	total.add(fmt.Sprintf("%s %s", parts[0], parts[1]), c)
}
