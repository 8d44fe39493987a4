package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

func checked(t testing.TB, fsys storage.FS, arg string, o PreflightOptions) *PreflightReport {
	t.Helper()
	r, err := Preflight(t.Context(), fsys, arg, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// operatorOf makes an operator with keyed state in one handle for each subtask, or with operator state.
func operatorOf(uid string, parallelism, maxParallelism int, keyed bool) metadata.Operator {
	o := metadata.Operator{ID: metadata.UIDHash(uid), Parallelism: int32(parallelism), MaxParallelism: int32(maxParallelism)}
	for i := range parallelism {
		st := &metadata.SubtaskState{}
		if keyed {
			r := keygroup.RangeOf(i, maxParallelism, parallelism)
			h := &metadata.KeyGroups{Form: metadata.KeyGroupsSavepoint, Delegate: inline(fmt.Sprint(uid, i), 10)}
			h.Start = int32(r.Start)
			for range r.Len() {
				h.Offsets = append(h.Offsets, 5)
			}
			st.ManagedKeyed = h
		} else {
			st.ManagedOperator = operatorState([]string{"list-" + uid}, inline(fmt.Sprint(uid, i), 7))
		}
		o.Subtasks = append(o.Subtasks, metadata.Subtask{Index: int32(i), State: st})
	}
	return o
}

func TestD33Preflight(t *testing.T) {
	fsys := storage.NewMemory()
	stateless := metadata.Operator{ID: metadata.UIDHash("two"), Parallelism: 4, MaxParallelism: 256}
	s := emptySnapshot(metadata.Version4, 1)
	s.Operators = []metadata.Operator{operatorOf("one", 4, 128, true), stateless, operatorOf("three", 4, 64, true)}
	putMetadata(t, fsys, "s3://b/sp", s)

	r := checked(t, fsys, "s3://b/sp", PreflightOptions{Parallelism: 96})
	if r.OK || r.AllowedMax != 64 || len(r.Problems) != 1 {
		t.Fatalf("got %+v", r)
	}
	wantWords(t, r.Problems[0], metadata.UIDHash("three").String(), "parallelism 96 is more than the max parallelism 64")
	for i, want := range []struct {
		verdict, allowed string
		keyed            bool
		groups           int
	}{{RestoreOK, "1-128", true, 96}, {RestoreSkipped, "1-32768", false, 0}, {RestoreFails, "1-64", true, 0}} {
		if o := r.Operators[i]; o.Verdict != want.verdict || o.Allowed != want.allowed || o.HasKeyedState != want.keyed || len(o.KeyGroups) != want.groups {
			t.Errorf("operator %d: got %s, %s, %v, %v", i, o.Verdict, o.Allowed, o.HasKeyedState, o.KeyGroups)
		}
	}
	wantWords(t, strings.Join(r.Warnings, "\n"), "disagree in max parallelism: 64 (1 operator), 128 (1 operator)")

	if r := checked(t, fsys, "s3://b/sp", PreflightOptions{Parallelism: 64}); !r.OK {
		t.Errorf("parallelism 64: %v", r.Problems)
	}
	if r := checked(t, fsys, "s3://b/sp", PreflightOptions{}); !r.OK {
		t.Errorf("unchanged: %v", r.Problems)
	}
	r = checked(t, fsys, "s3://b/sp", PreflightOptions{Parallelism: 8, MaxParallelism: 128})
	if r.OK || len(r.Problems) != 1 {
		t.Errorf("max parallelism 128: %v", r.Problems)
	}
	wantWords(t, r.Problems[0], "the job sets max parallelism 128, the snapshot has 64")
	r = checked(t, fsys, "s3://b/sp", PreflightOptions{MaxParallelism: 40000})
	wantWords(t, r.Problems[0], "max parallelism 40000 is more than 32768")

	// An override of one operator.
	r = checked(t, fsys, "s3://b/sp", PreflightOptions{Parallelism: 96, Operators: []JobOperator{{UID: "one"}, {UID: "three", Parallelism: 32}, {UID: "new"}}})
	if !r.OK || r.Operators[2].NewParallelism != 32 || r.Operators[0].NewParallelism != 96 {
		t.Errorf("override: %v", r.Problems)
	}
	if len(r.WithoutState) != 1 || r.WithoutState[0] != "new" {
		t.Errorf("without state: %v", r.WithoutState)
	}
}

func TestD33Key(t *testing.T) {
	fsys := storage.NewMemory()
	s := emptySnapshot(metadata.Version4, 1)
	s.Operators = []metadata.Operator{operatorOf("one", 2, 128, true), operatorOf("list", 2, 256, false)}
	putMetadata(t, fsys, "s3://b/sp", s)
	hash := keygroup.StringHash("a")
	r := checked(t, fsys, "s3://b/sp", PreflightOptions{Parallelism: 4, Key: &Key{Text: "a", Type: "string", Hash: hash}})
	group := keygroup.ForHash(97, 128)
	want := []KeySpot{{128, group, 2, keygroup.Subtask(group, 128, 2)}, {128, group, 4, keygroup.Subtask(group, 128, 4)}}
	if k := r.Key; k == nil || k.Hash != 97 || len(k.Places) != 2 || k.Places[0] != want[0] || k.Places[1] != want[1] {
		t.Errorf("got %+v, want %+v", r.Key, want)
	}
	for _, p := range r.Key.Places {
		if g := keygroup.RangeOf(p.Subtask, p.MaxParallelism, p.Parallelism); p.KeyGroup < g.Start || p.KeyGroup > g.End {
			t.Errorf("key group %d is not in %v of subtask %d", p.KeyGroup, g, p.Subtask)
		}
	}
}

func TestPreflightOperators(t *testing.T) {
	fsys := storage.NewMemory()
	empty := operatorOf("hollow", 1, 128, true)
	h := empty.Subtasks[0].State.ManagedKeyed.(*metadata.KeyGroups)
	clear(h.Offsets) // no key group has data
	s := emptySnapshot(metadata.Version4, 1)
	s.MasterStates = []metadata.MasterState{{Version: 1, Name: "hook"}}
	s.Operators = []metadata.Operator{
		operatorOf("kept", 1, 128, true), operatorOf("gone", 1, 128, false), empty, {ID: metadata.UIDHash("none"), Parallelism: 1, MaxParallelism: 128},
		operatorOf("Sink Committer: out", 1, 128, false), operatorOf("Sink out Global Committer", 1, 128, false),
	}
	putMetadata(t, fsys, "s3://b/sp", s)
	job := []JobOperator{{UID: "kept"}, {UID: "out"}}

	r := checked(t, fsys, "s3://b/sp", PreflightOptions{Operators: job})
	if r.OK || len(r.Problems) != 2 {
		t.Errorf("got %v", r.Problems)
	}
	var verdicts []string
	for _, o := range r.Operators {
		verdicts = append(verdicts, o.Verdict)
	}
	if got := strings.Join(verdicts, " "); got != "ok fails fails skipped ok ok" {
		t.Errorf("got %s", got)
	}
	if u := r.Operators[4].JobUID; u != "Sink Committer: out" {
		t.Errorf("committer: %q", u)
	}
	if u := r.Operators[5].JobUID; u != "Sink out Global Committer" {
		t.Errorf("global committer: %q", u)
	}
	wantWords(t, strings.Join(r.Problems, "\n"), "Flink refuses without --allowNonRestoredState", "nothing is lost")
	wantWords(t, strings.Join(r.Notes, "\n"), "operators without a uid", "hook")

	r = checked(t, fsys, "s3://b/sp", PreflightOptions{Operators: job, AllowNonRestored: true})
	if !r.OK || r.DroppedBytes != 7+10 || r.Operators[1].Verdict != RestoreDropped {
		t.Errorf("allowed: %v, %d bytes, %s", r.Problems, r.DroppedBytes, r.Operators[1].Verdict)
	}
}

// TestPreflightSinkParts has a part of a sink whose name only the snapshot tells.
func TestPreflightSinkParts(t *testing.T) {
	fsys := storage.NewMemory()
	o := operatorOf("out: pre-writer", 1, 128, false)
	o.UID = "out: pre-writer"
	s := emptySnapshot(metadata.Version6, 1)
	s.Operators = []metadata.Operator{o}
	putMetadata(t, fsys, "s3://b/sp", s)
	r := checked(t, fsys, "s3://b/sp", PreflightOptions{Operators: []JobOperator{{UID: "out"}}})
	if !r.OK || r.Operators[0].JobUID != "out: pre-writer" || len(r.WithoutState) > 0 {
		t.Errorf("got %+v", r)
	}
}

func TestPreflightUnaligned(t *testing.T) {
	local := storage.NewLocal(storage.LocalOptions{})
	dir := snapshotsDir(t, "2.3.0", "ck-unaligned", "ckpt", "*", "chk-1")
	r := checked(t, local, dir, PreflightOptions{Parallelism: 3})
	if !r.OK {
		t.Errorf("got %v", r.Problems)
	}
	wantWords(t, strings.Join(r.Warnings, "\n"), "unaligned checkpoint: 2 operators hold in-flight data", "from 2 to 3")
	r = checked(t, local, snapshotsDir(t, "2.3.0", "sp-finished-partly", "savepoint-*"), PreflightOptions{})
	wantWords(t, strings.Join(r.Notes, "\n"), "had finished")
}
