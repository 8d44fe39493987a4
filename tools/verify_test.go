package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

func verified(t testing.TB, fsys storage.FS, args ...string) *Verification {
	t.Helper()
	v, err := Verify(t.Context(), fsys, args, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// incremental36 is the recipe of D05: a checkpoint with 30 shared and 6
// private files in two subtasks, and a second operator.
func incremental36(t testing.TB, fsys storage.FS) (dir string) {
	job := "s3://b/ck/" + jobA
	dir = job + "/chk-1124"
	op := metadata.Operator{ID: metadata.UIDHash("agg"), Parallelism: 2, MaxParallelism: 128}
	for sub := range 2 {
		var shared, private []metadata.Stream
		for i := range 15 {
			uri := fmt.Sprintf("%s/shared/s%d-%02d", job, sub, i)
			put(t, fsys, uri, 100+i)
			shared = append(shared, file(t, uri, 100+i))
		}
		for i := range 3 {
			name := fmt.Sprintf("p%d-%d", sub, i)
			put(t, fsys, dir+"/"+name, 20+i)
			private = append(private, relative(name, 20+i))
		}
		h := incrementalHandle(inline("m", 5), shared, private)
		h.KeyGroups = metadata.KeyGroupRange{Start: int32(64 * sub), Count: 64}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(sub), State: &metadata.SubtaskState{ManagedKeyed: h}})
	}
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version4, CheckpointID: 1124, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		op, operator("other", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"o"}, inline("x", 9))}),
	}})
	return dir
}

func remove(t testing.TB, fsys storage.FS, uris ...string) {
	t.Helper()
	if err := fsys.Delete(t.Context(), uris...); err != nil {
		t.Fatal(err)
	}
}

func TestD05AllMissingFilesAtOnce(t *testing.T) {
	fsys := storage.NewMemory()
	dir := incremental36(t, fsys)
	if c := verified(t, fsys, dir).Snapshots[0]; c.Verdict != VerdictIntact || c.Files != 36 || len(c.Warnings) > 0 {
		t.Fatalf("before: %+v", c)
	}
	job := storage.Dir(dir)
	for i := range 9 {
		remove(t, fsys, fmt.Sprintf("%s/shared/s0-%02d", job, i))
	}
	remove(t, fsys, dir+"/p0-1")
	// One is elsewhere in the scope with its name and size, another with another size.
	put(t, fsys, dir+"/copies/s0-03", 103)
	put(t, fsys, job+"/taskowned/s0-04", 999)

	v := verified(t, fsys, dir)
	c := v.Snapshots[0]
	if v.Damaged != 1 || c.Verdict != VerdictDamaged || c.Missing != 10 || c.WrongSize != 0 || len(c.Problems) != 10 {
		t.Fatalf("got %d missing, %d problems, %s", c.Missing, len(c.Problems), c.Verdict)
	}
	roles := map[string]int{}
	for _, p := range c.Problems {
		u := p.Uses[0]
		roles[u.Part]++
		if p.Problem != ProblemMissing || p.Expected < 20 || u.Operator != metadata.UIDHash("agg") || u.Subtask != 0 || u.KeyGroups != "0-63" || u.LocalName == "" || u.Field == "" {
			t.Errorf("got %+v", p)
		}
		switch storage.Base(p.File) {
		case "s0-03":
			if len(p.Candidates) != 1 || p.Candidates[0] != dir+"/copies/s0-03" {
				t.Errorf("s0-03: candidates %v", p.Candidates)
			}
		default:
			if len(p.Candidates) > 0 {
				t.Errorf("%s: candidates %v", p.File, p.Candidates)
			}
		}
	}
	if roles["shared file"] != 9 || roles["private file"] != 1 {
		t.Errorf("got %v", roles)
	}
	wantWords(t, c.Usable, "1 of 2 operators are not affected", "1 of 2 subtasks are affected")
	wantWords(t, strings.Join(c.Advice, "\n"), "1 of 10 files", "relocate")
}

