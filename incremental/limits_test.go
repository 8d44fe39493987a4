package incremental

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// TestHighestID: a number can be taken whatever directories there are; after the highest number there is none.
func TestHighestID(t *testing.T) {
	const highest = "9223372036854775807"
	f := storage.NewMemory()
	put(t, f, job+"/chk-"+highest+"/leftover", "x")
	put(t, f, job+"/chk-1/leftover", "x")
	c := open(t, CheckpointsOptions{FS: f})
	if _, err := c.Begin(math.MaxInt64); !errors.Is(err, ErrID) {
		t.Errorf("the highest number: %v", err)
	}
	for _, want := range []int64{2, 3} {
		if n := c.NextID(); n != want {
			t.Fatalf("next %d, want %d", n, want)
		}
		checkpoint(t, c, want)
	}
	begin(t, c, math.MaxInt64-1)
	if n := c.NextID(); n != 4 {
		t.Errorf("next %d", n)
	}

	s := snapshotWith(math.MaxInt64, "own")
	putSnapshot(t, f, oldJob+"/chk-"+highest, s)
	for mode := NoClaim; mode <= Legacy; mode++ {
		if _, err := c.Restore(t.Context(), oldJob+"/chk-"+highest, mode); !errors.Is(err, ErrID) {
			t.Errorf("%s: restored what no checkpoint can follow: %v", mode, err)
		}
	}
	if n := c.NextID(); n != 4 || len(c.registry.Snapshots()) != 1 {
		t.Errorf("a failed restore changes something: next %d", n)
	}
	if _, err := OpenCheckpoints(t.Context(), CheckpointsOptions{FS: f, Dir: oldJob}); !errors.Is(err, ErrID) {
		t.Errorf("opened what no checkpoint can follow: %v", err)
	}
}

// TestHugeSizes: sizes that add up to more than there can be are the most that there can be.
func TestHugeSizes(t *testing.T) {
	f := storage.NewMemory()
	huge := []metadata.Stream{file(oldJob+"/shared/one", math.MaxInt64), file(oldJob+"/shared/two", math.MaxInt64)}
	s := modelSnapshotOf(9, append(huge, file(oldJob+"/shared/three", 3)))
	s.Properties = metadata.PropertiesOf(metadata.KindCheckpoint)
	data, err := metadata.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, oldJob+"/chk-9/_metadata", string(data))
	c := restored(t, f, oldJob+"/chk-9", Legacy)
	if latest, _ := c.Latest(); latest.FullSize != math.MaxInt64 || latest.Files < 4 {
		t.Errorf("%+v", latest)
	}
	p := begin(t, c, 10)
	d, err := p.Complete(t.Context(), modelSnapshotOf(10, huge))
	if err != nil || d.FullSize != math.MaxInt64 || d.CheckpointedSize <= 0 || d.CheckpointedSize > 1<<20 {
		t.Errorf("%+v: %v", d, err)
	}
}

// TestUnclaimed: of a snapshot that was not claimed a checkpoint shares nothing, also one that is not the first.
func TestUnclaimed(t *testing.T) {
	f := old(t)
	c := restored(t, f, oldJob+"/chk-9", NoClaim)
	checkpoint(t, c, 10, "+shared/a")
	p := begin(t, c, 11)
	if _, err := p.Complete(t.Context(), snapshotWith(11, oldJob+"/shared/both", "shared/a")); !errors.Is(err, ErrLost) {
		t.Errorf("it shares with what was not claimed: %v", err)
	}
	// What the user says later goes.
	restore(t, c, oldJob+"/chk-9", Legacy)
	checkpoint(t, c, 12, oldJob+"/shared/both", "+shared/b")
	checkpoint(t, c, 13, "+shared/c")
	restore(t, c, oldJob+"/chk-9", NoClaim)
	checkpoint(t, c, 14, "+shared/d")
	p = begin(t, c, 15)
	if _, err := p.Complete(t.Context(), snapshotWith(15, oldJob+"/shared/both")); !errors.Is(err, ErrLost) {
		t.Errorf("it shares with what was not claimed at last: %v", err)
	}
	restore(t, c, oldJob+"/chk-9", Claim)
	checkpoint(t, c, 16, oldJob+"/shared/both", "+shared/e")
	wantThere(t, f, oldJob, "chk-8/_metadata chk-8/own8 shared/both shared/older")
}

