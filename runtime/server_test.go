package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/storage"
)

// served is a running job and a client of its server.
func served(t *testing.T, o Options) (*Execution, *rest.Client, storage.FS) {
	t.Helper()
	fs := storage.Mux{"mem": storage.NewMemory()}
	l := NewLog[click](3)
	fill(l, 500)
	o.FS, o.Parallelism, o.CheckpointDir, o.Logger = fs, 2, "mem:///checkpoints", testLogger(t)
	x, err := Start(t.Context(), counts(l, fs, func() {}), o)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{FS: fs}
	s.Add(x)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	t.Cleanup(func() {
		if err := x.Cancel(context.Background()); err != nil && !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
	})
	c, err := rest.New(h.URL, rest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for x.tasks().Running == 0 {
		time.Sleep(time.Millisecond)
	}
	return x, c, fs
}

// wait asks how far an operation is until it has ended.
func wait(t *testing.T, ask func() (*rest.Operation, error)) (string, error) {
	t.Helper()
	for {
		op, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if location, done, err := op.Done(); done {
			return location, err
		}
		time.Sleep(time.Millisecond)
	}
}

// TestServer has the client of package rest, which real Flink was tried with, do all that it can.
func TestServer(t *testing.T) {
	ctx := t.Context()
	x, c, fs := served(t, Options{SavepointDir: "mem:///savepoints", Checkpoints: CheckpointOptions{Interval: 20 * time.Millisecond}})
	jobs, err := c.Jobs(ctx)
	if err != nil || len(jobs) != 1 || jobs[0].ID != x.ID() || jobs[0].State != rest.JobRunning || jobs[0].Tasks.Running != 8 || jobs[0].Name != "counts" {
		t.Errorf("%+v, %v", jobs, err)
	}
	job, err := c.Job(ctx, x.ID())
	if err != nil || len(job.Vertices) != 4 || job.Vertices[1].Parallelism != 2 || job.Vertices[1].Status != "RUNNING" {
		t.Errorf("%+v, %v", job, err)
	}
	for _, o := range []any{first(c.Dashboard(ctx)), first(c.Overview(ctx)), first(c.CheckpointConfig(ctx, x.ID()))} {
		if o == nil {
			t.Error("no answer")
		}
	}
	trigger, err := c.TriggerSavepoint(ctx, x.ID(), rest.SavepointRequest{Format: rest.Native})
	if err != nil {
		t.Fatal(err)
	}
	location, err := wait(t, func() (*rest.Operation, error) { return c.Savepoint(ctx, x.ID(), trigger) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat(ctx, storage.Join(location, metadata.FileName)); err != nil {
		t.Error(err)
	}
	var history *rest.Checkpoints
	for {
		if history, err = c.Checkpoints(ctx, x.ID()); err != nil {
			t.Fatal(err)
		}
		if history.Latest.Completed != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if sp := history.Latest.Savepoint; sp == nil || *sp.Path != location || *sp.Format != "NATIVE" || sp.Acknowledged != 8 {
		t.Errorf("%+v", sp)
	}
	details, err := c.Checkpoint(ctx, x.ID(), history.Latest.Savepoint.ID)
	if err != nil || len(details.Tasks) != 4 {
		t.Errorf("%+v, %v", details, err)
	}
	for vertex := range details.Tasks {
		d, err := c.TaskCheckpoint(ctx, x.ID(), history.Latest.Savepoint.ID, vertex)
		if err != nil || len(d.Subtasks) != 2 || d.Status != rest.CheckpointCompleted {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if trigger, err = c.DisposeSavepoint(ctx, location); err != nil {
		t.Fatal(err)
	}
	if _, err := wait(t, func() (*rest.Operation, error) { return c.Disposal(ctx, trigger) }); err != nil {
		t.Error(err)
	}
	if _, err := fs.Stat(ctx, storage.Join(location, metadata.FileName)); err == nil {
		t.Error("the savepoint is there still")
	}
	if trigger, err = c.DisposeSavepoint(ctx, *history.Latest.Completed.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := wait(t, func() (*rest.Operation, error) { return c.Disposal(ctx, trigger) }); err == nil {
		t.Error("a checkpoint was disposed of")
	}
	if trigger, err = c.Stop(ctx, x.ID(), rest.StopRequest{TargetDirectory: "mem:///other", Drain: true}); err != nil {
		t.Fatal(err)
	}
	if location, err = wait(t, func() (*rest.Operation, error) { return c.Savepoint(ctx, x.ID(), trigger) }); err != nil || storage.Dir(location) != "mem:/other" {
		t.Errorf("%s, %v", location, err)
	}
	if job, err = c.Job(ctx, x.ID()); err != nil || job.State != rest.JobFinished {
		t.Errorf("%+v, %v", job, err)
	}
	if err := c.Cancel(ctx, x.ID()); !errors.Is(err, rest.ErrEnded) {
		t.Errorf("cancel a job that has finished: %v", err)
	}
	if _, err := c.Job(ctx, "ffffffffffffffffffffffffffffffff"); !errors.Is(err, rest.ErrNotFound) {
		t.Errorf("another job: %v", err)
	}
}

func first[T any](v *T, err error) any {
	if err != nil {
		return nil
	}
	return v
}

// TestServerRefuses: errors have the meaning that Flink's have.
func TestServerRefuses(t *testing.T) {
	ctx := t.Context()
	x, c, _ := served(t, Options{})
	if _, err := c.TriggerSavepoint(ctx, x.ID(), rest.SavepointRequest{}); !errors.Is(err, rest.ErrNoDirectory) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := c.Checkpoints(ctx, x.ID()); !errors.Is(err, rest.ErrNoCheckpoints) {
		t.Errorf("no checkpoints: %v", err)
	}
	if _, err := c.Savepoint(ctx, x.ID(), rest.NewTriggerID()); !errors.Is(err, rest.ErrNotFound) {
		t.Errorf("another trigger: %v", err)
	}
	if err := c.Cancel(ctx, x.ID()); err != nil {
		t.Errorf("cancel: %v", err)
	}
	<-x.Done()
	if err := c.Cancel(ctx, x.ID()); err != nil {
		t.Errorf("canceled twice: %v", err)
	}
}

// TestLinger: a process that ends with its job goes on answering until whoever stopped the job knows.
func TestLinger(t *testing.T) {
	in(t, 100, func(b *bench) {
		x := b.start()
		s := &Server{}
		s.Add(x)
		ask := func(method, path, body string) string {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(body)))
			return w.Body.String()
		}
		s.Linger(b.t.Context()) // nobody waits for anything
		time.Sleep(50 * time.Millisecond)
		const trigger = "00000000000000000000000000000001"
		ask("POST", "/jobs/"+x.ID()+"/savepoints", `{"triggerId":"`+trigger+`"}`)
		ask("POST", "/jobs/"+x.ID()+"/stop", `{"triggerId":"`+strings.Replace(trigger, "1", "2", 1)+`"}`)
		<-x.Done()
		gone := false
		go func() {
			s.Linger(b.t.Context())
			gone = true
		}()
		for _, last := range []func() string{
			func() string { return ask("GET", "/jobs/"+x.ID()+"/savepoints/"+trigger, "") },
			func() string {
				return ask("GET", "/jobs/"+x.ID()+"/savepoints/"+strings.Replace(trigger, "1", "2", 1), "")
			},
			func() string { return ask("GET", "/jobs/overview", "") },
		} {
			synctest.Wait()
			if gone {
				b.t.Error("did not wait")
			}
			b.t.Log(last())
		}
		synctest.Wait()
		if !gone {
			b.t.Error("waits, and everybody was told")
		}
		ask("POST", "/savepoint-disposal", `{"savepoint-path":"mem:///none"}`)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		s.Linger(ctx)
		if ctx.Err() == nil {
			b.t.Error("nobody was told of the disposal")
		}
	})
}

// heldInput is an input that is opened when it may be.
type heldInput struct {
	*Log[click]
	may chan struct{}
}

func (h heldInput) Partitions(ctx context.Context) ([]string, error) {
	<-h.may
	return h.Log.Partitions(ctx)
}

// TestInitializing: a task counts as running when it can take part in a savepoint.
func TestInitializing(t *testing.T) {
	in(t, 100, func(b *bench) {
		may := make(chan struct{})
		j := NewJob("held")
		ForEach(From(j, Op{UID: "clicks"}, heldInput{b.l, may}, clicks, SourceOptions[click]{}), Op{UID: "out"}, func(Record[click]) error { return nil })
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		synctest.Wait()
		if c := x.tasks(); x.Status() != StatusRunning || c.Initializing != 2 || c.Running != 0 {
			b.t.Errorf("%s, %+v", x.Status(), c)
		}
		if _, err := x.Savepoint(b.t.Context(), "", SavepointOptions{}); !errors.Is(err, ErrNotRunning) {
			b.t.Errorf("%v", err)
		}
		if err := asksForSavepoint(b.t, x); !errors.Is(err, rest.ErrNotReady) {
			b.t.Errorf("by REST: %v", err)
		}
		close(may)
		synctest.Wait()
		if c := x.tasks(); c.Initializing != 0 || c.Running != 2 {
			b.t.Errorf("%+v", c)
		}
		if _, err := x.Stop(b.t.Context(), "", SavepointOptions{}); err != nil {
			b.t.Error(err)
		}
	})
}

// asksForSavepoint asks a server of the job for a savepoint and gives what became of it.
func asksForSavepoint(t *testing.T, x *Execution) error {
	t.Helper()
	s := &Server{}
	s.Add(x)
	const trigger = "00000000000000000000000000000001"
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/jobs/"+x.ID()+"/savepoints", strings.NewReader(`{"triggerId":"`+trigger+`"}`)))
	for {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/jobs/"+x.ID()+"/savepoints/"+trigger, nil))
		var op rest.Operation
		if err := json.Unmarshal(w.Body.Bytes(), &op); err != nil {
			t.Fatal(err)
		}
		if _, done, err := op.Done(); done || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// slowMetadata is a store in which it takes a second to write metadata.
type slowMetadata struct{ storage.FS }

func (f slowMetadata) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	if storage.Base(uri) == metadata.FileName {
		time.Sleep(time.Second)
	}
	return f.FS.Create(ctx, uri, o)
}

// TestStopping: while a job is being stopped there is no other savepoint.
func TestStopping(t *testing.T) {
	in(t, 100, func(b *bench) {
		b.o.FS = slowMetadata{b.fs}
		x := b.start()
		time.Sleep(10 * time.Millisecond)
		stopped := make(chan error)
		go func() {
			_, err := x.Stop(b.t.Context(), "", SavepointOptions{})
			stopped <- err
		}()
		time.Sleep(100 * time.Millisecond)
		if _, err := x.Savepoint(b.t.Context(), "", SavepointOptions{}); !errors.Is(err, ErrStopping) {
			b.t.Errorf("%v", err)
		}
		if err := asksForSavepoint(b.t, x); !errors.Is(err, rest.ErrInProgress) {
			b.t.Errorf("by REST: %v", err)
		}
		if err := <-stopped; err != nil {
			b.t.Error(err)
		}
	})
}
