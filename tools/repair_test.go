package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// keptSnapshots are the snapshots beside the command.
const keptSnapshots = "drey/testdata/snapshots"

// copyTree copies a directory and gives the URI of the copy.
func copyTree(t *testing.T, from, to string) string {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return "file:" + to
}

// local is the path of a URI of the local disk.
func local(uri string) string { return strings.TrimPrefix(uri, "file:") }

func planRepair(t *testing.T, fsys storage.FS, src string, o RepairOptions) *RepairPlan {
	t.Helper()
	p, err := PlanRepair(t.Context(), fsys, src, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// repaired executes a plan, and demands that the old metadata is kept and all state can be read.
func repaired(t *testing.T, fsys storage.FS, p *RepairPlan) {
	t.Helper()
	if c := rewritten(t, fsys, p, VerifyOptions{Deep: true}); c.Deep == nil || c.Deep.Entries == 0 || len(c.Deep.Damage) > 0 {
		t.Errorf("%s: %+v", p.Target, c.Deep)
	}
}

// rewritten executes a plan, and demands that the old metadata is kept and that the new is intact.
func rewritten(t *testing.T, fsys storage.FS, p *RepairPlan, o VerifyOptions) *SnapshotCheck {
	t.Helper()
	old, err := storage.ReadAll(t.Context(), fsys, p.Source, maxMetadata)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept, err := storage.ReadAll(t.Context(), fsys, p.Backup, maxMetadata)
	if err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the old metadata was not kept: %v", err)
	}
	v, err := Verify(t.Context(), fsys, []string{p.Target}, o)
	if err != nil {
		t.Fatal(err)
	}
	c := &v.Snapshots[0]
	if c.Verdict != VerdictIntact {
		t.Errorf("%s is %s: %v", p.Target, c.Verdict, c.Problems)
	}
	return c
}

// states maps what became of each lost file, by its name.
func repairStates(p *RepairPlan) map[string]int {
	n := map[string]int{}
	for _, f := range p.Files {
		n[f.State]++
	}
	return n
}

func wantStates(t *testing.T, p *RepairPlan, want map[string]int) {
	t.Helper()
	got := repairStates(p)
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%d files %q, want %d", got[k], k, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("states %v, want %v", got, want)
	}
}

