package tools

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// upload copies a directory of the local disk to a store.
func upload(t testing.TB, fsys storage.FS, dir, to string) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rest, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		g.Go(func() error {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return storage.WriteFile(t.Context(), fsys, storage.Join(to, filepath.ToSlash(rest)), data, storage.CreateOptions{})
		})
		return nil
	})
	if err := errors.Join(err, g.Wait()); err != nil {
		t.Fatal(err)
	}
}

// onS3 runs a test on both S3 servers, in a directory with a name that is easy to get wrong. The store
// knows the local disk, too: on it Flink wrote the fixtures, so that files are missing there.
func onS3(t *testing.T, test func(t *testing.T, s testStore)) {
	for _, name := range []string{"A", "B"} {
		t.Run("S3 "+name, func(t *testing.T) {
			s := bucketOf(t, name)
			s.base = storage.Join(s.base, oddNames)
			s.fsys = storage.Mux{"s3": s.fsys, "file": storage.NewLocal(storage.LocalOptions{})}
			test(t, s)
		})
	}
}

// TestAuditFixturesOnS3 finds in copies of fixtures what Flink's own reader found, as [TestAuditFixtures] does on the disk.
func TestAuditFixturesOnS3(t *testing.T) {
	root := filepath.Join(sharedFixtures(t), "extra")
	for _, name := range []string{"1.20.5/ck-litter-abort", "2.3.0/ck-rocksdb-claim-native", "2.3.0/ck-s3-entropy", "2.3.0/ck-forst-remote-kill", "1.20.5/ck-s3-unicode"} {
		t.Run(name, func(t *testing.T) {
			onS3(t, func(t *testing.T, s testStore) {
				dir := filepath.Join(root, filepath.FromSlash(name))
				upload(t, s.fsys, dir, s.base)
				want := litterIn(t, dir)
				for _, d := range want.EmptyDirs {
					s.mkdir(t, storage.Join(s.base, d))
				}
				auditCopy(t, s.fsys, dir, s.base, want)
			})
		})
	}
}

// TestRepairClaimOnS3 is on checkpoints of jobs that claimed a native savepoint: what dangles was found with Flink's own reader.
func TestRepairClaimOnS3(t *testing.T) {
	dir := filepath.Join(sharedFixtures(t), "extra", "2.3.0", "ck-rocksdb-claim-native")
	onS3(t, func(t *testing.T, s testStore) {
		upload(t, s.fsys, dir, s.base)
		want := litterIn(t, dir).Dangling
		if len(want) != 2 {
			t.Fatalf("%d snapshots", len(want))
		}
		for name, dangling := range want {
			p := planRepair(t, s.fsys, storage.Join(s.base, name), RepairOptions{})
			var relative []string
			for _, f := range p.Files {
				if f.State != RepairFound || len(f.Candidates) != 1 || !f.Candidates[0].Checked {
					t.Errorf("%s: %s, %+v", f.Path, f.State, f.Candidates)
				}
				if f.Relative {
					rest, _ := storage.Rel(s.base, f.Path)
					relative = append(relative, rest)
				}
			}
			compareSets(t, "dangling references of "+name, relative, dangling)
			rewritten(t, s.fsys, p, VerifyOptions{})
			if again := planRepair(t, s.fsys, storage.Join(s.base, name), RepairOptions{}); !again.Done() {
				t.Errorf("%s: after the repair %d files are lost", name, len(again.Files))
			}
		}
	})
}

