package tools

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/storage"
)

// mergedDir and workingDir are names of directories of file merging and of ForSt.
const (
	mergedDir  = "job_" + jobA + "_op_64b44402c21d76abce376a0b9b821872_1_2"
	workingDir = "op_X_64b44402c21d76abce376a0b9b821872__1_2__attempt_0"
)

// TestGCSiblings: a root that is a job or a part of one is refused unless the rest of the job, and what lies
// beside it, is in scope.
func TestGCSiblings(t *testing.T) {
	const a, b, dstl = "s3://b/ck/" + jobA, "s3://b/ck/" + jobB, "s3://b/dstl/" + jobA
	const plain, other = "s3://b/plain/one", "s3://b/plain/two"
	for name, c := range map[string]struct {
		roots, references []string
		missing           []string // siblings that the refusal names; none if it is not refused for them
	}{
		"all":                            {roots: []string{"s3://b"}},
		"directory of checkpoints":       {roots: []string{"s3://b/ck"}},
		"job":                            {roots: []string{a}, missing: []string{b}},
		"job and sibling":                {roots: []string{a}, references: []string{b}},
		"job and all":                    {roots: []string{a}, references: []string{"s3://b/ck"}},
		"shared and checkpoint":          {roots: []string{a + "/shared", a + "/chk-7"}, missing: []string{a, b}},
		"checkpoint":                     {roots: []string{a + "/chk-7"}, missing: []string{a, b}},
		"taskowned":                      {roots: []string{a + "/taskowned"}, references: []string{a + "/chk-7"}, missing: []string{a, b}},
		"shared, and the job":            {roots: []string{a + "/shared"}, references: []string{a}, missing: []string{b}},
		"shared, and all":                {roots: []string{a + "/shared"}, references: []string{"s3://b/ck"}},
		"file merging":                   {roots: []string{a + "/shared/" + mergedDir}, references: []string{a + "/chk-7", b}, missing: []string{a}},
		"file merging of TaskManagers":   {roots: []string{a + "/taskowned/job_" + jobA + "_tm_localhost-1"}, references: []string{a + "/chk-7"}, missing: []string{a, b}},
		"working directory":              {roots: []string{a + "/shared/" + workingDir + "/db"}, references: []string{a + "/chk-7"}, missing: []string{a, b}},
		"changelog of a job":             {roots: []string{dstl + "/dstl"}, references: []string{"s3://b/ck"}, missing: []string{dstl, "s3://b/dstl/" + jobB}},
		"changelog":                      {roots: []string{"s3://b/dstl"}, references: []string{"s3://b/ck"}},
		"no job directory":               {roots: []string{plain}, missing: []string{other, "s3://b/plain/savepoints"}},
		"shared without job directory":   {roots: []string{plain + "/shared"}, references: []string{plain + "/chk-1"}, missing: []string{plain, other}},
		"merging without job directory":  {roots: []string{plain + "/shared/" + mergedDir}, references: []string{plain + "/chk-1"}, missing: []string{plain, other}},
		"no job directory, and the rest": {roots: []string{plain}, references: []string{other, "s3://b/plain/savepoints"}},
		"moved savepoint":                {roots: []string{"s3://b/moved/copy"}, missing: []string{"s3://b/moved/derived"}},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			shared := w.shared(1, 2, 3)
			for i, dir := range []string{a + "/shared/" + mergedDir, a + "/shared/" + workingDir + "/db", dstl + "/dstl", "s3://b/dstl/" + jobB + "/dstl", a + "/taskowned", a + "/taskowned/job_" + jobA + "_tm_localhost-1", plain + "/shared", plain + "/shared/" + mergedDir, "s3://b/plain/data"} {
				put(t, w.fsys, storage.Join(dir, uuid(100+i)), 7)
			}
			time.Sleep(5 * day)
			w.checkpoint(jobA, 7, shared[:1])
			w.checkpoint(jobA, 8, shared[1:2])
			w.checkpoint(jobB, 3, shared[2:])
			w.snapshot(plain+"/chk-1", 1, nil, 200)
			w.snapshot(other+"/chk-1", 1, nil, 201)
			w.snapshot("s3://b/plain/savepoints/savepoint-012345-aaaaaaaaaaaa", 1, nil, 202)
			w.snapshot("s3://b/moved/copy", 1, nil, 203)
			w.snapshot("s3://b/moved/derived", 2, []string{"s3://b/moved/copy/" + uuid(203)}, 204)
			p := w.plan(GCOptions{References: c.references, AcceptMismatch: true}, c.roots...)
			if len(c.missing) > 0 {
				wantRefusal(t, p, append(c.missing, "not in scope")...)
			} else if got := strings.Join(p.Refused, "\n"); strings.Contains(got, "not in scope") {
				t.Errorf("refused: %s", got)
			}
		})
	}
}

