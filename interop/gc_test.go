package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// TestGC collects garbage beside running jobs, one after the other, whose
// checkpoints are incremental, and fail or are aborted all the time, as do their
// tasks and at times Flink as a whole. All litter that is old enough goes, and nothing
// else: the job goes on, and Flink restores each of the three checkpoints that are
// retained, with the state that they must have.
//
// DREY_SEED repeats a run, as far as time does not decide; DREY_GC_REPEAT is the number of repetitions for each version.
func TestGC(t *testing.T) {
	seed := seedOf(t)
	repeat, err := strconv.Atoi(cmp.Or(os.Getenv("DREY_GC_REPEAT"), "10"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Logf("DREY_SEED=%d", seed)
			dir := t.TempDir()
			g := &gcTest{flink: v, dir: dir, root: filepath.Join(dir, "ckpt"), keep: map[string]string{}, planted: map[string]bool{}}
			g.start(t, 10) // Flink's default
			for i := range repeat {
				g.rng = rand.New(rand.NewPCG(seed, uint64(i)))
				g.repetition(t, i)
			}
			t.Logf("%d files of litter were Flink's own", g.own)
			if g.own == 0 {
				t.Error("Flink left no litter")
			}
		})
	}
}

// gcTest is the jobs of one Flink, and their storage.
type gcTest struct {
	flink   flink
	dir     string
	root    string // of the checkpoints of all jobs
	rng     *rand.Rand
	l       *live
	m       *tools.JobManager
	name    string            // of the job
	resumed bool              // the job goes on in its directory after Flink was killed
	restore string            // the checkpoint from which the next job starts, "" if from none
	keep    map[string]string // files that never may be deleted, and why
	planted map[string]bool   // files that Flink did not write
	own     int               // litter that was deleted and Flink had left
}

// start starts a Flink without jobs, which remembers so many checkpoints of each.
func (g *gcTest) start(t *testing.T, history int) {
	g.l = g.flink.live(t, g.dir, "--idle", "--conf", "web.refresh-interval=300 ms", "--conf", fmt.Sprintf("web.checkpoints.history=%d", history))
	g.m = jobManager(t, g.l.url)
}

func (g *gcTest) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *gcTest) nap(most time.Duration) { time.Sleep(time.Duration(g.rng.Int64N(int64(most)))) }

func (g *gcTest) repetition(t *testing.T, i int) {
	t.Helper()
	begun := time.Now()
	how := g.submit(t, i)
	g.complete(t, 3)
	if g.resumed {
		// What is from before it was killed is kept for as long as Flink may have taken it over, which ends when it
		// discards one of its own. With a long history it doesn't forget that.
		until(t, func() string {
			if id := g.held(t).UnlistedBelow; id > 0 {
				return fmt.Sprintf("the job may hold checkpoints before %d", id)
			}
			return ""
		})
	}
	g.nap(time.Second)
	planted := g.plant(t)
	if g.chance(30) {
		g.l.do(t, "fail")
	}
	g.nap(500 * time.Millisecond)

	old := g.pass(t)
	before := g.look(t)
	litter := g.litter(before, old)
	young := g.put(t, "shared/"+uuid(g.rng), time.Now())
	for _, f := range planted {
		if !litter[f] {
			t.Errorf("%s was planted, and is no litter", f)
		}
	}
	done := make(chan gcOutcome, 1)
	rng := rand.New(rand.NewPCG(g.rng.Uint64(), 0))
	go func() { done <- g.collect(t.Context(), rng) }()
	kill := "" // every version has both
	switch i % 10 {
	case 2:
		kill = "during gc"
		g.nap(700 * time.Millisecond)
		g.l.kill(t)
	case 6:
		kill = "at the end"
		fallthrough
	default:
		if g.chance(40) {
			g.nap(300 * time.Millisecond)
			g.l.do(t, "fail")
		}
	}
	got := <-done
	interrupted := kill == "during gc" && got.err != nil
	if got.err != nil && !interrupted {
		t.Fatal(got.err)
	}
	g.check(t, got, before, old, litter, interrupted)
	for f, why := range g.keep {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("just written: %v", err)
	}

	if kill != "during gc" {
		g.running(t)
		g.complete(t, 1+g.rng.IntN(4))
		g.nap(300 * time.Millisecond)
	}
	retained := g.end(t, kill)
	drey(t, nil, append([]string{"verify", "--deep"}, retained...)...)
	var events []string
	for _, chk := range retained {
		events = append(events, filepath.Base(chk)+" "+g.l.do(t, fmt.Sprintf("restores %s %d", chk, 1+g.rng.IntN(3))))
	}
	t.Logf("%d: %s; %s; restored %s; %s", i, how, got.summary(len(planted), interrupted), strings.Join(events, ", "), time.Since(begun).Round(time.Millisecond))

	g.resumed = kill != ""
	g.restore = ""
	switch {
	case g.resumed:
		g.restore = retained[len(retained)-1]
	case g.chance(75):
		g.restore = retained[g.rng.IntN(len(retained))]
	}
	if t.Failed() {
		t.FailNow() // what comes is only a consequence
	}
}

