package incremental

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

const oldJob = "s3://b/ck/ffffffffffffffffffffffffffffffff"

// putSnapshot writes a snapshot as Flink would have left it, with its files.
func putSnapshot(t testing.TB, f storage.FS, dir string, s *metadata.Snapshot) {
	t.Helper()
	if len(s.Properties) == 0 {
		s.Properties = metadata.PropertiesOf(metadata.KindCheckpoint)
	}
	for ref := range s.Refs() {
		uri := ref.Path
		if ref.Kind == metadata.RefRelative {
			uri = storage.Join(dir, uri)
		}
		if err := storage.WriteFile(t.Context(), f, uri, []byte(storage.Base(uri)), storage.CreateOptions{}); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	data, err := metadata.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, storage.Join(dir, metadata.FileName), string(data))
}

// restored opens an empty job and restores it.
func restored(t testing.TB, f storage.FS, uri string, mode ClaimMode) *Checkpoints {
	t.Helper()
	c := open(t, CheckpointsOptions{FS: f})
	restore(t, c, uri, mode)
	return c
}

func restore(t testing.TB, c *Checkpoints, uri string, mode ClaimMode) *metadata.Snapshot {
	t.Helper()
	s, err := c.Restore(t.Context(), uri, mode)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// old is a job that has ended, with two checkpoints that share a file.
func old(t testing.TB) storage.FS {
	f := storage.NewMemory()
	putSnapshot(t, f, oldJob+"/chk-8", snapshotWith(8, oldJob+"/shared/both", oldJob+"/shared/older", "own8"))
	putSnapshot(t, f, oldJob+"/chk-9", snapshotWith(9, oldJob+"/shared/both", oldJob+"/shared/newer", oldJob+"/shared/late", "own9"))
	return f
}

func TestClaim(t *testing.T) {
	f := old(t)
	c := restored(t, f, oldJob+"/chk-9", Claim)
	latest, ok := c.Latest()
	if !ok || latest.ID != 9 || latest.Dir != oldJob+"/chk-9" || ids(c.Retained()) != "9" || c.NextFull() || c.NextID() != 10 {
		t.Errorf("after the restore: %+v, retained %v", latest, c.Retained())
	}
	if _, err := c.Begin(9); !errors.Is(err, ErrID) {
		t.Errorf("the number of what was restored: %v", err)
	}
	checkpoint(t, c, 10, oldJob+"/shared/both", oldJob+"/shared/late", "+shared/a")
	// Like one of its own; chk-8 is the user's, with what it needs.
	wantThere(t, f, oldJob, "chk-8/_metadata chk-8/own8 shared/both shared/late shared/older")
	if got := c.Claimed(); !slices.Equal(got, []string{oldJob + "/chk-9/_metadata"}) {
		t.Errorf("claimed: %q", got)
	}
	reopened := open(t, CheckpointsOptions{FS: f, Claimed: c.Claimed()})
	checkpoint(t, reopened, 11, "shared/a")
	wantThere(t, f, oldJob, "chk-8/_metadata chk-8/own8 shared/both shared/older")
	wantThere(t, f, job, "chk-11/_metadata shared/a")
}

// TestClaimForgotten: files of a claimed snapshot that is not named any more are another's.
func TestClaimForgotten(t *testing.T) {
	f := old(t)
	c := restored(t, f, oldJob+"/chk-9/_metadata", Claim)
	checkpoint(t, c, 10, oldJob+"/shared/both", oldJob+"/shared/late")
	c = open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 11, oldJob+"/shared/late")
	checkpoint(t, c, 12)
	wantThere(t, f, oldJob, "chk-8/_metadata chk-8/own8 shared/both shared/late shared/older")
}

// TestClaimInTurn: what a job had claimed goes on to the one that claims from it if it is handed on, and else belongs to nobody.
func TestClaimInTurn(t *testing.T) {
	const third = "s3://b/ck/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, handed := range []bool{true, false} {
		f := old(t)
		second := restored(t, f, oldJob+"/chk-9", Claim)
		checkpoint(t, second, 10, oldJob+"/shared/both", oldJob+"/shared/late", "+shared/a")
		o := CheckpointsOptions{FS: f, Dir: third}
		if handed {
			o.Claimed = second.Claimed()
		}
		c := open(t, o)
		restore(t, c, job+"/chk-10", Claim)
		if claimed := append(slices.Clone(o.Claimed), job+"/chk-10/_metadata"); !slices.Equal(c.Claimed(), claimed) {
			t.Errorf("claimed: %q, want %q", c.Claimed(), claimed)
		}
		p := begin(t, c, 11)
		put(t, p.FS(), third+"/shared/b", "b")
		complete(t, p, third+"/shared/b")
		wantThere(t, f, job, "")
		want := "chk-8/_metadata chk-8/own8 shared/both shared/late shared/older"
		if handed {
			want = "chk-8/_metadata chk-8/own8 shared/both shared/older"
		}
		wantThere(t, f, oldJob, want)
	}
}

