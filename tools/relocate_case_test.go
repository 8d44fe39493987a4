package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// Snapshots made here name files of the sizes that put gives them; the bytes
// of state mean nothing to a relocation.

const jobA = "0123456789abcdef0123456789abcdef"

// put writes an object of n bytes.
func put(t testing.TB, fsys storage.FS, uri string, n int) {
	t.Helper()
	if err := storage.WriteFile(t.Context(), fsys, uri, bytes.Repeat([]byte{'s'}, n), storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func encode(t testing.TB, s *metadata.Snapshot) []byte {
	t.Helper()
	data, err := metadata.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// putMetadata encodes s as dir/_metadata and gives the bytes.
func putMetadata(t testing.TB, fsys storage.FS, dir string, s *metadata.Snapshot) []byte {
	t.Helper()
	data := encode(t, s)
	if err := storage.WriteFile(t.Context(), fsys, storage.Join(dir, MetadataName), data, storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return data
}

// operator makes an operator with one subtask.
func operator(uid string, st *metadata.SubtaskState) metadata.Operator {
	return metadata.Operator{ID: metadata.UIDHash(uid), Parallelism: 1, MaxParallelism: 128, ChainLength: 1, Subtasks: []metadata.Subtask{{State: st}}}
}

func text(t testing.TB, s string) metadata.Text {
	t.Helper()
	x, err := metadata.NewText(s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func file(t testing.TB, path string, n int) *metadata.File {
	return &metadata.File{Path: text(t, path), Size: int64(n)}
}

// incrementalHandle makes the state of a store with shared and private files.
func incrementalHandle(meta metadata.Stream, shared, private []metadata.Stream) *metadata.Incremental {
	h := &metadata.Incremental{BackendID: "b0", KeyGroups: metadata.KeyGroupRange{Count: 128}, Meta: meta, ID: "id"}
	for i, s := range shared {
		h.Shared = append(h.Shared, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("%06d.sst", i+7)), Stream: s})
	}
	for i, s := range private {
		h.Private = append(h.Private, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("MANIFEST-%06d", i+4)), Stream: s})
	}
	return h
}

func operatorState(names []string, delegate metadata.Stream) []*metadata.OperatorState {
	st := &metadata.OperatorState{Delegate: delegate}
	for i, n := range names {
		st.States = append(st.States, metadata.StateOffsets{Name: metadata.Text(n), Offsets: []int64{int64(i)}})
	}
	return []*metadata.OperatorState{st}
}

// relocated plans and executes.
func relocated(t testing.TB, fsys storage.FS, src, dst string, o RelocateOptions) *RelocatePlan {
	t.Helper()
	p, err := PlanRelocate(t.Context(), fsys, src, dst, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// refused plans and demands a refusal whose text holds all of words.
func refused(t testing.TB, fsys storage.FS, src, dst string, o RelocateOptions, words ...string) {
	t.Helper()
	_, err := PlanRelocate(t.Context(), fsys, src, dst, o)
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func wantNothing(t testing.TB, fsys storage.FS, dir string) {
	t.Helper()
	for info, err := range fsys.List(t.Context(), dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		t.Fatalf("%s: %v, %v: nothing should have been written", dir, info.URI, err)
	}
}

// paths lists the distinct paths that a snapshot names.
func paths(t testing.TB, fsys storage.FS, dir string) map[string]int {
	t.Helper()
	s, err := Open(t.Context(), fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]int{}
	for r := range s.Refs() {
		m[r.Path]++
	}
	return m
}

func TestD01AbsoluteSavepointToAnotherBucket(t *testing.T) {
	for _, to := range []string{"s3://n", "s3://new-bucket-with-a-long-name/and/a/prefix"} {
		fsys := storage.NewMemory()
		sp, shared := "s3://old-b/sp/savepoint-aaaaaa-1", "s3://old-b/ck/"+jobA+"/shared/"
		for i, u := range []string{sp + "/a", sp + "/b", sp + "/c", shared + "x"} {
			put(t, fsys, u, 10+i)
		}
		before := putMetadata(t, fsys, sp, &metadata.Snapshot{Version: metadata.Version2, CheckpointID: 7, Operators: []metadata.Operator{
			operator("one", &metadata.SubtaskState{ManagedKeyed: &metadata.KeyGroups{Form: metadata.KeyGroupsV1, KeyGroupOffsets: metadata.KeyGroupOffsets{Offsets: make([]int64, 128)}, Delegate: file(t, sp+"/a", 10)}}),
			operator("two", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"st"}, file(t, sp+"/b", 11)), RawOperator: operatorState([]string{"_default_"}, file(t, shared+"x", 13))}),
		}})
		spRule, ckRule := Rule{"s3://old-b/sp", to + "/sp"}, Rule{"s3://old-b/ck", to + "/ck"}
		dst := to + "/sp/savepoint-aaaaaa-1"

		refused(t, fsys, sp, dst, RelocateOptions{Rewrite: []Rule{spRule}},
			metadata.UIDHash("two").String(), "subtask 0", "raw operator state", shared+"x", "--rewrite", "s3://old-b/ck/"+jobA+"/shared")
		wantNothing(t, fsys, to)

		p, err := PlanRelocate(t.Context(), fsys, sp, dst, RelocateOptions{Rewrite: []Rule{spRule, ckRule}})
		if err != nil {
			t.Fatal(err)
		}
		wantNothing(t, fsys, to) // a plan writes nothing
		if want := []PathChange{{"s3://old-b/", to, 3}}; to == "s3://n" && (len(p.Rewritten) != 1 || p.Rewritten[0].Handles != want[0].Handles) {
			t.Errorf("plan says %v, want %v", p.Rewritten, want)
		}
		if err := p.Execute(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, u := range []string{to + "/sp/savepoint-aaaaaa-1/a", to + "/sp/savepoint-aaaaaa-1/b", to + "/ck/" + jobA + "/shared/x"} {
			if paths(t, fsys, dst)[u] != 1 {
				t.Errorf("%s is not named", u)
			}
			if _, err := fsys.Stat(t.Context(), u); err != nil {
				t.Error(err)
			}
		}

		// Back again to where it came from gives the bytes of the beginning.
		back := RelocateOptions{Rewrite: []Rule{{to, "s3://old-b"}}, MetadataOnly: true, Output: "s3://other/back"}
		relocated(t, fsys, dst, sp, back)
		got, err := storage.ReadAll(t.Context(), fsys, "s3://other/back", 0)
		if err != nil || !bytes.Equal(got, before) {
			t.Errorf("mapped back: other bytes, %v", err)
		}
		// Source = target: nothing to do, byte-identical.
		same, err := PlanRelocate(t.Context(), fsys, sp, sp, RelocateOptions{})
		if err != nil || !same.Done || !same.SameMetadata {
			t.Errorf("onto itself: %+v, %v", same, err)
		}
	}
}

func TestD02AlreadyRelocatable(t *testing.T) {
	for v := metadata.Version3; v <= metadata.Version6; v++ {
		fsys := storage.NewMemory()
		sp := "s3://b/savepoint-0a0a0a-000000000001"
		put(t, fsys, sp+"/f", 5)
		put(t, fsys, sp+"/g", 6)
		s := &metadata.Snapshot{Version: v, Operators: []metadata.Operator{operator("op", &metadata.SubtaskState{
			ManagedOperator: operatorState([]string{"s"}, &metadata.ByteStream{Name: "file:/looks/like/a/path", Data: []byte("x")}),
			ManagedKeyed:    incrementalHandle(&metadata.RelativeFile{Path: "f", Size: 5}, []metadata.Stream{&metadata.RelativeFile{Path: "g", Size: 6}}, nil),
		})}}
		if v >= metadata.Version4 {
			s.Properties = metadata.NullProperties
		}
		before := putMetadata(t, fsys, sp, s)
		p := relocated(t, fsys, sp, "s3://c/x", RelocateOptions{})
		if !p.SameMetadata || !strings.Contains(p.Why, "self-contained") {
			t.Errorf("v%d: %v, %q", v, p.SameMetadata, p.Why)
		}
		got, err := storage.ReadAll(t.Context(), fsys, "s3://c/x/_metadata", 0)
		if err != nil || !bytes.Equal(got, before) {
			t.Errorf("v%d: metadata changed, %v", v, err)
		}
		checkComplete(t, fsys, "s3://c/x")
	}
}

// mixed makes a savepoint of which most handles are absolute and point into its own directory.
func mixed(t testing.TB, fsys storage.FS, sp string) {
	var shared []metadata.Stream
	for i := range 20 {
		name := fmt.Sprintf("%s/%08d-aaaa-bbbb-cccc-000000000000", sp, i)
		put(t, fsys, name, 10+i)
		shared = append(shared, file(t, name, 10+i))
	}
	put(t, fsys, sp+"/rel", 3)
	var inline []metadata.Subtask
	for i := range int32(3) {
		inline = append(inline, metadata.Subtask{Index: i, State: &metadata.SubtaskState{
			ManagedOperator: operatorState([]string{"s"}, &metadata.ByteStream{Name: text(t, sp+"/never-made"), Data: []byte("inline")})}})
	}
	putMetadata(t, fsys, sp, &metadata.Snapshot{Version: metadata.Version3, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(&metadata.RelativeFile{Path: "rel", Size: 3}, shared, nil)}),
		{ID: metadata.UIDHash("in"), Parallelism: 3, MaxParallelism: 128, Subtasks: inline},
	}})
}