func TestVerifySizes(t *testing.T) {
	fsys := storage.NewMemory()
	dir := "s3://b/ck/" + jobA + "/chk-7"
	put(t, fsys, dir+"/short", 9)
	put(t, fsys, dir+"/unknown", 77)
	put(t, fsys, "s3://b/dstl/log", 3)
	put(t, fsys, "s3://b/merged", 99)
	put(t, fsys, "s3://b/merged-long", 500)
	segment := func(path string, start, size int64) *metadata.Segment {
		return &metadata.Segment{Path: metadata.Text(path), Start: start, Size: size}
	}
	keyed := &metadata.Changelog{KeyGroups: metadata.KeyGroupRange{Count: 128}, Delta: []metadata.Keyed{
		&metadata.ChangelogFile{KeyGroups: metadata.KeyGroupRange{Count: 128}, Size: 1000, Streams: []metadata.ChangelogStream{
			{Stream: file(t, "s3://b/dstl/log", 1000)}, // logical length: no matter
			{Stream: file(t, "s3://b/dstl/gone", 10)},
		}},
	}}
	raw := incrementalHandle(relative("short", 10), []metadata.Stream{
		&metadata.RelativeFile{Path: "unknown", Size: -1}, segment("s3://b/merged", 50, 50), segment("s3://b/merged-long", 50, 50),
		file(t, dir+"/unknown", 77), // another handle of the same file
	}, []metadata.Stream{segment("s3://b/merged", -1, 50)})
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("a", &metadata.SubtaskState{ManagedKeyed: keyed, RawKeyed: raw}),
	}})
	c := verified(t, fsys, dir).Snapshots[0]
	got := map[string]string{}
	for _, p := range c.Problems {
		got[storage.Base(p.File)+" "+p.Problem] = p.Detail
	}
	for what, detail := range map[string]string{
		"short wrong size":  "it has 9 bytes, the metadata says 10",
		"merged wrong size": "it has 99 bytes, but a segment ends at 100",
		"merged bad offset": "a segment of 50 bytes at -1",
		"gone missing":      "",
	} {
		if d, ok := got[what]; !ok || d != detail {
			t.Errorf("%s: got %q, %v", what, d, ok)
		}
	}
	if len(got) != 4 || c.Files != 6 || c.WrongSize != 2 || c.Missing != 1 {
		t.Errorf("got %v; %d files", got, c.Files)
	}
}

func TestVerifyMovedSnapshot(t *testing.T) {
	local := storage.NewLocal(storage.LocalOptions{})
	for _, c := range []struct{ name, dir, lies string }{
		{"incremental checkpoint", snapshotsDir(t, "1.20.5", "ck-rocksdb-incr", "ckpt", "*", "chk-6"), "shared"},
		{"old savepoint", snapshotsDir(t, "1.8.3", "savepoint-rocksdb", "savepoints", "*"), "savepoint-d2af02-3552b2a6090d"},
		{"merged files", snapshotsDir(t, "2.3.0", "ck-filemerging-hashmap", "ckpt", "*", "chk-2"), "taskowned/job_"},
		{"changelog", snapshotsDir(t, "1.20.5", "ck-changelog-materialized-hashmap", "ckpt", "*", "chk-3"), "dstl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := verified(t, local, c.dir).Snapshots[0]
			if r.Verdict != VerdictDamaged || !r.Moved {
				t.Fatalf("got %s, %v", r.Verdict, r.Advice)
			}
			wantWords(t, r.Advice[0], "the snapshot was moved: its files lie in file:", c.lies, "`drey relocate` rewrites the paths")
			for _, p := range r.Problems {
				if len(p.Candidates) == 0 {
					t.Errorf("%s: nothing found", p.File)
				}
			}
		})
	}
}

// TestFLINK39964 has a checkpoint with relative handles of files that lie in
// the savepoint that the job was started from.
func TestFLINK39964(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/savepoints/savepoint-aaaaaa-0123456789ab"
	dir := "s3://b/ck/" + jobA + "/chk-2"
	put(t, fsys, sp+"/000007", 70)
	put(t, fsys, sp+"/_metadata", 1)
	put(t, fsys, dir+"/own", 5)
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version4, CheckpointID: 2, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("a", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(relative("own", 5), []metadata.Stream{relative("000007", 70)}, nil)}),
	}})
	c := verified(t, fsys, dir).Snapshots[0]
	if c.Verdict != VerdictDamaged || c.Missing != 1 {
		t.Fatalf("got %+v", c)
	}
	wantWords(t, strings.Join(c.Advice, "\n"), "FLINK-39964", "1 relative handle", sp)
	if got := c.Problems[0].Candidates; len(got) != 1 || got[0] != sp+"/000007" {
		t.Errorf("candidates %v", got)
	}
}

func TestD34OffsetsOutOfBounds(t *testing.T) {
	fsys := storage.NewMemory()
	dir := "s3://b/ck/" + jobA + "/chk-2"
	put(t, fsys, dir+"/in", 1000)
	put(t, fsys, dir+"/out", 1000)
	st := &metadata.SubtaskState{}
	for i := range 8 {
		off := int64(4 + 100*i)
		st.InputChannels = append(st.InputChannels, metadata.ChannelState{Channel: int32(i), Offsets: []int64{off}, Size: 100, Delegate: relative("in", 1000)})
		if i == 5 {
			off = 1000
		}
		st.OutputChannels = append(st.OutputChannels, metadata.ChannelState{Channel: int32(i), Offsets: []int64{off}, Size: 100, Delegate: relative("out", 1000)})
	}
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{operator("a", st)}})
	c := verified(t, fsys, dir).Snapshots[0]
	if c.Verdict != VerdictDamaged || len(c.Problems) != 1 || c.Missing != 0 || c.Files != 2 {
		t.Fatalf("got %+v", c)
	}
	p := c.Problems[0]
	if p.Problem != ProblemOffset || p.Detail != "offset 1000 in a stream of 1000 bytes" || p.Uses[0].Field != "operators[0].subtasks[0].outputChannels[5].channels[0].offsets" {
		t.Errorf("got %+v", p)
	}
}

