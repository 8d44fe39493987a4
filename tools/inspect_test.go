package tools

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// inspected inspects and demands that it works.
func inspected(t testing.TB, fsys storage.FS, arg string, o InspectOptions) *Inspection {
	t.Helper()
	r, err := Inspect(t.Context(), fsys, arg, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantWords demands that text holds all of words.
func wantWords(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

// snapshotsDir is where the snapshots by real Flink are.
func snapshotsDir(t testing.TB, elem ...string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(append([]string{"drey", "testdata", "snapshots"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	matches, err := filepath.Glob(dir)
	if err != nil || len(matches) != 1 {
		t.Fatalf("%s: %v, %v", dir, matches, err)
	}
	return "file:" + filepath.ToSlash(matches[0])
}

func relative(path string, n int) *metadata.RelativeFile {
	return &metadata.RelativeFile{Path: metadata.Text(path), Size: int64(n)}
}

func inline(name string, n int) *metadata.ByteStream {
	return &metadata.ByteStream{Name: metadata.Text(name), Data: make([]byte, n)}
}

// wholeKeyGroups is keyed state of all 128 key groups.
func wholeKeyGroups(form metadata.KeyGroupsForm, delegate metadata.Stream) *metadata.KeyGroups {
	h := &metadata.KeyGroups{Form: form, Delegate: delegate}
	for i := range 128 {
		h.Offsets = append(h.Offsets, int64(i%4+1))
	}
	return h
}

func TestD02InspectSelfContained(t *testing.T) {
	for v := metadata.Version3; v <= metadata.Version6; v++ {
		for name, keyed := range map[string]metadata.Keyed{
			"canonical": wholeKeyGroups(metadata.KeyGroupsSavepoint, relative("kg", 100)),
			"native":    incrementalHandle(inline("m", 5), []metadata.Stream{relative("s1", 10), relative("s2", 20)}, []metadata.Stream{relative("p", 3)}),
		} {
			t.Run(fmt.Sprintf("v%d %s", v, name), func(t *testing.T) {
				fsys := storage.NewMemory()
				dir := "s3://b/sp/savepoint-aaaaaa-0123456789ab"
				s := &metadata.Snapshot{Version: v, Operators: []metadata.Operator{operator("a", &metadata.SubtaskState{ManagedKeyed: keyed})}}
				want := 1
				if name == "native" {
					want = 3
				}
				if v >= metadata.Version4 {
					s.Properties = metadata.NullProperties
				}
				putMetadata(t, fsys, dir, s)
				r := inspected(t, fsys, dir, InspectOptions{})
				if c := r.SelfContained; !c.Yes || c.Relative != want || c.Absolute != 0 || len(c.Blockers) > 0 {
					t.Errorf("got %+v", c)
				}
				noun := "handles"
				if want == 1 {
					noun = "handle"
				}
				if got, want := r.SelfContained.Headline, fmt.Sprintf("self-contained: yes - %d relative %s, 0 absolute; copy the directory as is", want, noun); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// savepoint214 is the recipe of D03: 220 handles of files, of which 214 are absolute.
func savepoint214(t testing.TB, dir string) *metadata.Snapshot {
	var shared, private []metadata.Stream
	for i := range 213 {
		shared = append(shared, file(t, fmt.Sprintf("%s/%08d-0000-4000-8000-000000000000", dir, i), 10))
	}
	for i := range 5 {
		private = append(private, relative(fmt.Sprintf("%08d-1111-4000-8000-000000000000", i), 7))
	}
	private = append(private, inline("x", 3), inline("y", 3))
	keyed := incrementalHandle(file(t, dir+"/meta", 5), shared, private)
	return &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		operator("a", &metadata.SubtaskState{ManagedKeyed: keyed, ManagedOperator: operatorState([]string{"n"}, relative("o", 4))}),
		operator("b", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"m"}, inline("z", 3))}),
	}}
}

func TestD03InspectMixed(t *testing.T) {
	fsys := storage.NewMemory()
	dir := "s3://b/sp/savepoint-aaaaaa-0123456789ab"
	putMetadata(t, fsys, dir, savepoint214(t, dir))
	r := inspected(t, fsys, dir, InspectOptions{})
	want := "NOT self-contained: 214 of 220 handles are absolute, all inside this savepoint's own directory -> can be converted with relocate --make-relative"
	if got := r.SelfContained.Headline; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !r.SelfContained.Convertible || r.SelfContained.ByPlace[PlaceOwn] != 214 {
		t.Errorf("got %+v", r.SelfContained)
	}

	// The same directory at another place: the headline says where it was recorded.
	moved := "file:/elsewhere/savepoint-aaaaaa-0123456789ab"
	putMetadata(t, fsys, moved, savepoint214(t, dir))
	r = inspected(t, fsys, moved, InspectOptions{})
	wantWords(t, r.SelfContained.Headline, "214 of 220", "own directory as it was recorded, "+dir, "--make-relative")
}

func TestD04InspectEntropy(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	prefixes := []string{"k3f9", "a1b2", "Zz09", "qqqq", "w0w1", "e5e6", "r7r8", "t9t0", "y1y2", "u3u4", "i5i6", "o7o8"}
	var shared []metadata.Stream
	for i := range 40 {
		name := fmt.Sprintf("f%02d", i)
		if i == 13 {
			name = "f00" // the same name under another prefix
		}
		shared = append(shared, file(t, fmt.Sprintf("s3://b/%s/ck/%s/shared/%s", prefixes[i%len(prefixes)], jobA, name), 10))
	}
	chk := job + "/chk-5"
	meta := file(t, "s3://b/vvvv/ck/"+jobA+"/chk-5/m", 1)
	s := &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, CheckpointID: 5,
		Operators: []metadata.Operator{operator("a", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(meta, shared, nil)})}}
	putMetadata(t, fsys, chk, s)
	r := inspected(t, fsys, chk, InspectOptions{})
	if c := r.SelfContained; c.Scattered != 41 || c.ByPlace[PlaceShared] != 40 || c.ByPlace[PlaceOwn] != 1 {
		t.Errorf("got %+v", c)
	}
	if p := r.Places[0]; p.Directory != "s3://b/*/ck/"+jobA+"/shared" || p.Prefixes != 12 || p.Files != 40 || p.Bytes != 400 {
		t.Errorf("got %+v", p)
	}
	wantWords(t, strings.Join(r.Warnings, "\n"), "entropy injection scattered")

	literal := "s3://b/_entropy_/ck/" + jobA + "/chk-5"
	putMetadata(t, fsys, literal, s)
	r = inspected(t, fsys, literal, InspectOptions{})
	wantWords(t, strings.Join(r.Warnings, "\n"), "literal entropy marker", "look for this snapshot in "+chk)

	// The metadata was moved away from the store: the random characters are still told from each other.
	putMetadata(t, fsys, "file:/copy/chk-5", s)
	if r = inspected(t, fsys, "file:/copy/chk-5", InspectOptions{}); r.SelfContained.Scattered < 40 {
		t.Errorf("after a move got %+v", r.SelfContained)
	}
}

func TestD04InspectRealEntropy(t *testing.T) {
	dir := snapshotsDir(t, "1.20.5", "ck-s3-entropy", "s3", "*", "flink", "ckpt", "*", "chk-5")
	r := inspected(t, storage.NewLocal(storage.LocalOptions{}), dir, InspectOptions{})
	c := r.SelfContained
	if c.Relative != 0 || c.Scattered != c.Absolute || c.ByPlace[PlaceShared]+c.ByPlace[PlaceOwn] != c.Absolute {
		t.Errorf("got %+v", c)
	}
	for _, p := range r.Places {
		if !strings.HasPrefix(p.Directory, "s3://fx-ck-s3-entropy/*/flink/ckpt/") {
			t.Errorf("place %+v", p)
		}
	}
}

// strangeNames are names that are percent-encoded, decoded or split by careless programs.
var strangeNames = []string{"Team Log", "a%20b", "a+b", "ü", "日本", "😀", "x?y#z", "{1}[2]", "a&b=c", "tab\there"}

func TestD07InspectAndVerifyOddNames(t *testing.T) {
	local := storage.NewLocal(storage.LocalOptions{NoSync: true})
	for where, fsys := range map[string]storage.FS{"s3://b": storage.NewMemory(), "file:" + filepath.ToSlash(t.TempDir()): local} {
		for _, name := range strangeNames {
			t.Run(where[:4]+" "+name, func(t *testing.T) {
				dir := where + "/" + name + "/savepoint-1"
				put(t, fsys, dir+"/rel "+name, 5)
				put(t, fsys, where+"/other "+name+"/"+name, 6)
				op := operator(name, &metadata.SubtaskState{
					ManagedOperator: operatorState([]string{"x"}, &metadata.RelativeFile{Path: text(t, "rel "+name), Size: 5}),
					ManagedKeyed:    incrementalHandle(inline("m", 1), []metadata.Stream{file(t, where+"/other "+name+"/"+name, 6)}, nil),
				})
				op.Name, op.UID = text(t, name), text(t, name)
				op.Subtasks[0].State.ManagedOperator[0].States[0].Name = text(t, name)
				putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: []metadata.Operator{op}})
				for _, arg := range []string{dir, dir + "/", dir + "/_metadata", strings.Replace(dir, "/savepoint", "//savepoint", 1)} {
					r := inspected(t, fsys, arg, InspectOptions{})
					if o := r.Operators[0]; o.UID != name || o.Name != name || o.States[0].Name != name || r.Files.Files != 2 {
						t.Errorf("%s: got %+v", arg, o)
					}
					v := verified(t, fsys, arg)
					if c := v.Snapshots[0]; c.Verdict != VerdictIntact || len(c.Warnings) > 0 {
						t.Errorf("%s: got %+v", arg, c)
					}
				}
			})
		}
	}
}

func TestD08InspectWindowsPaths(t *testing.T) {
	fsys := storage.NewMemory()
	shared := []metadata.Stream{
		file(t, "file:/C:/flink/ck/a", 10), file(t, "C:/flink/ck/a", 10), file(t, "/C:/flink/ck/a", 10), file(t, "C:/flink/ck/b", 20),
	}
	s := &metadata.Snapshot{Version: metadata.Version2, Operators: []metadata.Operator{operator("a", &metadata.SubtaskState{
		ManagedKeyed: &metadata.Incremental{V1: true, BackendID: "b", KeyGroups: metadata.KeyGroupRange{Count: 128}, Meta: file(t, "C:/flink/ck/m", 1),
			Shared: incrementalHandle(nil, shared, nil).Shared},
	})}}
	putMetadata(t, fsys, "file:/copy/savepoint-1", s)
	r := inspected(t, fsys, "file:/copy/savepoint-1", InspectOptions{})
	if r.Files.Handles != 5 || r.Files.Files != 3 || r.Files.PhysicalBytes != 31 {
		t.Errorf("three spellings of one file: got %+v", r.Files)
	}
	if len(r.Places) != 1 || r.Places[0].Handles != 5 {
		t.Errorf("three spellings of one directory: got %+v", r.Places)
	}

	// On this machine the drive is not there; the report says how to map it.
	local := storage.NewLocal(storage.LocalOptions{NoSync: true})
	dir := "file:" + filepath.ToSlash(t.TempDir())
	putMetadata(t, local, dir, s)
	v := verified(t, local, dir)
	c := v.Snapshots[0]
	if c.Verdict == VerdictIntact || c.Undecided+c.Missing != 3 {
		t.Errorf("got %s, %d undecided, %d missing", c.Verdict, c.Undecided, c.Missing)
	}
	wantWords(t, strings.Join(c.Advice, "\n"), "paths of Windows", "--moved FROM=TO")
}

func TestD10SelfContainedGate(t *testing.T) {
	fsys := storage.NewMemory()
	dir := "s3://b/ops/abc123/savepoint-aaaaaa-0123456789ab"
	s := savepoint214(t, "s3://b/other/savepoint-bbbbbb-0123456789ab")
	s.Operators[0].Subtasks[0].State.RawOperator = operatorState([]string{"r"}, &metadata.RelativeFile{Path: "../outside", Size: 3})
	putMetadata(t, fsys, dir, s)
	c := inspected(t, fsys, dir, InspectOptions{}).SelfContained
	if c.Yes || len(c.Blockers) != 2 {
		t.Fatalf("got %+v", c)
	}
	b := c.Blockers[0]
	if b.Place != PlaceOtherSavepoint || b.Handles != 214 || b.Directory != "s3://b/other/savepoint-bbbbbb-0123456789ab" || b.Field == "" {
		t.Errorf("got %+v", b)
	}
	wantWords(t, b.Example, "operator ", "meta file")
	wantWords(t, c.Blockers[1].Handle, "leads out of the directory")
}

func TestD13InspectNamesTheParent(t *testing.T) {
	fsys := storage.NewMemory()
	a, b := "s3://b/sp/savepoint-aaaaaa-0123456789ab", "s3://b/sp/savepoint-bbbbbb-0123456789ab"
	var shared []metadata.Stream
	for i := range 12 {
		shared = append(shared, file(t, fmt.Sprintf("%s/f%d", a, i), 10))
	}
	putMetadata(t, fsys, b, &metadata.Snapshot{Version: metadata.Version3, Operators: []metadata.Operator{
		operator("a", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(relative("own", 4), shared, nil)}),
	}})
	r := inspected(t, fsys, b, InspectOptions{})
	if r.SelfContained.ByPlace[PlaceOtherSavepoint] != 12 || r.SelfContained.Relative != 1 {
		t.Errorf("got %+v", r.SelfContained)
	}
	wantWords(t, strings.Join(r.Warnings, "\n"), "12 handles name files of another savepoint, "+a)
}

func TestD26Versions(t *testing.T) {
	fsys := storage.NewMemory()
	header := func(v int32) []byte {
		return []byte{0x49, 0x60, 0x67, 0x2D, byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v), 0, 0, 0, 0}
	}
	for v, words := range map[int32][]string{
		0:  {"Flink 1.1"},
		7:  {"version 7 is newer than this drey", "nothing after the header was decoded"},
		99: {"version 99 is newer"},
		-1: {"version -1", "no Flink release writes it"},
	} {
		uri := fmt.Sprintf("s3://b/v%d", v)
		if err := storage.WriteFile(t.Context(), fsys, uri, header(v), storage.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := Inspect(t.Context(), fsys, uri, InspectOptions{Partial: true})
		if !errors.Is(err, metadata.ErrVersion) {
			t.Errorf("version %d: got %v", v, err)
			continue
		}
		wantWords(t, err.Error(), append(words, uri)...)
	}
	for v, want := range map[metadata.Version][2]string{
		1: {"1.2", "1.2 to 1.10"}, 2: {"1.3 to 1.10", "1.3 and later"}, 3: {"1.11 to 1.15", "1.11 and later"},
		4: {"1.16 to 1.20", "1.16 and later"}, 5: {"2.0", "2.0 and later"}, 6: {"2.1 to 2.3", "2.1 and later"},
	} {
		s := &metadata.Snapshot{Version: v}
		if v >= metadata.Version4 {
			s.Properties = metadata.NullProperties
		}
		dir := fmt.Sprintf("s3://b/d%d", v)
		putMetadata(t, fsys, dir, s)
		r := inspected(t, fsys, dir, InspectOptions{})
		if r.Version != v || r.WrittenBy != want[0] || r.ReadBy != want[1] {
			t.Errorf("version %d: got %q, %q", v, r.WrittenBy, r.ReadBy)
		}
		wantWords(t, strings.Join(r.Notes, "\n"), "no checksum")
	}
}

// TestReferencesCountOnce has one merged file in many segments and one file of
// channel state in many handles.
func TestReferencesCountOnce(t *testing.T) {
	fsys := storage.NewMemory()
	dir := "s3://b/ck/" + jobA + "/chk-3"
	merged := metadata.Text("s3://b/ck/" + jobA + "/taskowned/job_x_tm_y/f")
	var shared []metadata.Stream
	for i := range 10 {
		shared = append(shared, &metadata.Segment{Start: int64(i * 50), Size: 50, Path: merged, LogicalFileID: metadata.Text(fmt.Sprint(i))})
	}
	st := &metadata.SubtaskState{ManagedKeyed: incrementalHandle(inline("m", 5), shared, nil)}
	for i := range 8 {
		st.InputChannels = append(st.InputChannels, metadata.ChannelState{Channel: int32(i), Offsets: []int64{int64(4 + 100*i)}, Size: 100, Delegate: relative("in", 1000)})
		st.OutputChannels = append(st.OutputChannels, metadata.ChannelState{Channel: int32(i), Offsets: []int64{int64(4 + 100*i)}, Size: 100, Delegate: relative("out", 1000)})
	}
	putMetadata(t, fsys, dir, &metadata.Snapshot{Version: metadata.Version4, CheckpointID: 3, Properties: metadata.NullProperties, Operators: []metadata.Operator{operator("a", st)}})
	r := inspected(t, fsys, dir, InspectOptions{Top: 3})
	if f := r.Files; f.Handles != 26 || f.Files != 3 || f.PhysicalBytes != 2500 || f.LogicalBytes != 500+5+1600 || f.InlineBytes != 5 {
		t.Errorf("got %+v", f)
	}
	o := r.Operators[0]
	if o.ChannelBytes != 1600 || o.InputChannels != 8 || o.OutputChannels != 8 || o.Files != 3 || o.FileBytes != 2500 {
		t.Errorf("got %+v", o)
	}
	var sum int64
	for _, n := range r.Classes {
		sum += n
	}
	if sum != r.MetadataBytes {
		t.Errorf("classes %v add up to %d, the file has %d bytes", r.Classes, sum, r.MetadataBytes)
	}
	if len(r.Largest) != 1 || r.Largest[0].Field != "operators[0].subtasks[0].managedKeyed.meta" {
		t.Errorf("got %+v", r.Largest)
	}
}

func TestTopLargest(t *testing.T) {
	fsys := storage.NewMemory()
	var ops []metadata.Operator
	for i := range 20 {
		ops = append(ops, operator(fmt.Sprint(i), &metadata.SubtaskState{ManagedOperator: operatorState([]string{"n"}, inline("x", 100*i))}))
	}
	s := &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: ops}
	putMetadata(t, fsys, "s3://b/sp", s)
	r := inspected(t, fsys, "s3://b/sp", InspectOptions{Top: 2})
	if l := r.Largest; len(l) != 2 || l[0].Bytes != 1900 || l[1].Bytes != 1800 || l[0].Field != "operators[19].subtasks[0].managedOperator" {
		t.Errorf("got %+v", l)
	}
	var sum int64
	for _, o := range r.Operators {
		sum += o.MetadataBytes
		var classes int64
		for _, n := range o.Classes {
			classes += n
		}
		if classes != o.MetadataBytes {
			t.Errorf("operator %s: classes add up to %d of %d", o.ID, classes, o.MetadataBytes)
		}
	}
	if header := r.MetadataBytes - sum; header != 8+8+4+4+int64(len(s.Properties)) {
		t.Errorf("%d bytes outside of operators", header)
	}
}
