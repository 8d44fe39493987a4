package incremental

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/metadata"
)

const job = "s3://b/ck/0f1e2d3c4b5a69788796a5b4c3d2e1f0"

// snapshotOf is a snapshot whose only state is the given handles.
func snapshotOf(id int64, streams ...metadata.Stream) *metadata.Snapshot {
	h := &metadata.Incremental{}
	for _, s := range streams {
		h.Shared = append(h.Shared, metadata.LocalFile{Stream: s})
	}
	return keyed(id, h)
}

func keyed(id int64, h metadata.Keyed) *metadata.Snapshot {
	return &metadata.Snapshot{Version: metadata.Version4, CheckpointID: id, Operators: []metadata.Operator{{
		Parallelism: 1, MaxParallelism: 1, Subtasks: []metadata.Subtask{{State: &metadata.SubtaskState{ManagedKeyed: h}}},
	}}}
}

func file(path string, size int64) metadata.Stream {
	return &metadata.File{Path: metadata.Text(path), Size: size}
}

func add(t testing.TB, r *Registry, uri string, s *metadata.Snapshot) SnapshotID {
	t.Helper()
	id, err := r.Add(uri, s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// uris are the files of a sequence of numbers.
func uris(r *Registry, ids []FileID) []string {
	var list []string
	for _, id := range ids {
		list = append(list, r.File(id).URI)
	}
	slices.Sort(list)
	return list
}

func TestSharing(t *testing.T) {
	r := NewRegistry(Options{})
	one := add(t, r, job+"/chk-1/_metadata", snapshotOf(1, file(job+"/shared/a", 10), file(job+"/shared/b", 20), &metadata.RelativeFile{Path: "x", Size: 3}))
	two := add(t, r, job+"/chk-2/_metadata", snapshotOf(2, file("s3a://b/ck//0f1e2d3c4b5a69788796a5b4c3d2e1f0/shared/b", 20), file(job+"/shared/c", -1), &metadata.ByteStream{Name: metadata.Text(job + "/shared/a")}))

	if got, want := uris(r, slices.Collect(r.Common(one, two))), []string{job + "/shared/b"}; !slices.Equal(got, want) {
		t.Errorf("common: %q", got)
	}
	if got, want := uris(r, slices.Collect(r.Exclusive(one))), []string{job + "/chk-1/_metadata", job + "/chk-1/x", job + "/shared/a"}; !slices.Equal(got, want) {
		t.Errorf("exclusive: %q", got)
	}
	b, ok := r.Find("s3p://b/ck/0f1e2d3c4b5a69788796a5b4c3d2e1f0/shared/b")
	if !ok || !slices.Equal(r.Users(b), []SnapshotID{one, two}) || r.Uses(b) != 2 {
		t.Errorf("users of b: %v %v", ok, r.Users(b))
	}
	if f := r.File(b); f.Need != 20 || !f.Exact || f.Uses != 2 || f.Metadata || f.Directory {
		t.Errorf("b: %+v", f)
	}
	c, _ := r.Find(job + "/shared/c")
	if f := r.File(c); f.Need != -1 || f.Exact {
		t.Errorf("c: %+v", f)
	}
	if _, ok := r.Find(job + "/shared/d"); ok {
		t.Error("a file that nobody named")
	}
	if _, err := r.Add("s3n://b/ck/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-2/_metadata", snapshotOf(2)); !errors.Is(err, ErrKnown) {
		t.Errorf("added twice: %v", err)
	}
	if s, ok := r.FindSnapshot(job + "/chk-2/_metadata"); !ok || s.ID != two || s.CheckpointID != 2 || s.Files != 3 {
		t.Errorf("snapshot: %+v", s)
	}

	gone := r.Release(one)
	if len(gone) != 3 || len(r.Release(one)) != 0 {
		t.Errorf("released: %+v", gone)
	}
	if _, ok := r.Find(job + "/shared/a"); ok || r.Uses(b) != 1 {
		t.Error("a is used yet, or b is not")
	}
	if left := r.Snapshots(); len(left) != 1 || left[0].ID != two {
		t.Errorf("left: %+v", left)
	}
}

func TestMergedAndChangelog(t *testing.T) {
	r := NewRegistry(Options{})
	merged := job + "/taskowned/job_1_tm_2"
	s := snapshotOf(1,
		&metadata.Segment{Path: metadata.Text(merged + "/f"), Start: 0, Size: 10},
		&metadata.Segment{Path: metadata.Text(merged + "/f"), Start: 10, Size: 30},
		&metadata.EmptySegment{})
	s.Operators[0].Subtasks[0].State.ManagedOperator = []*metadata.OperatorState{{
		Delegate: &metadata.EmptySegment{}, Merged: &metadata.MergedDirectories{TaskOwned: metadata.Text(merged), Shared: metadata.Text(job + "/shared/job_1_op_3_0_2")},
	}}
	id := add(t, r, job+"/chk-1/_metadata", s)
	f, _ := r.Find(merged + "/f")
	if got := r.File(f); got.Need != 40 || got.Exact || got.Uses != 1 {
		t.Errorf("merged file: %+v", got)
	}
	d, _ := r.Find(merged + "/")
	if got := r.File(d); !got.Directory {
		t.Errorf("directory: %+v", got)
	}
	dirs := 0
	for _, f := range r.Release(id) {
		if f.Directory {
			dirs++
		}
	}
	if dirs != 2 {
		t.Errorf("%d directories", dirs)
	}

	// One file of a changelog at two offsets, by two operators; its size is logical.
	dstl := "s3://log/0f1e2d3c4b5a69788796a5b4c3d2e1f0/dstl/u"
	id = add(t, r, job+"/chk-2/_metadata", keyed(2, &metadata.Changelog{
		Base: []metadata.Keyed{&metadata.Incremental{Meta: file(job+"/taskowned/m", 7)}},
		Delta: []metadata.Keyed{
			&metadata.ChangelogFile{Streams: []metadata.ChangelogStream{{Offset: 0, Stream: file(dstl, 50)}, {Offset: 9, Stream: file(dstl, 60)}}},
			&metadata.ChangelogMemory{},
		},
	}))
	want := []string{job + "/chk-2/_metadata", job + "/taskowned/m", dstl}
	slices.Sort(want)
	if got := uris(r, slices.Collect(r.Files(id))); !slices.Equal(got, want) {
		t.Errorf("changelog: %q", got)
	}
	f, _ = r.Find(dstl)
	if got := r.File(f); got.Need != -1 || got.Exact {
		t.Errorf("changelog file: %+v", got)
	}
}

func TestKey(t *testing.T) {
	r := NewRegistry(Options{Aliases: []Alias{{"hdfs://nn1:8020", "hdfs://ns"}, {"file:///old", "file:/new"}, {"file:/old/deep", "s3://b"}}})
	for in, want := range map[string]string{
		"hdfs://NN1/u/x":          "hdfs://ns/u/x",
		"hdfs://nn10/u/x":         "hdfs://nn10/u/x",
		"/old/a//b":               "file:/new/a/b",
		"file:///older/a":         "file:/older/a",
		"file:/old/deep/x":        "s3://b/x",
		"file:///old":             "file:/new",
		"s3a://b/x":               "s3://b/x",
		"file://localhost/tmp/ü%": "file:/tmp/ü%",
	} {
		if got := r.Key(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	id := add(t, r, "file:/old/j/chk-1/_metadata", snapshotOf(1, file("/new/j/shared/a", 1), &metadata.RelativeFile{Path: "../x", Size: 1}, file("odd", 1)))
	want := []string{"file:/new/j/chk-1/_metadata", "file:/new/j/shared/a", "file:/new/j/x", "file:odd"}
	if got := uris(r, slices.Collect(r.Files(id))); !slices.Equal(got, want) {
		t.Errorf("files: %q", got)
	}
}

// TestRegistryModel compares random histories with a map of sets.
func TestRegistryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRegistry(Options{})
		model := map[SnapshotID]map[string]bool{}
		paths := rapid.SampledFrom([]string{"s3://b/j/shared/a", "s3a://b/j/shared/a", "s3://b/j/shared/b", "s3://b/k/shared/a", "s3://b/j/c", "file:/x/y", "file:///x/y", "/x/z"})
		canonical := map[string]string{"s3a://b/j/shared/a": "s3://b/j/shared/a", "file:///x/y": "file:/x/y", "/x/z": "file:/x/z"}
		n := 0
		users := func(path string) (ids []SnapshotID) {
			for id, files := range model {
				if files[path] {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			return ids
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n++
				uri := fmt.Sprintf("s3://b/j/chk-%d/_metadata", n)
				set := map[string]bool{uri: true}
				var streams []metadata.Stream
				for _, p := range rapid.SliceOfN(paths, 0, 8).Draw(t, "paths") {
					streams = append(streams, file(p, 1))
					if c, ok := canonical[p]; ok {
						p = c
					}
					set[p] = true
				}
				id, err := r.Add(uri, snapshotOf(int64(n), streams...))
				if err != nil {
					t.Fatal(err)
				}
				model[id] = set
			},
			"release": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("nothing to release")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(t, "id")
				want := map[string]bool{}
				for p := range model[id] {
					if len(users(p)) == 1 {
						want[p] = true
					}
				}
				delete(model, id)
				got := map[string]bool{}
				for _, f := range r.Release(id) {
					got[f.URI] = true
				}
				if !maps.Equal(got, want) {
					t.Fatalf("released %v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				if len(r.Snapshots()) != len(model) {
					t.Fatalf("%d snapshots, want %d", len(r.Snapshots()), len(model))
				}
				distinct := map[string]bool{}
				for a, files := range model {
					if got := uris(r, slices.Collect(r.Files(a))); !slices.Equal(got, slices.Sorted(maps.Keys(files))) {
						t.Fatalf("files of %d: %q", a, got)
					}
					var exclusive []string
					for p := range files {
						distinct[p] = true
						id, ok := r.Find(p)
						if !ok || id >= r.Limit() || !slices.Equal(r.Users(id), users(p)) || r.Uses(id) != len(users(p)) || r.File(id).Uses != len(users(p)) {
							t.Fatalf("users of %s: %v", p, r.Users(id))
						}
						if len(users(p)) == 1 {
							exclusive = append(exclusive, p)
						}
					}
					slices.Sort(exclusive)
					if got := uris(r, slices.Collect(r.Exclusive(a))); !slices.Equal(got, exclusive) {
						t.Fatalf("exclusive of %d: %q, want %q", a, got, exclusive)
					}
					for b, others := range model {
						var common []string
						for p := range files {
							if others[p] {
								common = append(common, p)
							}
						}
						slices.Sort(common)
						if got := uris(r, slices.Collect(r.Common(a, b))); !slices.Equal(got, common) {
							t.Fatalf("common: %q, want %q", got, common)
						}
					}
				}
				for _, p := range []string{"s3://b/j/shared/a", "s3://b/j/shared/b", "file:/x/y", "file:/x/z"} {
					if _, ok := r.Find(p); ok != distinct[p] {
						t.Fatalf("%s: found %v", p, ok)
					}
				}
				if live := len(r.files.entries) - len(r.files.free); live != len(distinct) {
					t.Fatalf("%d files, want %d", live, len(distinct))
				}
			},
		})
	})
}

// TestLongLife adds and releases as a job does that runs for long: nothing may grow.
func TestLongLife(t *testing.T) {
	r := NewRegistry(Options{})
	var held []SnapshotID
	for n := range 2000 {
		var streams []metadata.Stream
		for i := range 50 {
			streams = append(streams, file(fmt.Sprintf("%s/shared/%036d", job, n*10+i), 1))
		}
		held = append(held, add(t, r, fmt.Sprintf("%s/chk-%d/_metadata", job, n), snapshotOf(int64(n), streams...)))
		if len(held) > 3 {
			r.Release(held[0])
			held = held[1:]
		}
	}
	if len(r.files.entries) > 200 || len(r.dirs.entries) > 6 || len(r.files.text) > 1<<18 {
		t.Errorf("%d files, %d directories, %d bytes of names", len(r.files.entries), len(r.dirs.entries), len(r.files.text))
	}
	for _, id := range held {
		for f := range r.Files(id) {
			if got, ok := r.Find(r.File(f).URI); !ok || got != f {
				t.Fatalf("%d is %d after names moved", f, got)
			}
		}
	}
}

// TestNamesModel compares random names, given and taken back, with a map. The table is small and full, so that names are in each other's way.
func TestNamesModel(t *testing.T) {
	names := rapid.OneOf(rapid.StringMatching("[a-z]{0,2}"), rapid.StringMatching("[0f]{2}abcdef-0000-4000-8000-0000000000[0f][0f]"),
		rapid.StringMatching("00abcdef-0000-4000-8000-00000000000[0-9A-Gg-]"))
	rapid.Check(t, func(t *rapid.T) {
		n := newNames()
		type key struct {
			parent uint32
			name   string
		}
		model := map[key]uint32{}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			k := key{rapid.Uint32Range(0, 2).Draw(t, "parent"), names.Draw(t, "name")}
			id, known := model[k]
			if known && rapid.Bool().Draw(t, "remove") {
				n.remove(id)
				delete(model, k)
			} else {
				got, added := n.intern(k.parent, k.name, rapid.Uint32Range(0, uint32(len(n.entries))).Draw(t, "guess"))
				if added == known || known && got != id {
					t.Fatalf("%v: %d %v, want %d", k, got, added, id)
				}
				model[k] = got
			}
			if rapid.IntRange(0, 20).Draw(t, "compact") == 0 {
				n.compact()
			}
			ids := map[uint32]bool{}
			for k, id := range model {
				if got, ok := n.find(k.parent, k.name); !ok || got != id || ids[id] {
					t.Fatalf("%v: %d %v, want %d", k, got, ok, id)
				}
				if string(n.name(id)) != k.name {
					t.Fatalf("%q became %q", k.name, n.name(id))
				}
				ids[id] = true
			}
			_, want := model[k]
			if _, ok := n.find(k.parent, k.name); ok != want {
				t.Fatalf("%v is there: %v", k, ok)
			}
		}
	})
}