func TestD03MixedHandlesMadeRelative(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/savepoint-0a0a0a-000000000001"
	mixed(t, fsys, sp)
	relocated(t, fsys, sp, "s3://c/one", RelocateOptions{MakeRelative: true})
	for path := range paths(t, fsys, "s3://c/one") {
		if strings.Contains(path, "/") {
			t.Errorf("%s is not relative", path)
		}
	}
	// Two moves by plain copy: nothing in it depends on the place.
	for _, hop := range [][2]string{{"s3://c/one", "s3://d/two"}, {"s3://d/two", "s3://e/three"}} {
		for info, err := range fsys.List(t.Context(), hop[0]) {
			if err != nil {
				t.Fatal(err)
			}
			rest, _ := storage.Rel(hop[0], info.URI)
			if err := fsys.Copy(t.Context(), info.URI, storage.Join(hop[1], rest)); err != nil {
				t.Fatal(err)
			}
		}
		checkComplete(t, fsys, hop[1])
	}

	// The same in place, where the files are there already.
	p := relocated(t, fsys, sp, "", RelocateOptions{MakeRelative: true, MetadataOnly: true})
	checkComplete(t, fsys, sp)
	one, _ := storage.ReadAll(t.Context(), fsys, "s3://c/one/_metadata", 0)
	inPlace, _ := storage.ReadAll(t.Context(), fsys, sp+"/_metadata", 0)
	if !bytes.Equal(one, inPlace) || p.Backup == "" {
		t.Errorf("in place gives other metadata, or no backup (%q)", p.Backup)
	}
	if again := relocated(t, fsys, sp, "", RelocateOptions{MakeRelative: true, MetadataOnly: true}); !again.Done {
		t.Error("not done the second time")
	}
}