func TestVerifySemantics(t *testing.T) {
	fsys := storage.NewMemory()
	a := operator("a", &metadata.SubtaskState{ManagedKeyed: wholeKeyGroups(metadata.KeyGroupsSavepoint, inline("k", 10))})
	a.UID = "b"
	a.Parallelism = 2
	a.Subtasks = append(a.Subtasks, a.Subtasks[0])
	big := operator("big", &metadata.SubtaskState{})
	big.MaxParallelism = 40000
	s := &metadata.Snapshot{Version: metadata.Version6, Properties: append(metadata.NullProperties[:5:5], 0, 0), Operators: []metadata.Operator{a, a, big}}
	putMetadata(t, fsys, "s3://b/sp", s)
	c := verified(t, fsys, "s3://b/sp").Snapshots[0]
	if c.Verdict != VerdictIntact {
		t.Errorf("warnings are no damage: %+v", c.Problems)
	}
	wantWords(t, strings.Join(c.Warnings, "\n"), "goes on after the end", "for 2 bytes", "is there twice; on a restore the last one counts",
		"subtask 0 is there twice", "the id is not the hash of its uid, which is "+metadata.UIDHash("b").String(),
		"max parallelism 40000 is not between 1 and 32768", "key groups 0-127 instead of 0-63")
}

func TestVerifySeveral(t *testing.T) {
	mem := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	put(t, mem, job+"/shared/x", 10)
	for i := range 3 {
		putMetadata(t, mem, fmt.Sprintf("%s/chk-%d", job, i+1), &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, CheckpointID: int64(i + 1),
			Operators: []metadata.Operator{operator("a", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(inline("m", 1), []metadata.Stream{file(t, job+"/shared/x", 10+i/2)}, nil)})}})
	}
	put(t, mem, "s3://b/bad/_metadata", 100)
	var mu sync.Mutex
	stats := map[string]int{}
	fsys := storagetest.NewFaulty(mem, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if s.Op == "stat" {
			stats[s.URI]++
		}
		return nil
	}})
	v := verified(t, fsys, job+"/chk-1", job+"/chk-2", job+"/chk-3", "s3://b/bad", "s3://b/nothing")
	var verdicts []string
	for _, c := range v.Snapshots {
		verdicts = append(verdicts, c.Verdict)
	}
	if got := strings.Join(verdicts, " "); got != "intact intact damaged unreadable unreadable" {
		t.Errorf("got %s", got)
	}
	if v.Files != 1 || v.Bytes != 10 || v.Damaged != 1 || v.Unreadable != 2 {
		t.Errorf("got %+v", v)
	}
	wantWords(t, v.Snapshots[3].Error, "s3://b/bad/_metadata", "not a _metadata file")
	wantWords(t, v.Snapshots[4].Error, "s3://b/nothing: does not exist")
	if stats[job+"/shared/x"] != 1 {
		t.Errorf("the shared file was asked for %d times", stats[job+"/shared/x"])
	}
}