// submit starts a job, and says how.
func (g *gcTest) submit(t *testing.T, i int) string {
	t.Helper()
	base := 0
	command, how := "next", "a new job"
	if g.restore != "" {
		_, id, _ := strings.Cut(filepath.Base(g.restore), "-")
		base, _ = strconv.Atoi(id)
		command += " --restore " + g.restore
		how = fmt.Sprintf("a job that does not claim chk-%d", base)
		if g.resumed || g.chance(60) {
			command += " --claim"
			how = fmt.Sprintf("a job that claims chk-%d", base)
		}
	}
	if g.resumed {
		how = fmt.Sprintf("goes on from chk-%d after Flink was killed", base)
	} else {
		g.name = fmt.Sprintf("job-%d", i)
	}
	g.l.job = g.l.do(t, fmt.Sprintf("%s --name %s --conf execution.checkpointing.interval=%dms --conf execution.checkpointing.min-pause=0ms --conf execution.checkpointing.timeout=8s --conf execution.checkpointing.max-concurrent-checkpoints=%d",
		command, g.name, 150+g.rng.IntN(250), 1+g.rng.IntN(2)))
	for id := base + 1; id < base+200; id++ {
		switch n := g.rng.IntN(100); {
		case n < 10:
			g.l.do(t, fmt.Sprintf("plan %d async", id))
		case n < 14:
			g.l.do(t, fmt.Sprintf("plan %d sync", id))
		case n < 16: // until after the timeout
			g.l.do(t, fmt.Sprintf("plan %d slow", id))
		}
	}
	g.l.do(t, fmt.Sprintf("flow %d", 50+g.rng.IntN(100)))
	g.l.do(t, "submit")
	return how
}

