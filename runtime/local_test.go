package runtime

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// local gives a job local copies in a directory, and state that is large enough to stand in files.
func (b *bench) local(dir string, backend Backend, checksums bool) *localrecovery.Store {
	b.t.Helper()
	s, err := localrecovery.Open(localrecovery.Options{Roots: []string{dir}, Checksums: checksums, Logger: b.o.Logger})
	if err != nil {
		b.t.Fatal(err)
	}
	b.o.ID = "000102030405060708090a0b0c0d0e0f"
	b.o.Local, b.o.Backend, b.o.WorkDir = s, backend, filepath.Dir(dir)
	b.o.Checkpoints.InlineBelow, b.o.Checkpoints.Incremental = -1, true
	b.o.Restart = &FixedDelay{Attempts: 10, Delay: time.Second}
	return s
}

// restored waits until the job runs again, and says where its state came from.
func (b *bench) restored(x *Execution) localrecovery.Stats {
	b.t.Helper()
	for x.Status() != StatusRunning {
		if time.Sleep(10 * time.Millisecond); x.Status().Ended() {
			b.t.Fatal(x.Wait(b.t.Context()))
		}
	}
	var s localrecovery.Stats
	if err := x.ask(b.t.Context(), func() { s = x.attempt.localStats() }); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// localFiles lists the files of local copies, by the number of their checkpoint.
func localFiles(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasPrefix(filepath.Base(filepath.Dir(name)), "chk_") {
			chk := filepath.Base(filepath.Dir(name))
			files[chk] = append(files[chk], name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func bothBackends(t *testing.T, f func(t *testing.T, backend Backend, dir string)) {
	for i, name := range []string{"heap", "pebble"} {
		t.Run(name, func(t *testing.T) { f(t, Backend(i), filepath.Join(t.TempDir(), "local")) })
	}
}

// TestLocalRecovery: a restart reads nothing but the metadata from the store; there are copies of no checkpoint but the newest.
func TestLocalRecovery(t *testing.T) {
	bothBackends(t, func(t *testing.T, backend Backend, dir string) {
		in(t, 2000, func(b *bench) {
			s := b.local(dir, backend, false)
			b.delay.Store(int64(time.Millisecond))
			x := b.start()
			for range 2 {
				time.Sleep(350 * time.Millisecond)
				x.kill(func(n int) int { return n - 1 })
				time.Sleep(500 * time.Millisecond)
				point := newest(b, x)
				time.Sleep(time.Second)
				got := b.restored(x)
				if got.LocalFiles < 8 || got.RemoteFiles != 0 || got.LocalBytes == 0 || got.RemoteBytes != 0 {
					b.t.Errorf("restored: %+v", got)
				}
				if x.point.snapshot.CheckpointID != point {
					b.t.Errorf("restored checkpoint %d, the newest was %d", x.point.snapshot.CheckpointID, point)
				}
			}
			time.Sleep(350 * time.Millisecond)
			for _, id := range s.Tasks() {
				task, err := s.Task(id)
				if err != nil {
					b.t.Fatal(err)
				}
				if got := task.Checkpoints(); len(got) > 2 || got[0] < newest(b, x) {
					b.t.Errorf("%s: copies of %v, the newest checkpoint is %d", id, got, newest(b, x))
				}
			}
			b.finish(x)
			if left := localFiles(b.t, dir); len(left) != 0 || len(s.Tasks()) != 0 {
				b.t.Errorf("the job has finished and left %v", left)
			}
			if err := s.Close(); err != nil {
				b.t.Error(err)
			}
		})
	})
}

// newest is the number of the newest checkpoint.
func newest(b *bench, x *Execution) int64 {
	latest, ok := x.checkpoints.Latest()
	if !ok {
		b.t.Fatal("no checkpoint has completed")
	}
	return latest.ID
}

// TestLocalDamage: what is damaged or gone of the copies comes from the store, and only that.
func TestLocalDamage(t *testing.T) {
	bothBackends(t, func(t *testing.T, backend Backend, dir string) {
		for name, damage := range map[string]func(files []string) error{
			"gone": func(files []string) error { return os.Remove(files[0]) },
			"cut":  func(files []string) error { return os.Truncate(files[0], 1) },
			"changed": func(files []string) error {
				data, err := os.ReadFile(files[0])
				if err == nil {
					data[len(data)/2] ^= 1
					err = os.WriteFile(files[0]+".new", data, 0o666) // not into what a database may have linked
				}
				if err == nil {
					err = os.Rename(files[0]+".new", files[0])
				}
				return err
			},
			"all": func(files []string) error {
				for _, f := range files {
					if err := os.Remove(f); err != nil {
						return err
					}
				}
				return nil
			},
		} {
			in(t, 1000, func(b *bench) {
				s := b.local(dir, backend, name == "changed")
				b.delay.Store(int64(time.Millisecond))
				x := b.start()
				time.Sleep(250 * time.Millisecond)
				x.kill(func(int) int { return 0 })
				time.Sleep(500 * time.Millisecond) // it has failed, and is not yet restored
				for _, files := range localFiles(b.t, dir) {
					// The index of a copy was read when it was made.
					files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "_") })
					if err := damage(files); err != nil {
						b.t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				got := b.restored(x)
				if got.RemoteFiles == 0 || (got.LocalFiles == 0) != (name == "all") {
					b.t.Errorf("%s: %+v", name, got)
				}
				b.finish(x)
				if err := s.Close(); err != nil {
					b.t.Error(err)
				}
			})
		}
	})
}

// TestLocalRescale: a job that goes on at another parallelism in another process finds all state in the copies of its old subtasks, which go then.
func TestLocalRescale(t *testing.T) {
	bothBackends(t, func(t *testing.T, backend Backend, dir string) {
		for _, p := range []int{1, 3, 4} {
			in(t, 1000, func(b *bench) {
				s := b.local(dir, backend, false)
				b.delay.Store(int64(time.Millisecond))
				ctx, crash := context.WithCancel(b.t.Context())
				x, err := Start(ctx, b.job(), b.o)
				if err != nil {
					b.t.Fatal(err)
				}
				time.Sleep(250 * time.Millisecond)
				crash()
				<-x.Done()
				if err := s.Close(); err != nil {
					b.t.Fatal(err)
				}
				s = b.local(dir, backend, false)
				b.o.Parallelism = p
				x = b.start()
				for range 2 { // the second time after a failure, and no checkpoint has completed meanwhile
					got := b.restored(x)
					if got.LocalFiles == 0 || got.RemoteFiles != 0 {
						b.t.Errorf("2 -> %d subtasks: %+v", p, got)
					}
					point := newest(b, x)
					time.Sleep(10 * time.Millisecond)
					x.kill(func(int) int { return 0 })
					time.Sleep(500 * time.Millisecond)
					if x.Status() != StatusRestarting || newest(b, x) != point {
						b.t.Fatalf("%s, checkpoint %d was %d", x.Status(), newest(b, x), point)
					}
				}
				b.restored(x)
				time.Sleep(150 * time.Millisecond)
				for _, id := range s.Tasks() {
					if id.Subtask >= p {
						b.t.Errorf("2 -> %d subtasks: %s has a copy still", p, id)
					}
				}
				b.finish(x)
				if err := s.Close(); err != nil {
					b.t.Error(err)
				}
			})
		}
	})
}

// TestLocalUnfinished: attempts of which no checkpoint ever completes leave no copies behind.
func TestLocalUnfinished(t *testing.T) {
	in(t, 2000, func(b *bench) {
		dir := filepath.Join(t.TempDir(), "local")
		s := b.local(dir, BackendHeap, false)
		b.o.FS = failingFS{b.fs}
		x := b.start()
		for range 4 {
			time.Sleep(500 * time.Millisecond) // a checkpoint has failed, and the job with it
			if x.Status() != StatusRestarting {
				b.t.Errorf("status %s", x.Status())
			}
			b.restored(x)
			if left := localFiles(b.t, dir); len(left) != 0 {
				b.t.Errorf("left: %v", left)
			}
		}
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

// TestLocalAborted: the copies of a checkpoint that failed go, and the job with its older ones goes on.
func TestLocalAborted(t *testing.T) {
	in(t, 2000, func(b *bench) {
		dir := filepath.Join(t.TempDir(), "local")
		s := b.local(dir, BackendHeap, false)
		failing := &failsLater{FS: b.fs}
		b.o.FS, b.o.Checkpoints.Tolerable = failing, 1000
		b.delay.Store(int64(time.Millisecond))
		x := b.start()
		time.Sleep(250 * time.Millisecond)
		failing.now.Store(true)
		time.Sleep(500 * time.Millisecond)
		want := fmt.Sprint("chk_", newest(b, x))
		for chk := range localFiles(b.t, dir) {
			if chk != want {
				b.t.Errorf("a copy of %s is left, the newest checkpoint is %s", chk, want)
			}
		}
		x.kill(func(int) int { return 0 })
		time.Sleep(1500 * time.Millisecond)
		if got := b.restored(x); got.LocalFiles == 0 || got.RemoteFiles != 0 {
			b.t.Errorf("%+v", got)
		}
		failing.now.Store(false)
		b.finish(x)
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

// failsLater is a store into which no metadata can be written from some time on.
type failsLater struct {
	storage.FS
	now atomic.Bool
}

func (f *failsLater) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	if f.now.Load() {
		return failingFS{f.FS}.Create(ctx, uri, o)
	}
	return f.FS.Create(ctx, uri, o)
}

// TestLocalMemory keeps the copies in memory, with records in flight: nothing but metadata is read from the store.
func TestLocalMemory(t *testing.T) {
	in(t, 3000, func(b *bench) {
		s, err := localrecovery.Open(localrecovery.Options{Memory: 10 << 20})
		if err != nil {
			b.t.Fatal(err)
		}
		opened := &opensFS{FS: b.fs}
		b.o.FS, b.o.Local, b.o.Checkpoints.InlineBelow, b.o.Checkpoints.Unaligned = opened, s, -1, true
		b.o.Restart = &FixedDelay{Attempts: 10, Delay: time.Second}
		b.delay.Store(int64(time.Millisecond))
		x, err := Start(b.t.Context(), b.backlog(), b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(350 * time.Millisecond)
		x.kill(func(int) int { return 0 })
		time.Sleep(500 * time.Millisecond)
		if stats, err := x.Checkpoints(b.t.Context()); err != nil || stats[len(stats)-1].Channels == 0 {
			b.t.Errorf("nothing in flight: %+v, %v", stats, err)
		}
		opened.uris()
		time.Sleep(time.Second)
		if got := b.restored(x); got.LocalFiles == 0 || got.RemoteFiles != 0 {
			b.t.Errorf("%+v", got)
		}
		if uris := opened.uris(); len(uris) != 0 {
			b.t.Errorf("read from the store: %v", uris)
		}
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

// opensFS notes the objects below the directory of checkpoints that are opened, but for metadata.
type opensFS struct {
	storage.FS
	mu     sync.Mutex
	opened []string
}

func (f *opensFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	if strings.Contains(uri, "/checkpoints/") && storage.Base(uri) != metadata.FileName {
		f.mu.Lock()
		f.opened = append(f.opened, uri)
		f.mu.Unlock()
	}
	return f.FS.Open(ctx, uri)
}

// uris gives what was opened since it was called last.
func (f *opensFS) uris() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	uris := f.opened
	f.opened = nil
	return uris
}