func TestD03RelativeFormIsRefusedWhereThereIsNone(t *testing.T) {
	fsys := storage.NewMemory()
	dir := "s3://b/ck/" + jobA + "/chk-1"
	seg := &metadata.Segment{Size: 4, Path: text(t, "s3://b/ck/"+jobA+"/taskowned/job_x/f"), LogicalFileID: "l"}
	put(t, fsys, seg.Path.String(), 4)
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedOperator: []*metadata.OperatorState{{Delegate: seg, Merged: &metadata.MergedDirectories{
			TaskOwned: text(t, "s3://b/ck/"+jobA+"/taskowned/job_x"), Shared: text(t, "s3://b/ck/"+jobA+"/shared/job_x_op")}}}}),
	}})
	refused(t, fsys, dir, "s3://c/x", RelocateOptions{MakeRelative: true}, "no relative form", "merged")
	wantNothing(t, fsys, "s3://c")
}

func TestD04EntropyScatteredFilesAreGathered(t *testing.T) {
	fsys := storage.NewMemory()
	for n, chk := range []string{"s3://b/ck/" + jobA + "/chk-5", "s3://b/_entropy_/ck/" + jobA + "/chk-6"} {
		var shared []metadata.Stream
		var names []string
		for i := range 40 {
			name := fmt.Sprintf("s3://b/%04x/ck/%s/%08d", 0x1a2b+i%12, jobA, 100*n+i)
			if i >= 38 { // two with one base name
				name = fmt.Sprintf("s3://b/%04x/ck/%s/same%d", 0x1a2b+i%12, jobA, n)
			}
			names = append(names, name)
			put(t, fsys, name, 20+i)
			shared = append(shared, file(t, name, 20+i))
		}
		putMetadata(t, fsys, chk, &metadata.Snapshot{Version: metadata.Version3, Operators: []metadata.Operator{
			operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(shared[0], shared[1:], nil)})}})
		for _, relative := range []bool{false, true} {
			dst := fmt.Sprintf("s3://c/%d-%v", n, relative)
			p := relocated(t, fsys, chk, dst, RelocateOptions{MakeRelative: relative})
			checkComplete(t, fsys, dst)
			if len(paths(t, fsys, dst)) != len(names) || len(p.Files) != len(names) {
				t.Errorf("%d names and %d files for %d files", len(paths(t, fsys, dst)), len(p.Files), len(names))
			}
		}
	}
}