// wantRefused demands that a plan is not executed and that nothing is written.
func wantRefused(t *testing.T, p *RepairPlan) {
	t.Helper()
	before := listing(t, local(storage.Dir(p.Source)))
	if err := p.Execute(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want a refusal", err)
	}
	if after := listing(t, local(storage.Dir(p.Source))); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestRepairClaim is on checkpoints of jobs that claimed a native savepoint (FLINK-39964). Which
// references dangle was found with Flink's own reader.
func TestRepairClaim(t *testing.T) {
	root := sharedFixtures(t)
	for _, v := range []string{"1.20.5", "2.3.0"} {
		from := filepath.Join(root, "extra", v, "ck-rocksdb-claim-native")
		var orphans struct{ DanglingReferences map[string][]string }
		data, err := os.ReadFile(filepath.Join(from, "orphans.json"))
		if err == nil {
			err = json.Unmarshal(data, &orphans)
		}
		if err != nil {
			t.Fatal(err)
		}
		fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
		at := copyTree(t, from, filepath.Join(t.TempDir(), oddNames))
		if len(orphans.DanglingReferences) != 2 {
			t.Fatalf("%d snapshots", len(orphans.DanglingReferences))
		}
		for dir, dangling := range orphans.DanglingReferences {
			p := planRepair(t, fsys, storage.Join(at, dir), RepairOptions{})
			var relative []string
			for _, f := range p.Files {
				if f.State != RepairFound || len(f.Candidates) != 1 || !f.Candidates[0].Checked {
					t.Errorf("%s: %s, %+v", f.Path, f.State, f.Candidates)
				}
				if storage.Base(f.New) != storage.Base(f.Path) {
					t.Errorf("%s for %s", f.New, f.Path)
				}
				if !f.Relative {
					continue
				}
				name, _ := storage.Rel(at, f.Path)
				relative = append(relative, name)
				if name := storage.Base(storage.Dir(f.New)); !strings.HasPrefix(name, "savepoint-17c605-") {
					t.Errorf("%s found in %s", f.Path, name)
				}
			}
			slices.Sort(relative)
			slices.Sort(dangling)
			if !slices.Equal(relative, dangling) {
				t.Errorf("%s %s: dangling are %v, want %v", v, dir, relative, dangling)
			}
			if p.ToAbsolute != len(dangling) {
				t.Errorf("%d handles become absolute, want %d", p.ToAbsolute, len(dangling))
			}
			repaired(t, fsys, p)
			if again := planRepair(t, fsys, storage.Join(at, dir), RepairOptions{}); !again.Done() || again.Execute(t.Context()) != nil {
				t.Errorf("%s: after the repair %d files are lost", dir, len(again.Files))
			}
		}
	}
}

// TestRepairRenamed is a job's directory that was renamed, with paths that name the old place.
func TestRepairRenamed(t *testing.T) {
	fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
	for _, c := range []struct {
		from, dir string
		dirs      int // of file merging
	}{
		{"1.20.5/ck-rocksdb-incr", "ckpt/64b9b5bf8a7f34f89dc6cf585ae90afe/chk-6", 0},
		{"2.3.0/ck-filemerging-hashmap", "ckpt/d5ab2dcd187e33a68f8ec117626056c7/chk-2", 1},
		{"2.3.0/ck-changelog-materialized-hashmap", "", 0},
	} {
		root := t.TempDir()
		at := copyTree(t, filepath.Join(keptSnapshots, c.from), root)
		src := storage.Join(at, c.dir)
		if c.dir == "" {
			list, err := filepath.Glob(filepath.Join(root, "ckpt", "*"))
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			src = "file:" + list[0]
		}
		old, err := Open(t.Context(), fsys, src)
		if err != nil {
			t.Fatal(err)
		}
		p := planRepair(t, fsys, src, RepairOptions{Roots: []string{at}})
		if p.Done() || !p.Repairable() {
			t.Errorf("%s: %v", c.from, repairStates(p))
			continue
		}
		repaired(t, fsys, p)
		s, err := Open(t.Context(), fsys, p.Target)
		if err != nil {
			t.Fatal(err)
		}
		dirs := 0
		for r := range s.Refs() {
			if r.Kind == metadata.RefRelative {
				continue
			}
			if _, ok := storage.Rel(at, r.Path); !ok {
				t.Errorf("%s: %s still names %s", c.from, r.Field(), r.Path)
			}
			if r.Kind == metadata.RefDirectory {
				dirs++
			}
		}
		if (dirs > 0) != (c.dirs > 0) {
			t.Errorf("%s: %d directories of file merging", c.from, dirs)
		}
		// Nothing but paths changed.
		same := func(s *Snapshot) []byte {
			m, err := s.Rewrite(func(r metadata.Ref) (metadata.Location, error) {
				return metadata.Location{Path: storage.Base(r.Path), Relative: r.Kind == metadata.RefRelative}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return encode(t, m)
		}
		if !bytes.Equal(same(old), same(s)) {
			t.Errorf("%s: more than the directories of paths changed", c.from)
		}
	}
}

// halfCopy copies a native savepoint without every third of its files.
func halfCopy(t *testing.T) (original, half string, left int) {
	t.Helper()
	root := t.TempDir()
	original = copyTree(t, keptSnapshots+"/1.20.5/sp-native-rocksdb-files/savepoint-9a3f7f-82cc97159642", filepath.Join(root, "elsewhere", "original"))
	half = copyTree(t, local(original), filepath.Join(root, "copies", "half"))
	for i, name := range listing(t, local(half)) {
		if name != MetadataName && i%3 == 0 {
			if err := os.Remove(filepath.Join(local(half), name)); err != nil {
				t.Fatal(err)
			}
			left++
		}
	}
	return original, half, left
}

func TestRepairHalfCopy(t *testing.T) {
	fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
	original, half, left := halfCopy(t)

	// The original is nowhere near.
	p := planRepair(t, fsys, half, RepairOptions{})
	wantStates(t, p, map[string]int{RepairNotFound: left})
	wantRefused(t, p)

	p = planRepair(t, fsys, half, RepairOptions{Roots: []string{storage.Dir(original)}})
	wantStates(t, p, map[string]int{RepairFound: left})
	repaired(t, fsys, p)
	s, err := Open(t.Context(), fsys, half)
	if err != nil {
		t.Fatal(err)
	}
	absolute := map[string]bool{}
	for r := range s.Refs() {
		if r.Kind == metadata.RefFile {
			absolute[r.Path] = true
			if storage.Key(storage.Dir(r.Path)) != storage.Key(original) {
				t.Errorf("%s names %s", r.Field(), r.Path)
			}
		}
	}
	if len(absolute) != left {
		t.Errorf("%d absolute files, want %d", len(absolute), left)
	}
	want, err := Open(t.Context(), fsys, original)
	if err != nil {
		t.Fatal(err)
	}
	d, err := DiffState(t.Context(), fsys, want, s, DiffStateOptions{}, func(*Difference) error { return nil })
	if err != nil || d.Different || len(d.States) == 0 {
		t.Errorf("the state is not the original's: %+v, %v", d, err)
	}
}

// TestRepairSeveral is on files of which there is more than one.
func TestRepairSeveral(t *testing.T) {
	fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
	original, half, left := halfCopy(t)
	second := copyTree(t, local(original), filepath.Join(t.TempDir(), "second"))

	both := RepairOptions{Roots: []string{original, second}}
	p := planRepair(t, fsys, half, both)
	wantStates(t, p, map[string]int{RepairAmbiguous: left})
	wantRefused(t, p)

	// The scope chooses; naming one directory twice, or inside of another, is no second file.
	p = planRepair(t, fsys, half, RepairOptions{Roots: []string{second, second, storage.Dir(second)}})
	wantStates(t, p, map[string]int{RepairFound: left})

	// Every byte of a table has a checksum: what is not the file is told from what is, in any order.
	spoiled, third := 0, t.TempDir()
	for _, f := range p.Files {
		if name := f.Uses[0].LocalName; !strings.HasSuffix(name, ".sst") {
			if err := os.Rename(local(f.New), filepath.Join(third, storage.Base(f.New))); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := os.ReadFile(local(f.New))
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/3] ^= 1
		if err := os.WriteFile(local(f.New), data, 0o666); err != nil {
			t.Fatal(err)
		}
		spoiled++
	}
	if spoiled < 5 {
		t.Fatalf("only %d tables", spoiled)
	}
	for _, roots := range [][]string{{original, second}, {second, original}} {
		p = planRepair(t, fsys, half, RepairOptions{Roots: roots})
		wantStates(t, p, map[string]int{RepairFound: left})
		rejected := 0
		for _, f := range p.Files {
			if storage.Key(storage.Dir(f.New)) != storage.Key(original) {
				t.Errorf("%s is taken for %s", f.New, f.Path)
			}
			for _, c := range f.Candidates {
				if c.Rejected != "" {
					rejected++
				}
			}
		}
		if rejected != spoiled {
			t.Errorf("%d were rejected, want %d", rejected, spoiled)
		}
	}
	p = planRepair(t, fsys, half, RepairOptions{Roots: []string{original, second}, Unchecked: true})
	wantStates(t, p, map[string]int{RepairAmbiguous: spoiled, RepairFound: left - spoiled})

	// Alone, a spoiled file is none that fits.
	p = planRepair(t, fsys, half, RepairOptions{Roots: []string{second, "file:" + third}})
	wantStates(t, p, map[string]int{RepairNotFound: spoiled, RepairFound: left - spoiled})
	wantRefused(t, p)

	// A wrong size is no candidate at all.
	p = planRepair(t, fsys, half, RepairOptions{Roots: []string{original}})
	if err := os.Truncate(local(p.Files[0].New), p.Files[0].Expected-1); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, p) // it changed after the plan
	p = planRepair(t, fsys, half, RepairOptions{Roots: []string{original}})
	wantStates(t, p, map[string]int{RepairFound: left - 1, RepairNotFound: 1})
	wantRefused(t, p)

	if _, err := PlanRepair(t.Context(), fsys, half, RepairOptions{Roots: []string{original + "-no"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory to look in that is not there: %v", err)
	}
}

// TestRepairHandles is on the kinds of handles that Flink would take for two files.
func TestRepairHandles(t *testing.T) {
	const dir = "file:/new/" + jobA + "/chk-3"
	const beside, away = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
	relative := func(name string, n int64) *metadata.RelativeFile {
		return &metadata.RelativeFile{Path: text(t, name), Size: n}
	}
	fsys := storage.NewMemory()
	put(t, fsys, dir+"/"+beside, 10)
	put(t, fsys, "file:/new/"+jobA+"/shared/"+away, 20)
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("a", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"x"}, relative(beside, 10))}),
		operator("b", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"x"}, file(t, "file:/old/chk-3/"+beside, 10))}),
		operator("c", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"x"}, relative(away, 20))}),
		operator("d", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"x"}, file(t, "file:/old/shared/"+away, 20))}),
	}})
	p := planRepair(t, fsys, dir, RepairOptions{Unchecked: true})
	if !p.Repairable() || len(p.Files) != 3 {
		t.Fatalf("%+v", p.Files)
	}
	if err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []metadata.Location{
		{Path: beside, Relative: true}, {Path: beside, Relative: true},
		{Path: "file:/new/" + jobA + "/shared/" + away}, {Path: "file:/new/" + jobA + "/shared/" + away},
	}
	i := 0
	for r := range s.Refs() {
		if got := (metadata.Location{Path: r.Path, Relative: r.Kind == metadata.RefRelative}); got != want[i] {
			t.Errorf("%s: %+v, want %+v", r.Field(), got, want[i])
		}
		i++
	}
}

