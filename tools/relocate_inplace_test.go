package tools

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// TestInPlaceTwice corrects snapshots of real Flink in place after their case
// was moved as a whole: the files and the directories of file merging are then
// named where they are, and doing it again changes nothing.
func TestInPlaceTwice(t *testing.T) {
	fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
	cases, err := filepath.Glob(filepath.Join("drey", "testdata", "snapshots", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	n, directories := 0, 0
	for _, c := range cases {
		root := filepath.Join(t.TempDir(), "moved")
		if err := os.CopyFS(root, os.DirFS(c)); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != MetadataName {
				return err
			}
			n++
			dir := "file:" + filepath.Dir(path)
			relocated(t, fsys, dir, "", RelocateOptions{MetadataOnly: true})
			after, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if p := relocated(t, fsys, dir, "", RelocateOptions{MetadataOnly: true}); !p.Done {
				t.Errorf("%s: the second time changes %v", path, p.Rewritten)
			}
			again, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, again) {
				t.Errorf("%s: the second time gives other bytes, %v", path, err)
			}
			directories += checkDirectories(t, fsys, dir, "file:"+root)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 10 || directories < 10 {
		t.Errorf("only %d snapshots, %d directories", n, directories)
	}
}

// checkDirectories fails unless every directory of file merging is one of its
// own below shared or taskowned of root. Flink deletes them with all they hold.
func checkDirectories(t *testing.T, fsys storage.FS, dir, root string) (n int) {
	t.Helper()
	s, err := Open(t.Context(), fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	for r := range s.Refs() {
		if r.Kind != metadata.RefDirectory {
			continue
		}
		n++
		_, below := storage.Rel(root, r.Path)
		if parent := storage.Base(storage.Dir(r.Path)); !below || parent != "shared" && parent != "taskowned" {
			t.Errorf("%s: %s = %s", s.URI, r.Field(), r.Path)
		}
	}
	return n
}

// TestDirectoriesOfGatheredSnapshots relocates, moves and corrects twice.
func TestDirectoriesOfGatheredSnapshots(t *testing.T) {
	fsys := storage.NewLocal(storage.LocalOptions{NoSync: true})
	found, err := filepath.Glob("drey/testdata/snapshots/*/ck-filemerging-*/ckpt/*/chk-*")
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, src := range found {
		abs, err := filepath.Abs(src)
		if err != nil {
			t.Fatal(err)
		}
		one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
		p := relocated(t, fsys, "file:"+abs, "file:"+one, RelocateOptions{})
		for _, m := range p.Moved {
			if strings.Contains(m.To, "/chk-") {
				t.Errorf("%s: a directory was found in %s", src, m.To)
			}
		}
		checkDirectories(t, fsys, "file:"+one, "file:"+one)
		if err := os.Rename(one, two); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			relocated(t, fsys, "file:"+two, "", RelocateOptions{MetadataOnly: true})
			checkDirectories(t, fsys, "file:"+two, "file:"+two)
		}
	}
}

// TestDirectoryThatHoldsTheSnapshot: Flink would delete the snapshot with it.
func TestDirectoryThatHoldsTheSnapshot(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	put(t, fsys, job+"/taskowned/job_x/f", 4)
	merged := func(shared string) *metadata.Snapshot {
		return &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: []metadata.Operator{
			operator("op", &metadata.SubtaskState{ManagedOperator: []*metadata.OperatorState{{
				Delegate: &metadata.Segment{Size: 4, Path: text(t, job+"/taskowned/job_x/f"), LogicalFileID: "l"},
				Merged:   &metadata.MergedDirectories{TaskOwned: text(t, job+"/taskowned/job_x"), Shared: text(t, shared)},
			}}})}}
	}
	putMetadata(t, fsys, job+"/chk-1", merged(job+"/shared/job_x_op"))
	refused(t, fsys, job+"/chk-1", "s3://c/x/in", RelocateOptions{Rewrite: []Rule{{job, "s3://c/y"}, {job + "/shared/job_x_op", "s3://c/x"}}}, "deletes this directory")
	wantNothing(t, fsys, "s3://c")
	putMetadata(t, fsys, job+"/chk-2", merged(job+"/chk-2"))
	v, err := Verify(t.Context(), fsys, []string{job + "/chk-1", job + "/chk-2"}, VerifyOptions{})
	if err != nil || len(v.Snapshots[0].Warnings) != 0 || len(v.Snapshots[1].Warnings) != 1 || !strings.Contains(v.Snapshots[1].Warnings[0], "CLAIM") {
		t.Errorf("%+v, %v", v.Snapshots, err)
	}
}

func TestOutputElsewhere(t *testing.T) {
	fsys := storage.NewMemory()
	sp := "s3://b/savepoint-0a0a0a-000000000001"
	mixed(t, fsys, sp)
	o := RelocateOptions{MetadataOnly: true, MakeRelative: true, Output: "s3://c/other/_metadata"}
	refused(t, fsys, sp, "", o, "relative handles", sp)
	wantNothing(t, fsys, "s3://c")
	o.Output = "s3://c/other/new.meta"
	if p := relocated(t, fsys, sp, "", o); len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], sp) {
		t.Errorf("%q", p.Warnings)
	}
}