func TestD04LiteralMarkerDirectory(t *testing.T) {
	fsys := storage.NewMemory()
	putMetadata(t, fsys, "s3://b/ck/chk-6", &metadata.Snapshot{Version: metadata.Version3})
	_, err := Open(t.Context(), fsys, "s3://b/_entropy_/ck/chk-6")
	if err == nil || !strings.Contains(err.Error(), "s3://b/ck/chk-6") {
		t.Errorf("%v does not name the place where Flink looks", err)
	}
}

func TestD05FilesThatStayedBehindArePulledIn(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	var shared, private []metadata.Stream
	var uris []string
	for i := range 36 {
		u := fmt.Sprintf("%s/shared/%08d", job, i)
		uris = append(uris, u)
		put(t, fsys, u, 100+i)
		if i < 30 {
			shared = append(shared, file(t, u, 100+i))
		} else {
			private = append(private, file(t, u, 100+i))
		}
	}
	put(t, fsys, job+"/chk-9/m", 9)
	putMetadata(t, fsys, job+"/chk-9", &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(&metadata.RelativeFile{Path: "m", Size: 9}, shared, private)})}})
	relocated(t, fsys, job+"/chk-9", "s3://c/whole", RelocateOptions{})
	checkComplete(t, fsys, "s3://c/whole")

	gone := append(append([]string(nil), uris[:9]...), uris[33])
	if err := fsys.Delete(t.Context(), gone...); err != nil {
		t.Fatal(err)
	}
	refused(t, fsys, job+"/chk-9", "s3://c/part", RelocateOptions{}, append(gone, "10 of 37 files", "MANIFEST", "key groups 0-127")...)
	wantNothing(t, fsys, "s3://c/part")
}

func TestD06OtherSpellingsOfSchemeAndAuthority(t *testing.T) {
	fsys := storage.NewMemory()
	job := "hdfs://ns1/f/ck/" + jobA
	dir := job + "/chk-1"
	names := []string{"hdfs://ns1:8020/f/ck/" + jobA + "/shared/a", job + "/shared/b", "hdfs://NS1/f/ck/" + jobA + "/shared/c", "hdfs:/f/ck/" + jobA + "/shared/d"}
	var shared []metadata.Stream
	for i, n := range names {
		put(t, fsys, storage.Key(n), 10+i)
		shared = append(shared, file(t, n, 10+i))
	}
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(shared[0], shared[1:], nil)})}})
	// One rule switches the name service of all spellings that name it. That of
	// the default file system can be any, so that it is not guessed.
	o := RelocateOptions{MetadataOnly: true, Unchecked: true, Output: "hdfs://ns1/new", Rewrite: []Rule{{"hdfs://ns1", "hdfs://ns2"}}}
	refused(t, fsys, dir, "", o, "1 path matches no --rewrite rule", "hdfs:/f/ck/"+jobA+"/shared/d")
	o.Rewrite = append(o.Rewrite, Rule{"hdfs:/", "hdfs://ns2"})
	relocated(t, fsys, dir, "", o)
	for p := range paths(t, fsys, "hdfs://ns1/new") {
		if !strings.HasPrefix(p, "hdfs://ns2/f/ck/") {
			t.Errorf("%s", p)
		}
	}
	// s3a in the metadata, s3 on the command line.
	s3 := storage.NewMemory()
	put(t, s3, "s3://b/ck/"+jobA+"/shared/a", 10)
	putMetadata(t, s3, "s3://b/ck/"+jobA+"/chk-1", &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(file(t, "s3a://b/ck/"+jobA+"/shared/a", 10), nil, nil)})}})
	relocated(t, s3, "s3://b/ck/"+jobA+"/chk-1", "s3p://c/x", RelocateOptions{Rewrite: []Rule{{"s3://b", "s3p://c"}}})
	if p := paths(t, s3, "s3://c/x"); p["s3p://c/ck/"+jobA+"/shared/a"] != 1 {
		t.Errorf("%v", p)
	}
}