// TestRepairRenamedOnS3 is a job whose directory has another name than its metadata says; one of file merging
// has directories in its metadata, too.
func TestRepairRenamedOnS3(t *testing.T) {
	for _, from := range []string{"1.20.5/ck-rocksdb-incr/ckpt/64b9b5bf8a7f34f89dc6cf585ae90afe", "2.3.0/ck-filemerging-hashmap/ckpt/d5ab2dcd187e33a68f8ec117626056c7"} {
		t.Run(from, func(t *testing.T) {
			onS3(t, func(t *testing.T, s testStore) {
				at := storage.Join(s.base, "ckpt", ownerB)
				upload(t, s.fsys, filepath.Join(keptSnapshots, filepath.FromSlash(from)), at)
				p := planRepair(t, s.fsys, at, RepairOptions{})
				if p.Done() || !p.Repairable() || p.Chosen == "" {
					t.Fatalf("%v, chosen %q", repairStates(p), p.Chosen)
				}
				rewritten(t, s.fsys, p, VerifyOptions{})
				repairedSnapshot, err := Open(t.Context(), s.fsys, p.Target)
				if err != nil {
					t.Fatal(err)
				}
				directories := 0
				for r := range repairedSnapshot.Refs() {
					if _, ok := storage.Rel(at, r.Path); r.Kind != metadata.RefRelative && !ok {
						t.Errorf("%s still names %s", r.Field(), r.Path)
					}
					if r.Kind == metadata.RefDirectory {
						directories++
					}
				}
				if merging := strings.Contains(from, "filemerging"); merging != (directories > 0) {
					t.Errorf("%d directories of file merging", directories)
				}
			})
		})
	}
}

// TestRepairHalfCopyOnS3 is a savepoint of which every third file was not copied: it is repaired where the original
// is, and nothing is written where no file fits, or two, or one with a bit that is not right.
func TestRepairHalfCopyOnS3(t *testing.T) {
	onS3(t, func(t *testing.T, s testStore) {
		from := filepath.Join(keptSnapshots, "1.20.5", "sp-native-rocksdb-files", "savepoint-9a3f7f-82cc97159642")
		original, half, second := storage.Join(s.base, "original/sp"), storage.Join(s.base, "copies/half"), storage.Join(s.base, "second/sp")
		for _, to := range []string{original, half, second} {
			upload(t, s.fsys, from, to)
		}
		var lost []string
		for i, name := range listing(t, from) {
			if name != MetadataName && i%3 == 0 {
				lost = append(lost, storage.Join(half, name))
			}
		}
		if err := s.fsys.Delete(t.Context(), lost...); err != nil {
			t.Fatal(err)
		}
		names := func() (list []string) {
			for info, err := range s.fsys.List(t.Context(), half) {
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, info.URI)
			}
			slices.Sort(list)
			return list
		}
		before := names()
		refused := func(state string, n int, o RepairOptions) {
			t.Helper()
			p := planRepair(t, s.fsys, half, o)
			if got := repairStates(p); got[state] != n || p.Repairable() {
				t.Errorf("%v, want %d %q", got, n, state)
			}
			if err := p.Execute(t.Context()); !errors.Is(err, ErrRefused) {
				t.Errorf("got %v, want a refusal", err)
			}
			if now := names(); !slices.Equal(now, before) {
				t.Errorf("%d objects became %d", len(before), len(now))
			}
		}
		refused(RepairNotFound, len(lost), RepairOptions{Unchecked: true})
		refused(RepairAmbiguous, len(lost), RepairOptions{Roots: []string{original, second}, Unchecked: true})
		if _, err := PlanRepair(t.Context(), s.fsys, half, RepairOptions{Roots: []string{original + "-no"}}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory to look in that is not there: %v", err)
		}

		// Every block of a table has a checksum, so that a table with a wrong bit is not taken.
		spoiled := 0
		for _, f := range planRepair(t, s.fsys, half, RepairOptions{Roots: []string{second}, Unchecked: true}).Files {
			if !strings.HasSuffix(f.Uses[0].LocalName, ".sst") {
				continue
			}
			data, err := storage.ReadAll(t.Context(), s.fsys, f.New, maxMetadata)
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.Clone(data)
			data[len(data)/3] ^= 1
			if err := storage.WriteFile(t.Context(), s.fsys, f.New, data, storage.CreateOptions{Overwrite: true}); err != nil {
				t.Fatal(err)
			}
			spoiled++
		}
		if spoiled < 5 {
			t.Fatalf("only %d tables", spoiled)
		}
		refused(RepairNotFound, spoiled, RepairOptions{Roots: []string{second}})

		p := planRepair(t, s.fsys, half, RepairOptions{Roots: []string{original}})
		wantStates(t, p, map[string]int{RepairFound: len(lost)})
		rewritten(t, s.fsys, p, VerifyOptions{})
	})
}
