package tools

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// oneFile names one file of 5 bytes.
func oneFile(t testing.TB, version metadata.Version, path string) *metadata.Snapshot {
	s := &metadata.Snapshot{Version: version, Operators: []metadata.Operator{
		operator("op", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(file(t, path, 5), nil, nil)})}}
	if version >= metadata.Version4 {
		s.Properties = metadata.NullProperties
	}
	if version <= metadata.Version2 {
		s.Operators[0].Subtasks[0].State.ManagedKeyed.(*metadata.Incremental).V1 = true
	}
	return s
}

// TestRelativeHandlesInOldVersions: Flink knows them since 1.11.
func TestRelativeHandlesInOldVersions(t *testing.T) {
	for _, v := range []metadata.Version{metadata.Version1, metadata.Version2} {
		fsys := storage.NewMemory()
		put(t, fsys, "s3://b/sp/f", 5)
		putMetadata(t, fsys, "s3://b/sp", oneFile(t, v, "s3://b/sp/f"))
		if v == metadata.Version1 {
			refused(t, fsys, "s3://b/sp", "s3://c/x", RelocateOptions{MakeRelative: true}, "know no relative handles")
			wantNothing(t, fsys, "s3://c")
			continue
		}
		p := relocated(t, fsys, "s3://b/sp", "s3://c/x", RelocateOptions{MakeRelative: true})
		i, err := Inspect(t.Context(), fsys, "s3://c/x", InspectOptions{})
		if err != nil || !strings.HasPrefix(i.ReadBy, "1.11 and later") {
			t.Errorf("inspect says that %q reads it, %v", i.ReadBy, err)
		}
		if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "Flink 1.11 and later") {
			t.Errorf("%q", p.Warnings)
		}
	}
}

// TestMetadataOnlyIntoNewDirectory finishes a copy by other means that left
// no file beside the metadata, as there is none with file merging.
func TestMetadataOnlyIntoNewDirectory(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	put(t, fsys, job+"/shared/f", 5)
	put(t, fsys, "s3://c/new/shared/f", 5)
	putMetadata(t, fsys, job+"/chk-4", oneFile(t, metadata.Version6, job+"/shared/f"))
	relocated(t, fsys, job+"/chk-4", "s3://c/new/chk-4", RelocateOptions{MetadataOnly: true, Rewrite: []Rule{{job, "s3://c/new"}}})
	if p := paths(t, fsys, "s3://c/new/chk-4"); p["s3://c/new/shared/f"] != 1 {
		t.Errorf("%v", p)
	}
	// Without rules, the layout of a plain relocation is expected.
	put(t, fsys, "s3://d/x/shared/f", 5)
	relocated(t, fsys, job+"/chk-4", "s3://d/x", RelocateOptions{MetadataOnly: true})
	checkComplete(t, fsys, "s3://d/x")
	// A file in the place of the directory is no destination.
	refused(t, fsys, job+"/chk-4", job+"/shared/f", RelocateOptions{}, "a file, not a directory")
}

// TestOldPlaceDenied has the store of the recorded place deny everything, as
// a bucket of another account does: the files are found around the metadata all the same.
func TestOldPlaceDenied(t *testing.T) {
	inner := storage.NewMemory()
	old, now := "s3://old/ck/"+jobA, "s3://b/copied/ck/"+jobA
	put(t, inner, now+"/shared/f", 5)
	putMetadata(t, inner, now+"/chk-1", oneFile(t, metadata.Version4, old+"/shared/f"))
	denied := storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if strings.HasPrefix(s.URI, "s3://old/") {
			return &storagetest.Fault{Err: fs.ErrPermission}
		}
		return nil
	}})
	p := relocated(t, denied, now+"/chk-1", "s3://b/new", RelocateOptions{})
	if len(p.Moved) != 1 || p.Moved[0].From != "s3://old/ck" && p.Moved[0].From != "s3://old/" {
		t.Errorf("%v", p.Moved)
	}
	checkComplete(t, inner, "s3://b/new")
	// Nor is a file called missing that nobody could look for.
	if err := inner.Delete(t.Context(), now+"/shared/f"); err != nil {
		t.Fatal(err)
	}
	_, err := PlanRelocate(t.Context(), denied, now+"/chk-1", "s3://b/newer", RelocateOptions{})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "--moved") {
		t.Errorf("got %v", err)
	}
}