// complete waits until the job has completed so many more checkpoints.
func (g *gcTest) complete(t *testing.T, more int) {
	t.Helper()
	seen := map[int64]bool{}
	for _, id := range onDisk(t, g.l.checkpoints()) {
		seen[id] = true
	}
	for end := time.Now().Add(limit / 3); more > 0; time.Sleep(20 * time.Millisecond) {
		for _, id := range onDisk(t, g.l.checkpoints()) {
			if !seen[id] {
				seen[id] = true
				more--
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d checkpoints of %s did not come", more, g.l.job)
		}
	}
}

func uuid(rng *rand.Rand) string {
	a, b := rng.Uint64(), rng.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

// put writes a file into the job's directory, with the content of one that a checkpoint uses.
func (g *gcTest) put(t *testing.T, name string, modified time.Time) string {
	t.Helper()
	job := g.l.checkpoints()
	ids := onDisk(t, job)
	var content []byte
	for _, f := range references(t, job, ids[len(ids)-1]) {
		if data, err := os.ReadFile(f); err == nil {
			content = data
		}
	}
	name = filepath.Join(job, name)
	write(t, name, content)
	if err := os.Chtimes(name, modified, modified); err != nil {
		t.Fatal(err)
	}
	g.planted[name] = true
	return name
}

// plant adds old litter of the kinds that Flink leaves when it is killed, and gives it; and what looks like
// litter but must stay.
func (g *gcTest) plant(t *testing.T) (litter []string) {
	t.Helper()
	hours := func(n int) time.Time { return time.Now().Add(-time.Duration(n) * time.Hour) }
	ids := onDisk(t, g.l.checkpoints())
	retained := func() int64 { return ids[g.rng.IntN(len(ids))] }
	put := func(n int, dir string) {
		litter = append(litter, g.put(t, dir+uuid(g.rng), hours(n)))
	}
	for range 1 + g.rng.IntN(5) {
		put(1+g.rng.IntN(1000), "shared/")
	}
	if ids[0] > 1 {
		put(2, fmt.Sprintf("chk-%d/", 1+g.rng.Int64N(ids[0]-1))) // an aborted checkpoint
	}
	put(3, fmt.Sprintf("chk-%d/", retained()))
	put(4, fmt.Sprintf("chk-%d/._metadata.inprogress.", retained()))

	g.keep[g.put(t, "taskowned/"+uuid(g.rng), hours(5))] = "of a connector"
	g.keep[g.put(t, "shared/README", hours(6))] = "not of Flink"
	g.keep[g.put(t, "shared/"+uuid(g.rng), hours(-24))] = "from the future"
	return litter
}

// pass lets ten minutes pass at the moment at which the oldest checkpoint that is in progress, or else the newest that is
// complete, was triggered: everything that was written before is older then. It gives those files.
func (g *gcTest) pass(t *testing.T) map[string]bool {
	t.Helper()
	j := g.held(t)
	const tick = 20 * time.Millisecond // by which the clock of a file system may be behind
	old := map[string]bool{}
	for f, written := range filesBelow(t, g.root) {
		if !written.Before(j.KeepSince.Add(-tick)) {
			continue
		}
		written = written.Add(-10 * time.Minute)
		if err := os.Chtimes(f, written, written); err == nil {
			old[f] = true
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return old
}

// held asks what the job holds.
func (g *gcTest) held(t *testing.T) tools.HeldJob {
	t.Helper()
	h, err := g.m.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range h.Jobs {
		if j.ID == g.l.job {
			return j
		}
	}
	t.Fatalf("no job %s: %+v", g.l.job, h)
	return tools.HeldJob{}
}

// look gives the checkpoints of all jobs, as their metadata files, and by file those that use it.
func (g *gcTest) look(t *testing.T) map[string][]string {
	t.Helper()
	jobs, err := os.ReadDir(g.root)
	if err != nil {
		t.Fatal(err)
	}
	users := map[string][]string{}
	for _, j := range jobs {
		dir := filepath.Join(g.root, j.Name())
		for _, id := range onDisk(t, dir) {
			files := references(t, dir, id)
			for _, f := range files {
				users[f] = append(users[f], files[0])
			}
		}
	}
	return users
}

// litter gives the files that are old and that no checkpoint uses which is to stay.
func (g *gcTest) litter(users map[string][]string, old map[string]bool) map[string]bool {
	dropped := map[string]bool{}
	if g.resumed { // gc is told to keep three
		var ids []int64
		for f := range users {
			if name, ok := strings.CutPrefix(f, g.l.checkpoints()+"/chk-"); ok && filepath.Base(f) == tools.MetadataName {
				id, _ := strconv.ParseInt(filepath.Dir(name), 10, 64)
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for _, id := range ids[:max(0, len(ids)-3)] {
			if f := fmt.Sprintf("%s/chk-%d/%s", g.l.checkpoints(), id, tools.MetadataName); old[f] {
				dropped[f] = true
			}
		}
	}
	litter := map[string]bool{}
	for f := range old {
		inUse := slices.ContainsFunc(users[f], func(u string) bool { return !dropped[u] })
		if !inUse && g.keep[f] == "" {
			litter[f] = true
		}
	}
	return litter
}

// gcOutcome is what gc did.
type gcOutcome struct {
	err     error
	plan    *tools.GCPlan
	run     *tools.GCRun
	deleted map[string]string // file -> reason
	tries   int
}

func (o *gcOutcome) summary(planted int, interrupted bool) string {
	what := fmt.Sprintf("deleted %d files (%d were planted)", len(o.deleted), planted)
	if interrupted {
		what += fmt.Sprintf(", then Flink was killed (%v)", o.err)
	}
	if o.plan != nil {
		l := o.plan.Listed
		what += fmt.Sprintf("; at the %d. plan %d in use, %d too young, %d undecided, kept %v", o.tries, l.Referenced.Files, l.Young.Files, l.Undecided.Files, o.plan.Kept)
	}
	reasons := map[string]int{}
	for _, r := range o.deleted {
		reasons[r]++
	}
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		what += fmt.Sprintf("; %d %s", reasons[r], r)
	}
	return what
}

// collect makes a plan and executes it.
func (g *gcTest) collect(ctx context.Context, rng *rand.Rand) (o gcOutcome) {
	ask := func(ctx context.Context) ([]*tools.Held, error) {
		h, err := g.m.Held(ctx)
		return []*tools.Held{h}, err
	}
	// The grace period is short, as the test is; Flink says what it may be about to use.
	options := tools.GCOptions{AuditOptions: tools.AuditOptions{Grace: time.Second}, EmptyDirs: rng.IntN(2) == 0}
	if g.resumed {
		options.KeepLast = 3 // Flink does not know any more what it retained when it was killed
	}
	fsys := storage.NewLocal(storage.LocalOptions{})
	const mostTries = 10
	for o.tries = 1; ; o.tries++ {
		if options.Held, o.err = ask(ctx); o.err != nil {
			return o
		}
		if o.plan, o.err = tools.PlanGC(ctx, fsys, []string{g.root}, options); o.err != nil {
			return o
		}
		if len(o.plan.Refused) == 0 {
			break
		}
		if why := strings.Join(o.plan.Refused, "; "); o.tries == mostTries || len(o.plan.Refused) > 1 || !strings.Contains(why, "the job went on meanwhile") {
			o.err = errors.New(why)
			return o
		}
	}
	plan := o.plan
	if rng.IntN(2) == 0 {
		var saved bytes.Buffer
		if _, o.err = plan.WriteTo(&saved); o.err != nil {
			return o
		}
		if plan, o.err = tools.ReadGCPlan(&saved); o.err != nil {
			return o
		}
	}
	var record bytes.Buffer
	execute := tools.GCExecuteOptions{Guard: ask, Record: &record, Batch: 1 + rng.IntN(20), Recheck: -1}
	if rng.IntN(10) < 7 {
		execute.Rate = float64(20 + rng.IntN(60)) // the job goes on meanwhile
	}
	o.run, o.err = plan.Execute(ctx, fsys, execute)
	o.deleted = map[string]string{}
	for s := bufio.NewScanner(&record); s.Scan(); {
		var line struct {
			What string
			File tools.GCEntry
		}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			o.err = errors.Join(o.err, err)
		}
		if line.What == "deleted" {
			o.deleted[line.File.Path] = line.File.Reason
		}
	}
	return o
}

// check compares what gc did with what it should have done.
func (g *gcTest) check(t *testing.T, got gcOutcome, before map[string][]string, old, litter map[string]bool, interrupted bool) {
	t.Helper()
	after := g.look(t)
	for f, reason := range got.deleted {
		if len(after[f]) > 0 {
			t.Errorf("%s was deleted, and %q use it", f, after[f])
		}
		// What only checkpoints used that Flink has discarded since is litter, too.
		discarded := len(before[f]) > 0 && !slices.ContainsFunc(before[f], func(u string) bool { return len(after[u]) > 0 })
		if !litter[f] && !discarded {
			t.Errorf("%s was deleted as %q; old: %t, used by %q", f, reason, old[f], before[f])
		}
	}
	for f := range got.deleted {
		if !g.planted[f] {
			g.own++
		}
	}
	if interrupted {
		return
	}
	if got.run.Failed.Files > 0 || got.run.Deleted.Files != int64(len(got.deleted)) {
		t.Errorf("deleted %d: %+v", len(got.deleted), got.run)
	}
	for f := range litter {
		if !strings.HasPrefix(f, g.l.checkpoints()+"/") {
			continue // of a job that has ended: some was written after its newest checkpoint
		}
		if _, err := os.Stat(f); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v): %+v", f, err, got.plan.Kept)
		}
	}
}

// running waits until the job runs, which it does soon if a task has just failed.
func (g *gcTest) running(t *testing.T) {
	t.Helper()
	until(t, func() string {
		if state := g.held(t).State; state != "RUNNING" {
			return "the job is " + state
		}
		return ""
	})
}

// end cancels the job, or kills Flink and starts another one, and gives the three newest checkpoints, the oldest first.
func (g *gcTest) end(t *testing.T, kill string) []string {
	t.Helper()
	if kill == "at the end" {
		g.l.kill(t)
	}
	if kill != "" {
		job := g.l.job
		g.start(t, 1000)
		g.l.job = job
	} else {
		g.l.do(t, "cancel")
	}
	var ids []int64
	until(t, func() string { // Flink discards what is no longer retained after it has answered
		if ids = onDisk(t, g.l.checkpoints()); len(ids) < 3 || kill == "" && len(ids) > 3 {
			return fmt.Sprintf("chk-%d are there", ids)
		}
		return ""
	})
	var retained []string
	for _, id := range ids[len(ids)-3:] {
		retained = append(retained, fmt.Sprintf("%s/chk-%d", g.l.checkpoints(), id))
	}
	return retained
}
