package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRelocateOld does with releases from 1.8 on what TestRelocate does with
// current ones: with new snapshots, with those in testdata, which were written
// at a place that is gone, and with the fixtures where there are any.
func TestRelocateOld(t *testing.T) {
	for _, v := range old {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Parallel()
			testRelocateOld(t, v)
		})
	}
}

func testRelocateOld(t *testing.T, v flink) {
	fs := "hashmap"
	cases := []string{"savepoint-rocksdb", "chk-rocksdb-full", "chk-rocksdb-incremental", "savepoint-rocksdb-rich"}
	if v == "1.8.3" || v == "1.12.7" {
		fs = "fs"
		cases = append(cases, "chk-rocksdb-incremental-heaptimers")
	} else {
		cases = append(cases, "savepoint-rocksdb-native")
	}
	cases = append(cases, "savepoint-"+fs, "chk-"+fs)
	written := v.generate(t, nil, cases...)

	dir := t.TempDir()
	var done []relocation
	var load, lines [][]string
	relocate := func(root, what string, onlyNewest bool) {
		files := metadataFiles(t, root)
		for i, name := range files {
			rel, err := filepath.Rel(root, filepath.Dir(name))
			if err != nil {
				t.Fatal(err)
			}
			c, rest, _ := strings.Cut(rel, string(filepath.Separator))
			r := relocation{snapshot{Case: c, Dir: rest}, what, filepath.Join(dir, what, c+"-"+filepath.Base(rest)), nil}
			drey(t, nil, "relocate", filepath.Dir(name), r.at)
			load = append(load, []string{filepath.Join(r.at, "_metadata")})
			newest := i+1 == len(files) || !strings.HasPrefix(files[i+1], filepath.Join(root, c)+string(filepath.Separator))
			if onlyNewest && !newest || strings.Contains(c, "unaligned") { // old/ can't tell what unaligned ones must hold
				continue
			}
			done = append(done, r)
			lines = append(lines, append([]string{"file://" + r.at}, oldJob(c)...))
		}
	}
	relocate(written, "written now", false)
	relocate(filepath.Join("testdata", "old", string(v)), "testdata", false)
	relocate(filepath.Join(fixtures, "old", string(v)), "fixtures", true)
	if err := os.RemoveAll(written); err != nil {
		t.Fatal(err)
	}

	v.many(t, "load-many", load)
	wrong := map[string]string{}
	for uri, w := range v.verify(t, nil, lines) {
		wrong[strings.TrimPrefix(uri, "file://")] = w
	}
	report(t, v, done, wrong)
}

// oldJob gives the backend and the options of the job that wrote a case.
func oldJob(name string) []string {
	job := []string{"fs"}
	switch {
	case strings.Contains(name, "rocksdb"):
		job[0] = "rocks-incr"
	case strings.HasSuffix(name, "-memory"), strings.HasSuffix(name, "-jobmanager"):
		job[0] = "mem"
	}
	for _, o := range []string{"rich", "heaptimers", "rockstimers"} {
		if strings.HasSuffix(name, "-"+o) {
			job = append(job, o)
		}
	}
	return job
}
