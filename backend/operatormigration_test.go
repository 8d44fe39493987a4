package backend

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// ride is a class in its first version, rideNow in its second: fare has gone, note has come.
type (
	ride struct {
		Fare float64
		ID   int64
	}
	rideNow struct {
		ID   int64
		Note *string
	}
)

func rideCodec() serializer.Codec[ride] {
	return serializer.ForPojo("com.example.Ride",
		serializer.NewMember("fare", serializer.ForDouble(), func(v *ride) *float64 { return &v.Fare }),
		serializer.NewMember("id", serializer.ForLong(), func(v *ride) *int64 { return &v.ID }))
}

func rideNowCodec() serializer.Codec[rideNow] {
	return serializer.ForPojo("com.example.Ride",
		serializer.NewMember("id", serializer.ForLong(), func(v *rideNow) *int64 { return &v.ID }),
		serializer.NewNullMember("note", serializer.ForString(), func(v *rideNow) **string { return &v.Note }))
}

// Lists and broadcast maps are restored with serializers that have changed since, the keys of maps too, as in
// Flink, which holds objects of them; with others they are refused.
func TestOperatorStateMigrates(t *testing.T) {
	source := NewOperator()
	list, err := OpenOperatorList(source, "list", rideCodec(), false)
	if err != nil {
		t.Fatal(err)
	}
	kinds := serializer.ForEnum("com.example.Kind", "A", "B")
	broadcast, err := OpenBroadcast(source, "broadcast", kinds, rideCodec())
	if err != nil {
		t.Fatal(err)
	}
	list.Add(ride{1.5, 1}, ride{2.5, 2})
	broadcast.Put("B", ride{3.5, 3})
	fs := storage.NewMemory()
	s, err := source.Snapshot(false)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Write(t.Context(), Target{FS: fs, Dir: "mem://b/chk-1", InlineBelow: -1})
	if err != nil {
		t.Fatal(err)
	}
	shares := RepartitionOperator([]*metadata.OperatorState{h}, 1)
	restore := func(o *Operator) error {
		return o.Restore(t.Context(), Files{FS: fs, Dir: "mem://b/chk-1"}, shares[0])
	}
	for _, before := range []bool{false, true} {
		o := NewOperator()
		if !before {
			if err := restore(o); err != nil {
				t.Fatal(err)
			}
		}
		list, err := OpenOperatorList(o, "list", rideNowCodec(), false)
		if err != nil {
			t.Fatal(err)
		}
		broadcast, err := OpenBroadcast(o, "broadcast", serializer.ForEnum("com.example.Kind", "B", "A"), rideNowCodec())
		if err != nil {
			t.Fatal(err)
		}
		if before {
			if err := restore(o); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff([]rideNow{{ID: 1}, {ID: 2}}, list.Get()); d != "" {
			t.Errorf("opened before %v: -want +got:\n%s", before, d)
		}
		if v, ok := broadcast.Get("B"); !ok || v != (rideNow{ID: 3}) {
			t.Errorf("opened before %v: %v, %v", before, v, ok)
		}
	}
	o := NewOperator()
	if err := restore(o); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOperatorList(o, "list", serializer.ForLong(), false); !errors.Is(err, ErrIncompatible) || !strings.HasPrefix(err.Error(), `operator state "list": `) {
		t.Errorf("another element: %v", err)
	}
	if _, err := OpenBroadcast(o, "broadcast", serializer.ForLong(), rideCodec()); !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), "key: ") {
		t.Errorf("another key: %v", err)
	}
	if _, err := OpenBroadcast(o, "broadcast", kinds, serializer.ForLong()); !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), "value: ") {
		t.Errorf("another value: %v", err)
	}
}

// Keys are read as they are.
func TestSameKeys(t *testing.T) {
	then, now := serializer.ForEnum("com.example.Kind", "A", "B"), serializer.ForEnum("com.example.Kind", "A", "B", "C")
	if err := SameKeys(now, then.Snapshot()); err != nil {
		t.Errorf("a constant more: %v", err)
	}
	for name, err := range map[string]error{
		"a constant less": SameKeys(then, now.Snapshot()),
		"another order":   SameKeys(serializer.ForEnum("com.example.Kind", "B", "A"), then.Snapshot()),
		"another class":   SameKeys(serializer.ForLong(), then.Snapshot()),
		"another schema":  SameKeys(rideNowCodec(), rideCodec().Snapshot()),
	} {
		if !errors.Is(err, ErrIncompatible) || !strings.HasPrefix(err.Error(), "key: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