func TestRelativeInPlaceNeedsTheFilesThere(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	put(t, fsys, job+"/shared/f", 5)
	putMetadata(t, fsys, job+"/chk-7", oneFile(t, metadata.Version4, job+"/shared/f"))
	refused(t, fsys, job+"/chk-7", "", RelocateOptions{MetadataOnly: true, MakeRelative: true}, job+"/shared/f", "another directory")
}

func TestSourceIsLeftAlone(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	put(t, fsys, job+"/shared/f", 5)
	putMetadata(t, fsys, job+"/chk-7", oneFile(t, metadata.Version4, job+"/shared/f"))
	refused(t, fsys, job+"/chk-7", job, RelocateOptions{}, "holds the source")
	refused(t, fsys, job+"/chk-7", "s3://c/x", RelocateOptions{Rewrite: []Rule{{job + "/shared", job + "/chk-7/in"}}}, "inside of the source")
	refused(t, fsys, job+"/chk-7", "s3://c/x", RelocateOptions{Moved: []Rule{{job, "s3://b/1"}, {job, "s3://b/2"}}}, "two rules for")
	wantNothing(t, fsys, "s3://c")
}

func TestManifestS3Batch(t *testing.T) {
	plan := func(files ...FileCopy) (string, Manifest, error) {
		var out bytes.Buffer
		m, err := (&RelocatePlan{Files: files}).WriteManifest(&out, ManifestS3Batch)
		return out.String(), m, err
	}
	text, m, err := plan(
		FileCopy{Source: "s3://a/x+y/f 1", Target: "s3a://t/p/x+y/f 1", Size: 1},
		FileCopy{Source: "s3://a/ü/a%20b,c", Target: "s3://t/p/ü/a%20b,c", Size: 5 << 30},
		FileCopy{Source: "s3://a/there", Target: "s3://t/elsewhere", Present: true})
	if err != nil || text != "a,x%2By/f%201\na,%C3%BC/a%2520b%2Cc\n" {
		t.Errorf("%q, %v", text, err)
	}
	if want := (Manifest{Files: 2, Bytes: 5<<30 + 1, SourceBucket: "a", Bucket: "t", Prefix: "p/"}); m != want {
		t.Errorf("%+v", m)
	}
	one := FileCopy{Source: "s3://a/f", Target: "s3://t/p/f"}
	for why, other := range map[string]FileCopy{
		"from one bucket":    {Source: "s3://b/g", Target: "s3://t/p/g"},
		"above 5 GiB":        {Source: "s3://a/g", Target: "s3://t/p/g", Size: 5<<30 + 1},
		"keeps the key":      {Source: "s3://a/g", Target: "s3://t/p/h"},
		"one prefix for all": {Source: "s3://a/g", Target: "s3://t/q/g"},
		"only from S3 to S3": {Source: "file:/g", Target: "s3://t/p/g"},
	} {
		if _, _, err := plan(one, other); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