// TestUnclaimedLate: one that began on a checkpoint that had files of a snapshot may name them, also if that was restored without a claim
// since, and the checkpoint is gone.
func TestUnclaimedLate(t *testing.T) {
	f := old(t)
	c := open(t, CheckpointsOptions{FS: f, Retain: 2})
	restore(t, c, oldJob+"/chk-9", Legacy)
	checkpoint(t, c, 10, oldJob+"/shared/both", "+shared/a")
	restore(t, c, oldJob+"/chk-9", NoClaim)
	checkpoint(t, c, 11, "+shared/b")
	restore(t, c, job+"/chk-10", NoClaim)
	first, second := begin(t, c, 12), begin(t, c, 13)
	complete(t, first, "shared/a")
	if got := ids(c.Retained()); got != "11 12" || second.Base() != 10 {
		t.Fatalf("retained %s, base %d", got, second.Base())
	}
	complete(t, second, oldJob+"/shared/both")
}

// TestRebaseAfterRestarts: a job that begins anew all the time shares nothing with what is old either.
func TestRebaseAfterRestarts(t *testing.T) {
	f := storage.NewMemory()
	var full []int64
	for id := int64(1); id <= 12; id++ {
		c := open(t, CheckpointsOptions{FS: f, RebaseEvery: 6})
		p := begin(t, c, id)
		switch {
		case p.Full() && id == 6: // it fails, so that the next one must be full
			full = append(full, id)
			if err := p.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
		case p.Full() || id == 1:
			full = append(full, id)
			name := "shared/" + strconv.FormatInt(id, 10)
			upload(t, p, name)
			complete(t, p, name)
		default:
			latest, _ := c.Latest()
			var shared []metadata.Stream
			for ref := range mustRead(t, c, latest.URI).Refs() {
				shared = append(shared, file(ref.Path, ref.Size))
			}
			if _, err := p.Complete(t.Context(), modelSnapshotOf(id, shared)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []int64{1, 6, 7, 12}; !slices.Equal(full, want) {
		t.Fatalf("full: %v, want %v", full, want)
	}
}

// TestLateMetadata: metadata that comes to be there after it was looked for is deleted, as its files are gone.
func TestLateMetadata(t *testing.T) {
	const uri = job + "/chk-2/_metadata"
	inner := storage.NewMemory()
	f := storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.URI == uri && s.Op == "commit" {
			return &storagetest.Fault{Err: errors.New("no answer")}
		}
		return nil
	}})
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	p := begin(t, c, 2)
	upload(t, p, "shared/b")
	s := snapshotWith(2, "shared/a", "shared/b")
	s.Properties = metadata.PropertiesOf(metadata.KindCheckpoint)
	if _, err := p.Complete(t.Context(), s); err == nil {
		t.Fatal("completed")
	}
	wantThere(t, inner, job, "chk-1/_metadata shared/a")
	data, err := metadata.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	put(t, inner, uri, string(data)) // the request was on its way
	checkpoint(t, c, 3, "shared/a")
	wantThere(t, inner, job, "chk-3/_metadata shared/a")
	put(t, inner, uri, "another's")
	checkpoint(t, c, 4, "shared/a")
	wantThere(t, inner, job, "chk-2/_metadata chk-4/_metadata shared/a")
	if err := inner.Delete(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	put(t, inner, uri, string(data))
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantThere(t, inner, job, "chk-4/_metadata shared/a")
}

// TestDeletionSpelled: a store that has another spelling for what it could not delete is understood.
func TestDeletionSpelled(t *testing.T) {
	inner := storage.NewMemory()
	f := &respelling{Memory: inner, deny: true}
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	checkpoint(t, c, 2)
	wantThere(t, inner, job, "chk-2/_metadata shared/a")
	f.deny = false
	checkpoint(t, c, 3)
	wantThere(t, inner, job, "chk-3/_metadata")
}

// respelling names what it could not delete in its own way.
type respelling struct {
	*storage.Memory
	deny bool
}

func (r *respelling) Delete(ctx context.Context, uris ...string) error {
	if !r.deny {
		return r.Memory.Delete(ctx, uris...)
	}
	var errs []error
	for _, uri := range uris {
		if strings.HasSuffix(uri, "shared/a") {
			errs = append(errs, &storage.DeleteError{URI: strings.Replace(uri, "s3://", "s3a://", 1), Err: errors.New("denied")})
		} else {
			errs = append(errs, r.Memory.Delete(ctx, uri))
		}
	}
	return errors.Join(errs...)
}

func mustRead(t *testing.T, c *Checkpoints, uri string) *metadata.Snapshot {
	t.Helper()
	f, err := c.read(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	return f.snapshot
}