func TestD07NamesAreOpaque(t *testing.T) {
	for _, name := range []string{"Team Log/savepoint-1", "a%20b", "a+b", "ü", "日本", "😀", "x?y#z", "{1}[2]"} {
		root := t.TempDir()
		fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
		src := "file:" + filepath.Join(root, "from", name)
		put(t, fsys, src+"/"+name+"-file", 4)
		putMetadata(t, fsys, src, &metadata.Snapshot{Version: metadata.Version2, Operators: []metadata.Operator{
			operator("op", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"s"}, file(t, src+"/"+name+"-file", 4))})}})
		dst := "file:" + filepath.Join(root, "to", name)
		for _, spelling := range []string{src, src + "/", src + "/_metadata", filepath.Join(root, "from", name)} {
			relocated(t, fsys, spelling, dst, RelocateOptions{})
			checkComplete(t, fsys, dst)
			if err := os.RemoveAll(filepath.Join(root, "to")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestD08WindowsPaths(t *testing.T) {
	root := t.TempDir()
	fsys := storage.Mux{"file": storage.NewLocal(storage.LocalOptions{NoSync: true})}
	dir := "file:" + root + "/flink/ck/chk-1"
	var shared []metadata.Stream
	for i, n := range []string{"file:/C:/flink/data/a", "C:/flink/data/b", "/C:/flink/data/c"} {
		put(t, fsys, "file:"+root+"/elsewhere/"+storage.Base(n), 10+i)
		shared = append(shared, file(t, n, 10+i))
	}
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(shared[0], shared[1:], nil)})}})
	refused(t, fsys, dir, "file:"+root+"/to", RelocateOptions{}, "C:/flink/data", "--moved")
	relocated(t, fsys, dir, "file:"+root+"/to", RelocateOptions{Moved: []Rule{{"file:/C:/flink", "file:" + root + "/elsewhere-not"}, {`C:\flink\data`, "file:" + root + "/elsewhere"}}})
	checkComplete(t, fsys, "file:"+root+"/to")
}

func TestD09ResumedCopy(t *testing.T) {
	inner := storage.NewMemory()
	chk := many(t, inner, 50)
	bad := errors.New("connection cut")
	faulty := storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "copy" && strings.HasSuffix(s.URI, "7") {
			return &storagetest.Fault{Err: bad}
		}
		return nil
	}})
	p, err := PlanRelocate(t.Context(), faulty, chk, "s3://c/x", RelocateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Execute(t.Context())
	var r *RelocateError
	if !errors.As(err, &r) || !errors.Is(err, ErrPartly) || !errors.Is(err, bad) || len(r.Failed) != 5 || r.Copied != 45 {
		t.Fatalf("got %v", err)
	}
	if _, err := inner.Stat(t.Context(), "s3://c/x/_metadata"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a half copy has metadata")
	}
	p, err = PlanRelocate(t.Context(), inner, chk, "s3://c/x", RelocateOptions{})
	if err != nil || p.FilesToCopy != 5 {
		t.Fatalf("%d files are left, %v", p.FilesToCopy, err)
	}
	if err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkComplete(t, inner, "s3://c/x")
}

// many makes an incremental checkpoint with n shared files.
func many(t testing.TB, fsys storage.FS, n int) string {
	t.Helper()
	job := "s3://b/ck/" + jobA
	var shared []metadata.Stream
	for i := range n {
		u := fmt.Sprintf("%s/shared/%08d", job, i)
		put(t, fsys, u, 100+i)
		shared = append(shared, file(t, u, 100+i))
	}
	putMetadata(t, fsys, job+"/chk-9", &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(&metadata.ByteStream{Name: "m"}, shared, nil)})}})
	return job + "/chk-9"
}