func TestVerifyStoreFails(t *testing.T) {
	transient := errors.New("503 slow down")
	for _, c := range []struct {
		name string
		err  error
		word string
	}{
		{"no permission", fs.ErrPermission, "permission denied"},
		{"transient", transient, "503 slow down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := storage.NewMemory()
			dir := incremental36(t, mem)
			fsys := storagetest.NewFaulty(mem, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if strings.Contains(s.URI, "/shared/s1-") {
					return &storagetest.Fault{Err: c.err}
				}
				return nil
			}})
			v := verified(t, fsys, dir)
			r := v.Snapshots[0]
			if r.Verdict != VerdictUndecided || r.Undecided != 15 || r.Missing != 0 || v.Undecided != 1 {
				t.Fatalf("got %s, %d undecided, %d missing", r.Verdict, r.Undecided, r.Missing)
			}
			wantWords(t, r.Problems[0].Detail, c.word)
			wantWords(t, strings.Join(r.Advice, "\n"), "15 files could not be looked at")

			// Damage counts more than what is not known.
			remove(t, mem, storage.Dir(dir)+"/shared/s0-00")
			if r := verified(t, fsys, dir).Snapshots[0]; r.Verdict != VerdictDamaged || r.Missing != 1 || r.Undecided != 15 {
				t.Errorf("got %s, %d missing", r.Verdict, r.Missing)
			}
		})
	}
	t.Run("places of lost files", func(t *testing.T) {
		// What a directory that may not be entered hides is not lost.
		mem := storage.NewMemory()
		dir := incremental36(t, mem)
		moved := "s3://b/ck/shared"
		for i := range 2 {
			uri := fmt.Sprintf("%s/shared/s0-%02d", storage.Dir(dir), i)
			put(t, mem, fmt.Sprintf("%s/s0-%02d", moved, i), 100+i)
			remove(t, mem, uri)
		}
		r := verified(t, mem, dir).Snapshots[0]
		if r.Missing != 2 || len(r.Problems[0].Candidates) != 1 || len(r.Unseen) != 0 {
			t.Fatalf("%d missing, found at %q, unseen %q", r.Missing, r.Problems[0].Candidates, r.Unseen)
		}
		closed := storagetest.NewFaulty(mem, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
			if strings.HasPrefix(s.URI, moved+"/") || s.URI == moved && s.Op == "list" {
				return &storagetest.Fault{Err: &fs.PathError{Op: s.Op, Path: s.URI, Err: fs.ErrPermission}}
			}
			return nil
		}})
		r = verified(t, closed, dir).Snapshots[0]
		advice := strings.Join(r.Advice, "\n")
		if r.Verdict != VerdictDamaged || r.Missing != 2 || len(r.Unseen) != 1 || strings.Contains(advice, "lost") {
			t.Errorf("%s, %d missing, unseen %q: %s", r.Verdict, r.Missing, r.Unseen, advice)
		}
		wantWords(t, advice, "not all places could be looked at: "+moved+": permission denied;")
		remove(t, mem, moved+"/s0-00", moved+"/s0-01")
		r = verified(t, mem, dir).Snapshots[0]
		wantWords(t, strings.Join(r.Advice, "\n"), "the state in them is lost")
	})
	t.Run("metadata", func(t *testing.T) {
		mem := storage.NewMemory()
		dir := incremental36(t, mem)
		fsys := storagetest.NewFaulty(mem, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
			return &storagetest.Fault{Err: fs.ErrPermission}
		}})
		c := verified(t, fsys, dir).Snapshots[0]
		if c.Verdict != VerdictUnreadable {
			t.Fatalf("got %s", c.Verdict)
		}
		wantWords(t, c.Error, dir, "not readable")
	})
	t.Run("cancelled", func(t *testing.T) {
		mem := storage.NewMemory()
		dir := incremental36(t, mem)
		ctx, cancel := context.WithCancel(t.Context())
		fsys := storagetest.NewFaulty(mem, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
			if strings.Contains(s.URI, "/shared/") {
				cancel()
			}
			return nil
		}})
		if _, err := Verify(ctx, fsys, []string{dir}, VerifyOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestVerifyProgress(t *testing.T) {
	fsys := storage.NewMemory()
	dir := incremental36(t, fsys)
	var mu sync.Mutex
	most, total := 0, 0
	_, err := Verify(t.Context(), fsys, []string{dir}, VerifyOptions{Jobs: 3, Progress: func(done, all int) {
		mu.Lock()
		defer mu.Unlock()
		most, total = max(most, done), all
	}})
	if err != nil || most != 36 || total != 36 {
		t.Errorf("%d of %d, %v", most, total, err)
	}
}

// TestVerifyManyFilesInOneDirectory lists instead of asking for each.
func TestVerifyManyFilesInOneDirectory(t *testing.T) {
	mem := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	var shared []metadata.Stream
	for i := range 1000 {
		uri := fmt.Sprintf("%s/shared/%04d", job, i)
		put(t, mem, uri, 10)
		shared = append(shared, file(t, uri, 10))
	}
	s := emptySnapshot(metadata.Version4, 1)
	s.Operators = []metadata.Operator{operator("a", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(inline("m", 1), shared, nil)})}
	putMetadata(t, mem, job+"/chk-1", s)
	remove(t, mem, job+"/shared/0500")
	stats := 0
	fsys := storagetest.NewFaulty(mem, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "stat" && strings.Contains(s.URI, "/shared/") {
			stats++
		}
		return nil
	}})
	c := verified(t, fsys, job+"/chk-1").Snapshots[0]
	if c.Missing != 1 || len(c.Problems) != 1 || c.Problems[0].File != job+"/shared/0500" {
		t.Errorf("got %d missing, %v", c.Missing, c.Problems)
	}
	if stats > 100 {
		t.Errorf("%d files were asked for one by one", stats)
	}
}
