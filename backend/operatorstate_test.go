package backend

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// operatorTask is the operator state of a subtask with a state of each mode.
type operatorTask struct {
	*Operator
	split, union *OperatorList[string]
	broadcast    *Broadcast[string, int64]
}

func openTask(t rapidOrTest, o *Operator) *operatorTask {
	task := &operatorTask{Operator: o}
	var err error
	if task.split, err = OpenOperatorList(o, "split", serializer.ForString(), false); err != nil {
		t.Fatal(err)
	}
	if task.union, err = OpenOperatorList(o, "union", serializer.ForString(), true); err != nil {
		t.Fatal(err)
	}
	if task.broadcast, err = OpenBroadcast(o, "broadcast", serializer.ForString(), serializer.ForLong()); err != nil {
		t.Fatal(err)
	}
	return task
}

type rapidOrTest interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// The elements of split lists are in one subtask each, evenly, those of union lists in all, and broadcast maps
// are the same everywhere, whatever the parallelism before and after; whether states are opened
// before or after the restore, or only later.
func TestOperatorStateRescales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := storage.NewMemory()
		ctx := t.Context()
		var handles []*metadata.OperatorState
		var split, union []string
		broadcast := rapid.MapOf(rapid.StringN(0, 3, -1), rapid.Int64()).Draw(t, "broadcast")
		target := Target{FS: fs, Dir: "mem://b/chk-1", InlineBelow: rapid.SampledFrom([]int{-1, 0}).Draw(t, "inline")}
		compress := rapid.Bool().Draw(t, "compress")
		tasks := make([]*operatorTask, rapid.IntRange(1, 4).Draw(t, "parallelism"))
		for i := range tasks {
			tasks[i] = openTask(t, NewOperator())
			for j := range rapid.IntRange(0, 5).Draw(t, "elements") {
				tasks[i].split.Add(fmt.Sprint("s", i, j))
				tasks[i].union.Add(fmt.Sprint("u", i, j))
			}
			split, union = append(split, tasks[i].split.Get()...), append(union, tasks[i].union.Get()...)
			for u, v := range broadcast {
				tasks[i].broadcast.Put(u, v)
			}
		}
		for range 3 {
			handles = nil
			for _, task := range tasks {
				s, err := task.Snapshot(compress)
				if err != nil {
					t.Fatal(err)
				}
				h, err := s.Write(ctx, target)
				if err != nil {
					t.Fatal(err)
				}
				handles = append(handles, h)
			}
			tasks = make([]*operatorTask, rapid.IntRange(1, 6).Draw(t, "new parallelism"))
			var gotSplit []string
			for i, list := range RepartitionOperator(handles, len(tasks)) {
				o := NewOperator()
				before := rapid.Bool().Draw(t, "opened before")
				if before {
					tasks[i] = openTask(t, o)
				}
				if err := o.Restore(ctx, Files{FS: fs, Dir: target.Dir}, list); err != nil {
					t.Fatal(err)
				}
				if !before {
					if rapid.Bool().Draw(t, "through a snapshot") {
						// What nobody opened is in the next snapshot as it was.
						o = throughSnapshot(t, o, target)
					}
					tasks[i] = openTask(t, o)
				}
				gotSplit = append(gotSplit, tasks[i].split.Get()...)
				if n := len(tasks[i].split.Get()); n < len(split)/len(tasks) || n > (len(split)+len(tasks)-1)/len(tasks) {
					t.Fatalf("subtask %d of %d has %d of %d elements", i, len(tasks), n, len(split))
				}
				if got := tasks[i].union.Get(); !slices.Equal(got, union) {
					t.Fatalf("union list of subtask %d: %q, want %q", i, got, union)
				}
				if d := cmp.Diff(broadcast, maps.Collect(tasks[i].broadcast.All())); d != "" {
					t.Fatalf("broadcast map of subtask %d (-want +got):\n%s", i, d)
				}
			}
			if !slices.Equal(gotSplit, split) {
				t.Fatalf("split lists: %q, want %q", gotSplit, split)
			}
			// Each subtask has the whole union list now; only one may give it to the next round.
			for _, task := range tasks[1:] {
				task.union.Set(nil)
			}
		}
	})
}

// alone is what the only subtask restores.
func alone(handles ...*metadata.OperatorState) []OperatorShare {
	return RepartitionOperator(handles, 1)[0]
}

func throughSnapshot(t *rapid.T, o *Operator, target Target) *Operator {
	s, err := o.Snapshot(false)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Write(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	o = NewOperator()
	if err := o.Restore(t.Context(), Files{FS: target.FS, Dir: target.Dir}, alone(h)); err != nil {
		t.Fatal(err)
	}
	return o
}

// A snapshot is of the time when it was taken.
func TestOperatorStateSnapshot(t *testing.T) {
	task := openTask(t, NewOperator())
	task.split.Add("before")
	task.broadcast.Put("k", 1)
	s, err := task.Snapshot(false)
	if err != nil {
		t.Fatal(err)
	}
	task.split.Set([]string{"after"})
	task.broadcast.Delete("k")
	fs := storage.NewMemory()
	h, err := s.Write(t.Context(), Target{FS: fs, Dir: "mem://b/chk-1"})
	if err != nil {
		t.Fatal(err)
	}
	again := openTask(t, NewOperator())
	if err := again.Restore(t.Context(), Files{FS: fs}, alone(nil, h)); err != nil {
		t.Fatal(err)
	}
	if v, ok := again.broadcast.Get("k"); !slices.Equal(again.split.Get(), []string{"before"}) || v != 1 || !ok {
		t.Errorf("restored %q, %d", again.split.Get(), v)
	}
	empty, err := NewOperator().Snapshot(false)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := empty.Write(t.Context(), Target{FS: fs, Dir: "mem://b/chk-2"}); h != nil || err != nil {
		t.Errorf("a handle of no states: %v, %v", h, err)
	}
}

func TestOperatorStateRefused(t *testing.T) {
	task := openTask(t, NewOperator())
	task.split.Add("x")
	s, err := task.Snapshot(false)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Write(t.Context(), Target{FS: storage.NewMemory(), Dir: "mem://b/chk-1"})
	if err != nil {
		t.Fatal(err)
	}
	restored := func() *Operator {
		o := NewOperator()
		if err := o.Restore(t.Context(), Files{}, alone(h)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if _, err := OpenOperatorList(restored(), "split", serializer.ForString(), true); !errors.Is(err, ErrState) {
		t.Errorf("another mode: %v", err)
	}
	if _, err := OpenOperatorList(restored(), "split", serializer.ForLong(), false); !errors.Is(err, ErrIncompatible) {
		t.Errorf("another serializer: %v", err)
	}
	if _, err := OpenBroadcast(restored(), "union", serializer.ForLong(), serializer.ForLong()); !errors.Is(err, ErrState) {
		t.Errorf("a map where a list was: %v", err)
	}
	if _, err := OpenOperatorList(task.Operator, "split", serializer.ForString(), false); !errors.Is(err, ErrState) {
		t.Errorf("opened twice: %v", err)
	}
	other := NewOperator()
	if _, err := OpenOperatorList(other, "split", serializer.ForLong(), false); err != nil {
		t.Fatal(err)
	}
	if err := other.Restore(t.Context(), Files{}, alone(h)); !errors.Is(err, ErrIncompatible) {
		t.Errorf("restored into another serializer: %v", err)
	}
}