// TestCrashAtEveryStep has relocation die between any two steps: the target
// never has metadata that names a missing file, and a rerun completes.
func TestCrashAtEveryStep(t *testing.T) {
	const files = 5
	run := func(inner storage.FS, crashAfter int) (steps int, err error) {
		faulty := storagetest.NewFaulty(inner, storagetest.FaultOptions{CrashAfter: crashAfter})
		chk := "s3://b/ck/" + jobA + "/chk-9"
		p, err := PlanRelocate(t.Context(), faulty, chk, "s3://c/x", RelocateOptions{Jobs: 1})
		if err == nil {
			err = p.Execute(t.Context())
		}
		return faulty.Steps(), err
	}
	whole := storage.NewMemory()
	many(t, whole, files)
	steps, err := run(whole, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < steps; n++ {
		fsys := storage.NewMemory()
		many(t, fsys, files)
		if _, err := run(fsys, n); err == nil {
			t.Fatalf("step %d: no error", n)
		}
		if _, err := fsys.Stat(t.Context(), "s3://c/x/_metadata"); err == nil {
			checkComplete(t, fsys, "s3://c/x")
		}
		if _, err := run(fsys, 0); err != nil {
			t.Fatalf("step %d: rerun: %v", n, err)
		}
		checkComplete(t, fsys, "s3://c/x")
	}
	t.Logf("%d steps", steps)
}

// TestCrashInPlace has the rewriting of metadata in place die between any two steps.
func TestCrashInPlace(t *testing.T) {
	sp := "s3://b/savepoint-0a0a0a-000000000001"
	run := func(inner storage.FS, crashAfter int) (int, error) {
		faulty := storagetest.NewFaulty(inner, storagetest.FaultOptions{CrashAfter: crashAfter})
		p, err := PlanRelocate(context.Background(), faulty, sp, "", RelocateOptions{Jobs: 1, MakeRelative: true, MetadataOnly: true})
		if err == nil {
			err = p.Execute(context.Background())
		}
		return faulty.Steps(), err
	}
	whole := storage.NewMemory()
	mixed(t, whole, sp)
	old, _ := storage.ReadAll(t.Context(), whole, sp+"/_metadata", 0)
	steps, err := run(whole, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < steps; n++ {
		fsys := storage.NewMemory()
		mixed(t, fsys, sp)
		if _, err := run(fsys, n); err == nil {
			t.Fatalf("step %d: no error", n)
		}
		checkComplete(t, fsys, sp) // old or new, but whole
		if _, err := run(fsys, 0); err != nil {
			t.Fatalf("step %d: rerun: %v", n, err)
		}
		kept, err := storage.ReadAll(t.Context(), fsys, sp+"/_metadata.before-relocate", 0)
		if err != nil || !bytes.Equal(kept, old) {
			t.Fatalf("step %d: the old metadata is lost: %v", n, err)
		}
	}
}

func TestD10ImportIntoAService(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/ops/abc123/savepoint-0a0a0a-000000000001"
	mixed(t, fsys, sp)
	for _, tc := range []struct {
		prefix   int
		relative bool
		warnings int
	}{{200, true, 0}, {201, true, 1}, {200, false, 1}, {201, false, 2}} {
		dst := "s3://c/" + strings.Repeat("p", tc.prefix)
		p, err := PlanRelocate(t.Context(), fsys, sp, dst, RelocateOptions{Service: ServiceAWS, MakeRelative: tc.relative})
		if err != nil || len(p.Warnings) != tc.warnings {
			t.Errorf("%+v: %v, %q", tc, err, p.Warnings)
		}
	}
	relocated(t, fsys, sp, "s3://c/import", RelocateOptions{Service: ServiceAWS, MakeRelative: true})
	checkComplete(t, fsys, "s3://c/import")
}

// TestRulesThatCollide has rules by which two files would become one.
func TestRulesThatCollide(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/savepoint-0a0a0a-000000000001"
	put(t, fsys, "s3://b/one/f", 5)
	put(t, fsys, "s3://b/two/f", 5)
	put(t, fsys, sp+"/f", 5)
	for _, other := range []metadata.Stream{file(t, "s3://b/two/f", 5), &metadata.RelativeFile{Path: "f", Size: 5}} {
		dir := fmt.Sprintf("%s/%d", sp, other.Tag())
		put(t, fsys, dir+"/f", 5)
		putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version3, Operators: []metadata.Operator{
			operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(file(t, "s3://b/one/f", 5), []metadata.Stream{other}, nil)})}})
		refused(t, fsys, dir, "s3://c/x", RelocateOptions{Rewrite: []Rule{{"s3://b/one", "s3://c/x"}, {"s3://b/two", "s3://c/x"}}}, "would become s3://c/x/f", "must differ")
		wantNothing(t, fsys, "s3://c")
		relocated(t, fsys, dir, "s3://d/"+storage.Base(dir), RelocateOptions{})
		checkComplete(t, fsys, "s3://d/"+storage.Base(dir))
	}
}