// TestEqualTags: names of one hash, which no test can do by chance, are told apart.
func TestEqualTags(t *testing.T) {
	n := newNames()
	a, _ := n.intern(0, "a", 0)
	tag := n.tag(0, "a")
	b := n.add(tag, 0, "b", packed{})
	c := n.add(tag, 1, "a", packed{})
	for _, w := range []struct {
		parent uint32
		name   string
		id     uint32
	}{{0, "a", a}, {0, "b", b}, {1, "a", c}} {
		if got, ok := n.lookup(tag, w.parent, w.name, packed{}); !ok || got != w.id {
			t.Errorf("%v: %d %v", w, got, ok)
		}
	}
	if _, ok := n.lookup(tag, 1, "b", packed{}); ok {
		t.Error("found what is not there")
	}
	n.remove(a)
	if _, ok := n.find(0, "a"); ok {
		t.Error("found what was removed")
	}
	if got, ok := n.lookup(tag, 1, "a", packed{}); !ok || got != c {
		t.Error("what stood behind it is lost")
	}
}

// TestNamed finds files by their names alone, also after changes.
func TestNamed(t *testing.T) {
	const one, two = "00000001-0000-4000-8000-000000000001", "00000001-0000-4000-8000-000000000002"
	r := NewRegistry(Options{})
	a := add(t, r, job+"/chk-1/_metadata", snapshotOf(1, file(job+"/shared/"+one, 1), file(job+"/shared/"+two, 1), file("file:/x/"+one, 1), file(job+"/shared/x", 1)))
	want := func(name string, dirs ...string) {
		t.Helper()
		for i := range dirs {
			dirs[i] += "/" + name
		}
		slices.Sort(dirs)
		if got := uris(r, r.Named(name)); !slices.Equal(got, dirs) {
			t.Errorf("%s: %q, want %q", name, got, dirs)
		}
	}
	want(one, job+"/shared", "file:/x")
	want(two, job+"/shared")
	want("x")
	want("_metadata")
	want("00000000-0000-4000-8000-000000000001")
	want("00000001-0000-4000-8000-000000000003")
	add(t, r, job+"/chk-2/_metadata", snapshotOf(2, file("file:/y/"+one, 1), file(job+"/shared/"+two, 1)))
	want(one, job+"/shared", "file:/x", "file:/y")
	r.Release(a)
	want(one, "file:/y")
	want(two, job+"/shared")
}