// TestGCSiblingsLater: a sibling that comes while files are deleted stops it, whatever it is called.
func TestGCSiblingsLater(t *testing.T) {
	for name, sibling := range map[string]string{"job": chkDir(jobB, 1), "no job directory": storage.Join(gcRoot, "other/chk-1")} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			shared := w.shared(1, 2)
			time.Sleep(5 * day)
			w.checkpoint(jobA, 7, shared[:1])
			p := w.plan(GCOptions{}, storage.Join(gcRoot, jobA))
			if got := planned(t, p); !slices.Equal(got, shared[1:]) {
				t.Fatalf("got %q", got)
			}
			w.snapshot(sibling, 1, shared[1:])
			if _, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{}); !errors.Is(err, ErrRefused) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestGCWithoutCheckpoint: of a job of which no checkpoint is in scope nothing goes by its age, as it may run
// and need it, until it is named as one that ended.
func TestGCWithoutCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		const b, dstl = "s3://b/ck/" + jobB, "s3://b/dstl/" + jobB
		files := slices.Concat(own(chkDir(jobB, 1), 1), own(b+"/shared", 2), own(b+"/shared/"+workingDir, 3))
		changes := own(dstl+"/dstl", 4)
		// A name that is sorted before the job's.
		savepoint := "s3://b/a/savepoint-" + jobB[:6] + "-aaaaaaaaaaaa/" + uuid(5)
		for _, f := range append(append([]string{savepoint}, files...), changes...) {
			put(t, w.fsys, f, 7)
		}
		old := w.shared(10, 11)
		time.Sleep(30 * day)
		young := b + "/shared/" + uuid(20)
		put(t, w.fsys, young, 7)
		w.checkpoint(jobA, 7, old[:1])
		for _, o := range []GCOptions{{}, {KeepLast: 1}, {KeepSavepoints: 1}} {
			p := w.plan(o, "s3://b")
			if got := planned(t, p); !slices.Equal(got, old[1:]) || p.Listed.Undecided.Files != 5 || p.Listed.Young.Files != 1 {
				t.Errorf("%+v: got %q, %+v", o, got, p.Listed)
			}
		}
		wantRefusal(t, w.plan(GCOptions{Retire: []string{b}}, "s3://b"), b, "grace period")
		time.Sleep(2 * day)
		want := append(append([]string{old[1], young}, files...), changes...)
		slices.Sort(want)
		if got := planned(t, w.plan(GCOptions{Retire: []string{b}}, "s3://b")); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		// What is written to the changelog shows that it runs.
		more := dstl + "/dstl/" + uuid(7)
		put(t, w.fsys, more, 7)
		wantRefusal(t, w.plan(GCOptions{Retire: []string{b}}, "s3://b"), b, "grace period")
		time.Sleep(2 * day)
		// A checkpoint that uses the changelog is reason enough to keep it.
		w.checkpoint(jobA, 8, append(slices.Clone(old[:1]), changes...))
		wantRefusal(t, w.plan(GCOptions{Retire: []string{b}}, "s3://b"), chkDir(jobA, 8), b)
		if got := planned(t, w.plan(GCOptions{}, "s3://b")); slices.Contains(got, changes[0]) {
			t.Errorf("got %q", got)
		}
	})
}

// TestGCClaimedJob: what is left of a job without metadata is as old as the checkpoints of those who use some of it say.
func TestGCClaimedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		old := w.shared(1, 2)
		time.Sleep(5 * day)
		w.checkpoint(jobB, 7, old[:1])
		w.shared(3)
		time.Sleep(5 * day)
		w.wantPlan(GCOptions{}, old[1])
		wantRefusal(t, w.plan(GCOptions{Retire: []string{storage.Join(gcRoot, jobA)}}), chkDir(jobB, 7))
		// A derived savepoint says nothing of who writes there.
		w.snapshot("s3://b/ck/derived", 9, w.shared(4))
		if err := w.fsys.Delete(t.Context(), chkDir(jobB, 7)+"/_metadata"); err != nil {
			t.Fatal(err)
		}
		w.wantPlan(GCOptions{})
	})
}