// TestRepairElsewhere writes the metadata to another file, and leaves the old in its place.
func TestRepairElsewhere(t *testing.T) {
	fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
	original, half, _ := halfCopy(t)
	before := listing(t, local(half))
	out := "file:" + filepath.Join(t.TempDir(), "new")
	o := RepairOptions{Roots: []string{original}, Output: out}
	p := planRepair(t, fsys, half, o)
	if err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "relative handles") {
		t.Errorf("warnings %q", p.Warnings)
	}
	if after := listing(t, local(half)); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	if err := planRepair(t, fsys, half, o).Execute(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := os.WriteFile(local(out), []byte("of somebody else"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := PlanRepair(t.Context(), fsys, half, o); !errors.Is(err, ErrRefused) {
		t.Errorf("onto another file: %v", err)
	}
}

// TestRepairCrash stops the repair at every step: the snapshot has the old or the new metadata,
// never none, and another run ends the work.
func TestRepairCrash(t *testing.T) {
	original, half, left := halfCopy(t)
	disk := storage.NewLocal(storage.LocalOptions{NoSync: true})
	o := RepairOptions{Roots: []string{original}}
	old, err := os.ReadFile(filepath.Join(local(half), MetadataName))
	if err != nil {
		t.Fatal(err)
	}
	crashed := 0
	for after := left; ; after++ { // each file is looked at before
		at := copyTree(t, local(half), filepath.Join(t.TempDir(), "sp"))
		p := planRepair(t, disk, at, o)
		faulty := storagetest.NewFaulty(disk, storagetest.FaultOptions{CrashAfter: after})
		p.fsys = faulty
		err := p.Execute(t.Context())
		now, rerr := os.ReadFile(filepath.Join(local(at), MetadataName))
		if rerr != nil {
			t.Fatal(rerr)
		}
		if !bytes.Equal(now, old) && !bytes.Equal(now, p.out) {
			t.Fatalf("after %d steps the metadata is neither the old nor the new", after)
		}
		if !faulty.Crashed() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		crashed++
		if p := planRepair(t, disk, at, o); !p.Done() {
			repaired(t, disk, p)
			if storage.Base(p.Backup) != MetadataName+".before-repair" {
				t.Errorf("after %d steps the old metadata is kept twice: %s", after, p.Backup)
			}
		}
	}
	if crashed < 5 {
		t.Errorf("only %d steps", crashed)
	}
}

// TestRepairChanged leaves alone metadata that somebody else wrote meanwhile, and does not judge where a store does not answer.
func TestRepairChanged(t *testing.T) {
	disk := storage.NewLocal(storage.LocalOptions{NoSync: true})
	original, half, left := halfCopy(t)
	p := planRepair(t, disk, half, RepairOptions{Roots: []string{original}})
	name := filepath.Join(local(half), MetadataName)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	other := append(bytes.Clone(data), 0)
	if err := os.WriteFile(name, other, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := p.Execute(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want a refusal", err)
	}
	if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, other) {
		t.Errorf("it was overwritten: %v", err)
	}
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}

	denied := storagetest.NewFaulty(disk, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "stat" && s.URI == p.Files[0].Path {
			return &storagetest.Fault{Err: fs.ErrPermission}
		}
		return nil
	}})
	p = planRepair(t, denied, half, RepairOptions{Roots: []string{original}})
	wantStates(t, p, map[string]int{RepairFound: left - 1, RepairAccess: 1})
	if !p.Undecided() {
		t.Error("it is not undecided")
	}
	wantRefused(t, p)
}