// TestFinder compares what a Finder says of files one after the other with what Find says of each, with spellings, aliases and
// directories that alternate, and names that a spelling can change.
func TestFinder(t *testing.T) {
	const uuid = "00abcdef-0000-4000-8000-00000000000"
	for _, aliases := range [][]Alias{nil, {{"s3://old", "s3://b"}}, {{"s3://b/x/" + uuid + "1", "s3://c/" + uuid + "2"}}} {
		var all []string
		for _, dir := range []string{"s3://b/x/", "s3a://B/x//", "s3://old/x/", "s3://c/", "file:/x/", "/x/", "file:/", "/", "", "x/", "file:///x/y/../", `C:\x\`} {
			for _, name := range []string{uuid + "1", uuid + "2", uuid + "A", "x", ".", "..", ""} {
				all = append(all, dir+name)
			}
		}
		r := NewRegistry(Options{Aliases: aliases})
		var used []metadata.Stream
		for i, u := range all {
			if i%3 == 0 && !strings.HasSuffix(u, ".") && !strings.HasSuffix(u, "/") && u != "" {
				used = append(used, file(u, 1))
			}
		}
		add(t, r, job+"/chk-1/_metadata", snapshotOf(1, used...))
		for _, s := range used {
			if _, ok := r.Find(string(s.(*metadata.File).Path)); !ok {
				t.Errorf("%s was added and is not found", s.(*metadata.File).Path)
			}
		}
		rnd := rand.New(rand.NewPCG(1, 1))
		f := r.Finder()
		for range 20_000 {
			u := all[rnd.IntN(len(all))]
			// Compared with the plain way through the whole key.
			dir, name := split(r.Key(u))
			d, ok := r.dirs.find(0, dir)
			var want uint32
			if ok {
				want, ok = r.files.find(d, name)
			}
			if got, found := f.Find(u); found != ok || got != FileID(want) {
				t.Fatalf("%s: %d %v, want %d %v", u, got, found, want, ok)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := NewRegistry(Options{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 50 {
				id, err := r.Add(fmt.Sprintf("%s/chk-%d-%d/_metadata", job, w, n), snapshotOf(int64(n), file(job+"/shared/a", 1), file(fmt.Sprint(job, "/shared/", w, n), 1)))
				if err != nil {
					t.Error(err)
				}
				f, ok := r.Find(job + "/shared/a")
				r.Named("00000001-0000-4000-8000-000000000001")
				if !ok || r.Uses(f) == 0 || len(r.Users(f)) == 0 {
					t.Error("a is not used")
				}
				for range r.Exclusive(id) {
				}
				r.Release(id)
			}
		})
	}
	wg.Wait()
	if len(r.Snapshots()) != 0 || len(r.files.entries) != len(r.files.free) {
		t.Error("something is left")
	}
}

// BenchmarkAdd is the registry of a large job: 200 snapshots with 50,000 references each, of a million files.
func BenchmarkAdd(b *testing.B) {
	const snapshots, refs = 200, 50000
	all := make([]metadata.Stream, (snapshots-1)*4750+refs)
	for i := range all {
		all[i] = file(fmt.Sprintf("%s/shared/%08x-1111-2222-3333-%012x", job, i, i), 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := NewRegistry(Options{})
		for n := range snapshots {
			s := snapshotOf(int64(n), all[n*4750:n*4750+refs]...)
			if _, err := r.Add(fmt.Sprintf("%s/chk-%d/_metadata", job, n), s); err != nil {
				b.Fatal(err)
			}
		}
		if n := r.Limit(); int(n) != len(all)+snapshots {
			b.Fatalf("%d files", n)
		}
		if n := len(r.Named("00000001-1111-2222-3333-000000000001")); n != 1 {
			b.Fatalf("%d files of one name", n)
		}
	}
	b.ReportMetric(snapshots*refs*float64(b.N)/b.Elapsed().Seconds(), "refs/s")
}