func TestTargetInsideSource(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/savepoint-0a0a0a-000000000001"
	mixed(t, fsys, sp)
	refused(t, fsys, sp, sp+"/copy", RelocateOptions{}, "inside of the source")
}

func TestD11PathsTooLong(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/" + strings.Repeat("x", 33) // 40 bytes
	put(t, fsys, sp+"/f", 4)
	putMetadata(t, fsys, sp, &metadata.Snapshot{Version: metadata.Version2, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"s"}, file(t, sp+"/f", 4))})}})
	dst := "s3://c/" + strings.Repeat("y", 65530-len("s3://c/"))
	emoji := "s3://c/" + strings.Repeat("😀", 65530/6+1) // fits as UTF-8, not as modified UTF-8
	for _, to := range []string{dst + "/longer", emoji} {
		_, err := PlanRelocate(t.Context(), fsys, sp, to, RelocateOptions{})
		if err == nil || !strings.Contains(err.Error(), "the format allows 65535") || !strings.Contains(err.Error(), "managedOperator") {
			t.Errorf("got %.300v", err)
		}
		wantNothing(t, fsys, "s3://c")
	}
	relocated(t, fsys, sp, dst, RelocateOptions{})
	checkComplete(t, fsys, dst)
}

func TestD12PayloadIsReportedNotRewritten(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://old-b/sp/savepoint-0a0a0a-000000000001"
	payload := []byte("\x00\x00s3://old-b/out/_part-2-17_tmp_a\x00\x01s3a://old-b/out/_part-2-18_tmp_b\x00 s3://other/x")
	if err := storage.WriteFile(t.Context(), fsys, sp+"/f", payload, storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	states := func(d metadata.Stream) []*metadata.OperatorState {
		return []*metadata.OperatorState{{Delegate: d, States: []metadata.StateOffsets{
			{Name: "bucket-states", Offsets: []int64{0}}, {Name: "max-part-counter", Offsets: []int64{int64(len(payload) - 2)}}}}}
	}
	putMetadata(t, fsys, sp, &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("sink", &metadata.SubtaskState{ManagedOperator: states(&metadata.ByteStream{Name: "n", Data: payload})}),
		operator("sink2", &metadata.SubtaskState{ManagedOperator: states(file(t, sp+"/f", len(payload)))}),
		{ID: metadata.UIDHash("src"), Parallelism: 1, MaxParallelism: 1, Coordinator: &metadata.ByteStream{Name: "c", Data: []byte("..s3://old-b/splits/1 ")}},
	}})
	p := relocated(t, fsys, sp, "s3://new-b/sp", RelocateOptions{})
	if len(p.Payload) != 5 { // per operator state one for each spelling, and the coordinator
		t.Errorf("%+v", p.Payload)
	}
	for _, u := range p.Payload {
		if u.State != "coordinator" && (u.State != "bucket-states" || u.Count != 1 || !strings.Contains(u.Sample, "old-b/out/_part-2-1")) {
			t.Errorf("%+v", u)
		}
	}
	s, err := Open(t.Context(), fsys, "s3://new-b/sp")
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Operators[0].Subtasks[0].State.ManagedOperator[0].Delegate.(*metadata.ByteStream).Data; !bytes.Equal(d, payload) {
		t.Error("payload bytes were rewritten")
	}
}

func TestD13DerivedSavepointMadeIndependent(t *testing.T) {
	fsys := storage.NewMemory()
	a, b := "s3://b/sp/savepoint-aaaaaa-000000000001", "s3://b/sp/savepoint-bbbbbb-000000000002"
	var shared []metadata.Stream
	for i := range 12 {
		u := fmt.Sprintf("%s/%08d", a, i)
		put(t, fsys, u, 10+i)
		shared = append(shared, file(t, u, 10+i))
	}
	put(t, fsys, b+"/own", 7)
	putMetadata(t, fsys, b, &metadata.Snapshot{Version: metadata.Version3, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(&metadata.RelativeFile{Path: "own", Size: 7}, shared, nil)})}})
	relocated(t, fsys, b, "s3://c/b", RelocateOptions{})
	for info := range fsys.List(t.Context(), a) {
		if err := fsys.Delete(t.Context(), info.URI); err != nil {
			t.Fatal(err)
		}
	}
	checkComplete(t, fsys, "s3://c/b")
}