// TestGCChangelogOfFixedID: jobs of applications in several clusters may have the same id.
func TestGCChangelogOfFixedID(t *testing.T) {
	for job, goes := range map[string]bool{jobA: true, strings.Repeat("0", 32): false, "00000000a1b2c3d4" + strings.Repeat("0", 16): false} {
		bubble(t, job, func(t *testing.T) {
			w := newGCWorld(t)
			file := "s3://b/dstl/" + job + "/dstl/" + uuid(1)
			used := "s3://b/dstl/" + job + "/dstl/" + uuid(2)
			put(t, w.fsys, file, 7)
			put(t, w.fsys, used, 7)
			time.Sleep(5 * day)
			w.checkpoint(job, 7, []string{used})
			got := planned(t, w.plan(GCOptions{}, "s3://b"))
			if goes != slices.Equal(got, []string{file}) || !goes && len(got) > 0 {
				t.Errorf("got %q", got)
			}
			// What is written there may be the job's all the same.
			put(t, w.fsys, "s3://b/dstl/"+job+"/dstl/"+uuid(3), 7)
			wantRefusal(t, w.plan(GCOptions{Retire: []string{storage.Join(gcRoot, job)}}, "s3://b"), "grace period")
		})
	}
}

// TestGCEntropy: entropy injection scatters a job's files; all of them are as old as the job's newest checkpoint,
// whose metadata lies where no random characters are, says.
func TestGCEntropy(t *testing.T) {
	for name, layout := range map[string][2]string{
		"a directory":           {"s3://b/ck/", "s3://b/*/ck/"},
		"a part of a directory": {"s3://b/x-/ck/", "s3://b/x-*/ck/"},
		"at the end":            {"s3://b/x/ck/", "s3://b/x/ck/*/"},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			n := 0
			scatter := func(random, rest string) string {
				n++
				uri := strings.Replace(layout[1], "*", random, 1) + rest + "/" + uuid(n)
				put(t, w.fsys, uri, 7)
				return uri
			}
			a, b := layout[0]+jobA, layout[0]+jobB
			used := []string{scatter("ab12", jobA+"/shared"), scatter("Zz90", jobA+"/chk-7")}
			litter := []string{scatter("ab12", jobA+"/shared"), scatter("0000", jobA+"/shared"), scatter("cd34", jobA+"/chk-6"), scatter("ef56", jobA+"/chk-5")}
			slices.Sort(litter)
			// Not where the job has its random characters, or not as many: another job of the same id, perhaps.
			scatter("ab123", jobA+"/shared")
			put(t, w.fsys, "s3://b/more/"+jobA+"/chk-1/"+uuid(50), 7)
			// Of a job of which no checkpoint was completed.
			scatter("ab12", jobB+"/chk-1")
			time.Sleep(5 * day)
			w.snapshot(a+"/chk-7", 7, used)
			flight := []string{scatter("gh78", jobA+"/chk-8"), scatter("gh78", jobA+"/shared")}
			time.Sleep(5 * day)
			p := w.plan(GCOptions{}, "s3://b")
			if got := planned(t, p); !slices.Equal(got, litter) || p.Listed.Young.Files != int64(len(flight)) || p.Listed.Undecided.Files != 3 {
				t.Errorf("got %q, want %q; %+v", got, litter, p.Listed)
			}
			// A job that ended goes with all its parts, and stays with them if others use one.
			all := append(append(append([]string{a + "/chk-7/_metadata"}, used...), litter...), flight...)
			slices.Sort(all)
			if got := planned(t, w.plan(GCOptions{Retire: []string{a}, AcceptMismatch: true}, "s3://b")); !slices.Equal(got, all) {
				t.Errorf("got %q, want %q", got, all)
			}
			w.snapshot(b+"/chk-1", 1, used[:1])
			wantRefusal(t, w.plan(GCOptions{Retire: []string{a}}, "s3://b"), b+"/chk-1", a)
		})
	}
}