// TestClaimRestart: a restart before the first checkpoint finds what was claimed.
func TestClaimRestart(t *testing.T) {
	f := old(t)
	for _, spelling := range []string{oldJob + "/chk-9", oldJob + "/chk-9/_metadata"} {
		c := open(t, CheckpointsOptions{FS: f, Claimed: []string{spelling}})
		if latest, _ := c.Latest(); latest.ID != 9 || ids(c.Retained()) != "9" {
			t.Errorf("%s: %+v", spelling, latest)
		}
	}
	c := open(t, CheckpointsOptions{FS: f, Claimed: []string{oldJob + "/chk-9"}})
	checkpoint(t, c, 10, "+shared/a")
	wantThere(t, f, oldJob, "chk-8/_metadata chk-8/own8 shared/both shared/older")
}

func TestClaimRefuses(t *testing.T) {
	f := old(t)
	put(t, f, oldJob+"/chk-7/_metadata", "damaged")
	c := open(t, CheckpointsOptions{FS: f})
	p := begin(t, c, 1)
	for _, uri := range []string{oldJob + "/chk-9", oldJob + "/chk-7", oldJob, oldJob + "/chk-1"} {
		if _, err := c.Restore(t.Context(), uri, Claim); err == nil {
			t.Errorf("%s can be claimed", uri)
		}
	}
	if _, err := c.Restore(t.Context(), oldJob+"/chk-9", Legacy+1); err == nil {
		t.Error("a mode that is none")
	}
	if _, ok := c.Latest(); ok || p.Err() != nil || len(c.Claimed()) > 0 || c.NextID() != 2 || len(c.registry.Snapshots()) > 0 {
		t.Error("a failed restore changes something")
	}
	if _, err := OpenCheckpoints(t.Context(), CheckpointsOptions{FS: f, Dir: job, Claimed: []string{oldJob + "/chk-9"}}); err == nil {
		t.Error("opened with a damaged checkpoint beside a claimed one")
	}
}

// TestClaimSavepoint: a claimed native savepoint stays as a whole as long as a file of it is used.
func TestClaimSavepoint(t *testing.T) {
	const dir = "s3://b/sp/savepoint-ffffff-0123456789ab"
	relative := snapshotWith(9, "three")
	h := relative.Operators[0].Subtasks[0].State.ManagedKeyed.(*metadata.Incremental)
	for _, name := range []string{"one", "two"} {
		h.Shared = append(h.Shared, metadata.LocalFile{Stream: &metadata.RelativeFile{Path: metadata.Text(name), Size: 3}})
	}
	for name, s := range map[string]*metadata.Snapshot{"by its properties": savepointOf(9, dir+"/one", dir+"/two", dir+"/three"), "by its handles": relative} {
		t.Run(name, func(t *testing.T) {
			f := storage.NewMemory()
			putSnapshot(t, f, dir, s)
			put(t, f, "s3://b/sp/savepoint-other", "x")
			c := restored(t, f, dir, Claim)
			long := begin(t, c, 20)
			checkpoint(t, c, 10, dir+"/one", dir+"/two", "+shared/a")
			if got := ids(c.Retained()); got != "10" {
				t.Errorf("retained: %s", got)
			}
			wantThere(t, f, dir, "_metadata one three two")
			if _, err := c.Restore(t.Context(), dir, Claim); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("restored from what is to be deleted: %v", err)
			}
			// A pending one can go on with a file that the newest does not use.
			p := begin(t, c, 12)
			checkpoint(t, c, 11, "shared/a")
			if err := long.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantThere(t, f, dir, "_metadata one three two")
			complete(t, p, dir+"/one")
			wantThere(t, f, dir, "_metadata one three two")
			c = open(t, CheckpointsOptions{FS: f, Claimed: c.Claimed()})
			if latest, _ := c.Latest(); latest.ID != 12 {
				t.Errorf("after a restart: %+v", latest)
			}
			checkpoint(t, c, 13, "+shared/b")
			wantThere(t, f, "s3://b/sp", "savepoint-other")
			wantThere(t, f, job, "chk-13/_metadata shared/b")
		})
	}
}

func TestNoClaim(t *testing.T) {
	f := old(t)
	before := there(t, f, oldJob)
	c := restored(t, f, oldJob+"/chk-9", NoClaim)
	if latest, ok := c.Latest(); !ok || latest.ID != 9 || len(c.Retained()) != 0 || !c.NextFull() || len(c.Claimed()) != 0 {
		t.Errorf("after the restore: %+v", latest)
	}
	p := begin(t, c, 10)
	if _, err := p.Complete(t.Context(), snapshotWith(10, oldJob+"/shared/both")); err == nil || !p.Full() {
		t.Error("the first one shares")
	}
	// So do those that begin before a full one has completed.
	first, second := begin(t, c, 11), begin(t, c, 12)
	upload(t, first, "shared/a")
	upload(t, second, "shared/a2")
	complete(t, first, "shared/a")
	if !second.Full() || c.NextFull() {
		t.Errorf("full: %v, next %v", second.Full(), c.NextFull())
	}
	complete(t, second, "shared/a2")
	checkpoint(t, c, 13, "shared/a2", "+shared/b")
	if got := there(t, f, oldJob); !slices.Equal(got, before) {
		t.Errorf("there is %q, was %q", got, before)
	}
	wantThere(t, f, job, "chk-13/_metadata shared/a2 shared/b")
}