// TestInPlaceKeepsWhatIsRight: metadata that is right is left alone, whatever lies around.
func TestInPlaceKeepsWhatIsRight(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/x/ck/" + jobA
	put(t, fsys, job+"/shared/f1", 5)
	put(t, fsys, "s3://b/x/shared/f1", 5) // a stray file of the same name and size
	putMetadata(t, fsys, job+"/chk-7", oneFile(t, metadata.Version4, job+"/shared/f1"))
	if p := relocated(t, fsys, job+"/chk-7", "", RelocateOptions{MetadataOnly: true}); !p.Done || len(p.Moved) != 0 {
		t.Errorf("%+v", p)
	}
	// A copy of the job, with the original still there, names the copy.
	put(t, fsys, "s3://b/y/"+jobA+"/shared/f1", 5)
	putMetadata(t, fsys, "s3://b/y/"+jobA+"/chk-7", oneFile(t, metadata.Version4, job+"/shared/f1"))
	relocated(t, fsys, "s3://b/y/"+jobA+"/chk-7", "", RelocateOptions{MetadataOnly: true})
	if p := paths(t, fsys, "s3://b/y/"+jobA+"/chk-7"); p["s3://b/y/"+jobA+"/shared/f1"] != 1 {
		t.Errorf("%v", p)
	}
	// Between a stray file and a place that exists nobody can choose.
	put(t, fsys, "s3://b/z/shared/f1", 5)
	putMetadata(t, fsys, "s3://b/z/w/chk-7", oneFile(t, metadata.Version4, job+"/shared/f1"))
	refused(t, fsys, "s3://b/z/w/chk-7", "", RelocateOptions{MetadataOnly: true}, "s3://b/z/shared", job+"/shared", "--moved")
}

func TestOntoItselfLooksAtTheFiles(t *testing.T) {
	fsys := storage.NewMemory()
	job := "s3://b/ck/" + jobA
	putMetadata(t, fsys, job+"/chk-7", oneFile(t, metadata.Version4, job+"/shared/f1"))
	refused(t, fsys, job+"/chk-7", job+"/chk-7", RelocateOptions{}, "not where the metadata says", "f1")
	put(t, fsys, job+"/shared/f1", 5)
	p := relocated(t, fsys, job+"/chk-7", job+"/chk-7/", RelocateOptions{})
	if !p.Done || !p.SameMetadata || p.Absolute != 1 {
		t.Errorf("%+v", p)
	}
}

func TestContradictoryRules(t *testing.T) {
	fsys := storage.NewMemory()
	put(t, fsys, "s3://b/sp/f", 5)
	putMetadata(t, fsys, "s3://b/sp", oneFile(t, metadata.Version3, "s3://b/sp/f"))
	refused(t, fsys, "s3://b/sp", "s3://c/x", RelocateOptions{Rewrite: []Rule{{"s3://b", "s3://c"}, {"s3a://b/", "s3://d"}}}, "two rules for")
}

// TestCancelled: a cancelled relocation ends with the context's error and writes no metadata.
func TestCancelled(t *testing.T) {
	inner := storage.NewMemory()
	chk := many(t, inner, 20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopping := storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "copy" {
			cancel()
		}
		return nil
	}})
	p, err := PlanRelocate(ctx, stopping, chk, "s3://c/x", RelocateOptions{Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Execute(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := inner.Stat(t.Context(), "s3://c/x/_metadata"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("metadata after a cancellation: %v", err)
	}
}