func TestLegacy(t *testing.T) {
	f := old(t)
	before := there(t, f, oldJob)
	c := restored(t, f, oldJob+"/chk-9", Legacy)
	if latest, ok := c.Latest(); !ok || latest.ID != 9 || len(c.Retained()) != 0 || c.NextFull() {
		t.Errorf("after the restore: %+v", latest)
	}
	if d := checkpoint(t, c, 10, oldJob+"/shared/both", "+shared/a"); d.Full {
		t.Errorf("shares with another job: %+v", d)
	}
	c = open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 11, oldJob+"/shared/both", "shared/a")
	checkpoint(t, c, 12, "shared/a")
	if got := there(t, f, oldJob); !slices.Equal(got, before) {
		t.Errorf("there is %q, was %q", got, before)
	}
	wantThere(t, f, job, "chk-12/_metadata shared/a")
}

// TestRestoreOwn: a job that goes on from its own checkpoint, also an older one, shares with it in every mode.
func TestRestoreOwn(t *testing.T) {
	for mode := NoClaim; mode <= Legacy; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			f := storage.NewMemory()
			c := open(t, CheckpointsOptions{FS: f, Retain: 2})
			checkpoint(t, c, 1, "+shared/a")
			checkpoint(t, c, 2, "+shared/b")
			p := begin(t, c, 3)
			upload(t, p, "shared/c")
			sp, err := c.BeginSavepoint(4, "s3://b/sp")
			if err != nil {
				t.Fatal(err)
			}
			if s := restore(t, c, job+"/chk-1", mode); s.CheckpointID != 1 {
				t.Errorf("restored %d", s.CheckpointID)
			}
			if !errors.Is(p.Err(), ErrAborted) || !errors.Is(sp.Err(), ErrAborted) || c.NextFull() || ids(c.Retained()) != "1 2" || len(c.Claimed()) != 0 {
				t.Errorf("after the restore: %v, %v, retained %v", p.Err(), sp.Err(), c.Retained())
			}
			if latest, _ := c.Latest(); latest.ID != 1 {
				t.Errorf("latest: %+v", latest)
			}
			wantThere(t, f, job, "chk-1/_metadata chk-2/_metadata shared/a shared/b")
			next := begin(t, c, 5)
			if next.Base() != 1 {
				t.Errorf("base %d", next.Base())
			}
			complete(t, next, "shared/a")
			wantThere(t, f, job, "chk-2/_metadata chk-5/_metadata shared/a shared/b")
		})
	}
}

// TestRestoreAgain: a failure before the first checkpoint goes on from what was restored, in the same mode.
func TestRestoreAgain(t *testing.T) {
	for mode := NoClaim; mode <= Legacy; mode++ {
		f := old(t)
		c := restored(t, f, oldJob+"/chk-9", mode)
		p := begin(t, c, 10)
		latest, _ := c.Latest()
		restore(t, c, latest.URI, mode)
		if !errors.Is(p.Err(), ErrAborted) || c.NextFull() != (mode == NoClaim) {
			t.Errorf("%s: pending %v, next full %v", mode, p.Err(), c.NextFull())
		}
		checkpoint(t, c, 11, "+shared/a")
		if got, gone := there(t, f, oldJob), mode == Claim; slices.Contains(got, "chk-9/own9") == gone || slices.Contains(got, "shared/newer") == gone {
			t.Errorf("%s: there is %q", mode, got)
		}
	}
}

// TestRestoreBelowDir: a savepoint in the job's directory is the user's, until it is claimed.
func TestRestoreBelowDir(t *testing.T) {
	dir := job + "/savepoint-1"
	for mode := NoClaim; mode <= Legacy; mode++ {
		f := storage.NewMemory()
		putSnapshot(t, f, dir, savepointOf(9, "x", dir+"/y"))
		c := restored(t, f, dir, mode)
		if mode != NoClaim {
			checkpoint(t, c, 10, dir+"/y", "+shared/a")
		}
		checkpoint(t, c, 11, "+shared/b")
		checkpoint(t, c, 12, "shared/b")
		if got := strings.Join(there(t, f, dir), " "); (got == "") != (mode == Claim) || got != "" && got != "_metadata x y" {
			t.Errorf("%s: there is %q", mode, got)
		}
	}
}
