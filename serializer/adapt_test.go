package serializer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drey-state/drey/serializer"
)

// What Flink calls the results of resolveSchemaCompatibility.
const (
	asIs           = "compatible as is"
	reconfigured   = "compatible with reconfigured serializer"
	afterMigration = "compatible after migration"
)

// sale is a class in its first version, saleNow in its second: sum has gone, at and note have come.
type (
	sale struct {
		ID   int64
		Kind string
		Name *string
		Sum  float64
	}
	saleNow struct {
		ID   int64
		Kind string
		Name *string
		At   int32
		Note *string
	}
)

const saleClass = "com.example.Order"

func saleCodec(id serializer.Codec[int64], kinds ...string) serializer.Codec[sale] {
	return serializer.ForPojo(saleClass,
		serializer.NewMember("id", id, func(v *sale) *int64 { return &v.ID }),
		serializer.NewMember("kind", serializer.ForEnum("com.example.Kind", kinds...), func(v *sale) *string { return &v.Kind }),
		serializer.NewNullMember("name", serializer.ForString(), func(v *sale) **string { return &v.Name }),
		serializer.NewMember("sum", serializer.ForDouble(), func(v *sale) *float64 { return &v.Sum }).DeclaredBy("com.example.Base"))
}

func saleNowCodec(kinds ...string) serializer.Codec[saleNow] {
	return serializer.ForPojo(saleClass,
		serializer.NewMember("at", serializer.ForInt(), func(v *saleNow) *int32 { return &v.At }),
		serializer.NewMember("id", serializer.ForLong(), func(v *saleNow) *int64 { return &v.ID }),
		serializer.NewMember("kind", serializer.ForEnum("com.example.Kind", kinds...), func(v *saleNow) *string { return &v.Kind }),
		serializer.NewNullMember("name", serializer.ForString(), func(v *saleNow) **string { return &v.Name }),
		serializer.NewNullMember("note", serializer.ForString(), func(v *saleNow) **string { return &v.Note }))
}

func now() int64 { return 1234 }

// compatible checks how a codec reads what another wrote, and what it makes of a value.
func compatible[A, B any](t *testing.T, name, how string, old serializer.Codec[A], v A, c serializer.Codec[B], want B) {
	t.Run(name, func(t *testing.T) {
		a, err := serializer.Adapt(c, old.Snapshot(), now)
		if err != nil {
			t.Fatal(err)
		}
		is := asIs
		switch {
		case a.Migrates:
			is = afterMigration
		case a.Read != nil:
			is = reconfigured
		}
		if is != how {
			t.Errorf("%s, not %s", is, how)
		}
		read := a.Read
		if read == nil {
			read = c.Read
		}
		out := serializer.NewOutput(nil)
		old.Write(out, v)
		if out.Err() != nil {
			t.Fatal(out.Err())
		}
		// It must be left where the next value begins.
		in := serializer.NewInput(append(out.Bytes(), 0x55))
		got := read(in)
		if in.Err() != nil || in.Remaining() != 1 {
			t.Fatalf("%v, %d bytes left", in.Err(), in.Remaining())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		for n := range out.Len() {
			in := serializer.NewInput(out.Bytes()[:n])
			if read(in); in.Err() == nil {
				t.Fatalf("%d of %d bytes are enough", n, out.Len())
			}
		}
	})
}

func TestAdapt(t *testing.T) {
	name := "n"
	was := sale{ID: 7, Kind: "B", Name: &name, Sum: 2.5}
	is := saleNow{ID: 7, Kind: "B", Name: &name}
	old, c := saleCodec(serializer.ForLong(), "A", "B"), saleNowCodec("A", "B", "C")
	compatible(t, "the same", asIs, old, was, old, was)
	compatible(t, "fields added and removed", afterMigration, old, was, c, is)
	compatible(t, "and back", afterMigration, c, saleNow{ID: 7, Kind: "B", Name: &name, At: 9, Note: &name}, saleCodec(serializer.ForLong(), "A", "B", "C"), sale{ID: 7, Kind: "B", Name: &name})
	compatible(t, "constants added", asIs, serializer.ForEnum("E", "A", "B"), "B", serializer.ForEnum("E", "A", "B", "C"), "B")
	compatible(t, "constants in another order", reconfigured, serializer.ForEnum("E", "A", "B"), "B", serializer.ForEnum("E", "B", "N", "A"), "B")
	compatible(t, "of a field", reconfigured, old, was, saleCodec(serializer.ForLong(), "B", "A"), was)

	// The parts of composites.
	e, f := serializer.ForEnum("E", "A", "B"), serializer.ForEnum("E", "B", "A")
	compatible(t, "list", afterMigration, serializer.ForList(old), []sale{was, was}, serializer.ForList(c), []saleNow{is, is})
	compatible(t, "list reconfigured", reconfigured, serializer.ForList(e), []string{"A", "B"}, serializer.ForList(f), []string{"A", "B"})
	compatible(t, "set", afterMigration, serializer.ForSet(old), []sale{was}, serializer.ForSet(c), []saleNow{is})
	compatible(t, "map", afterMigration, serializer.ForMap(e, old), map[string]sale{"A": was}, serializer.ForMap(f, c), map[string]saleNow{"A": is})
	compatible(t, "map with nulls", afterMigration, serializer.ForNullMap(e, old), map[string]*sale{"A": &was, "B": nil}, serializer.ForNullMap(f, c), map[string]*saleNow{"A": &is, "B": nil})
	compatible(t, "nullable", afterMigration, serializer.ForNullable(old, false), &was, serializer.ForNullable(c, false), &is)
	compatible(t, "padded", reconfigured, serializer.ForNullable(e, true), nil, serializer.ForNullable(f, true), nil)
	compatible(t, "array", afterMigration, serializer.ForArray(saleClass, old), []*sale{nil, &was}, serializer.ForArray(saleClass, c), []*saleNow{nil, &is})
	compatible(t, "either", afterMigration, serializer.ForEither(e, old), serializer.OneOf[string, sale]{Right: was}, serializer.ForEither(f, c), serializer.OneOf[string, saleNow]{Right: is})
	compatible(t, "Tuple1", reconfigured, serializer.ForTuple1(e), serializer.Tuple1[string]{"A"}, serializer.ForTuple1(f), serializer.Tuple1[string]{"A"})
	compatible(t, "Tuple2", afterMigration, serializer.ForTuple2(e, old), serializer.Tuple2[string, sale]{"A", was}, serializer.ForTuple2(f, c), serializer.Tuple2[string, saleNow]{"A", is})
	compatible(t, "Tuple3", afterMigration, serializer.ForTuple3(e, old, e), serializer.Tuple3[string, sale, string]{"A", was, "B"},
		serializer.ForTuple3(e, c, f), serializer.Tuple3[string, saleNow, string]{"A", is, "B"})
	compatible(t, "Tuple4", afterMigration, serializer.ForTuple4(e, e, old, e), serializer.Tuple4[string, string, sale, string]{"A", "B", was, "B"},
		serializer.ForTuple4(e, f, c, f), serializer.Tuple4[string, string, saleNow, string]{"A", "B", is, "B"})
	compatible(t, "Tuple5", afterMigration, serializer.ForTuple5(old, e, e, e, e), serializer.Tuple5[sale, string, string, string, string]{was, "A", "B", "A", "B"},
		serializer.ForTuple5(c, e, f, e, f), serializer.Tuple5[saleNow, string, string, string, string]{is, "A", "B", "A", "B"})
	compatible(t, "row", afterMigration, serializer.ForRow(serializer.ForAny(e), serializer.ForAny(old), serializer.ForAny(e)), serializer.Row{Kind: 3, Fields: []any{"A", was, nil}},
		serializer.ForRow(serializer.ForAny(f), serializer.ForAny(c), serializer.ForAny(e)), serializer.Row{Kind: 3, Fields: []any{"A", is, nil}})
	compatible(t, "pointer", afterMigration, serializer.ForPointer(old), &was, serializer.ForPointer(c), &is)
	compatible(t, "pointer of the same", asIs, serializer.ForPointer(old), &was, serializer.ForPointer(old), &was)
	compatible(t, "timer", reconfigured, serializer.ForTimer(serializer.ForLong(), e), serializer.TimerValue[int64, string]{Timestamp: -5, Key: 6, Namespace: "A"},
		serializer.ForTimer(serializer.ForLong(), f), serializer.TimerValue[int64, string]{Timestamp: -5, Key: 6, Namespace: "A"})

	// Time to live.
	compatible(t, "time to live", afterMigration, serializer.ForTTL(old), serializer.TTLValue[sale]{LastAccess: 5, Value: was}, serializer.ForTTL(c), serializer.TTLValue[saleNow]{LastAccess: 5, Value: is})
	compatible(t, "time to live, the same", asIs, serializer.ForTTL(e), serializer.TTLValue[string]{LastAccess: 5, Value: "A"}, serializer.ForTTL(e), serializer.TTLValue[string]{LastAccess: 5, Value: "A"})
	compatible(t, "time to live added", afterMigration, serializer.ForLong(), 8, serializer.ForTTL(serializer.ForLong()), serializer.TTLValue[int64]{LastAccess: now(), Value: 8})
	compatible(t, "time to live removed", afterMigration, serializer.ForTTL(serializer.ForLong()), serializer.TTLValue[int64]{LastAccess: 5, Value: 8}, serializer.ForLong(), 8)
	compatible(t, "time to live and fields added", afterMigration, old, was, serializer.ForTTL(c), serializer.TTLValue[saleNow]{LastAccess: now(), Value: is})
	compatible(t, "time to live and fields removed", afterMigration, serializer.ForTTL(old), serializer.TTLValue[sale]{LastAccess: 5, Value: was}, c, is)
}

func incompatible[A, B any](t *testing.T, name, why string, old serializer.Codec[A], c serializer.Codec[B]) {
	t.Run(name, func(t *testing.T) {
		_, err := serializer.Adapt(c, old.Snapshot(), now)
		if !errors.Is(err, serializer.ErrIncompatible) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, not %q", err, why)
		}
	})
}

func TestAdaptRefuses(t *testing.T) {
	old := saleCodec(serializer.ForLong(), "A", "B")
	incompatible(t, "another type", "Long, written by org.apache.flink", serializer.ForLong(), serializer.ForInt())
	incompatible(t, "another class", "com.example.Order", old, serializer.ForPojo[sale]("com.example.Other"))
	incompatible(t, "type of a field", "field id: ", serializer.ForPojo(saleClass,
		serializer.NewMember("id", serializer.ForInt(), func(v *int32) *int32 { return v })), old)
	incompatible(t, "constant removed", `no constant "B"`, serializer.ForEnum("E", "A", "B"), serializer.ForEnum("E", "A"))
	incompatible(t, "another enum", "not F", serializer.ForEnum("E", "A"), serializer.ForEnum("F", "A"))
	incompatible(t, "deep down", "element: value: field kind: ",
		serializer.ForList(serializer.ForMap(serializer.ForString(), old)),
		serializer.ForList(serializer.ForMap(serializer.ForString(), saleCodec(serializer.ForLong(), "A"))))
	incompatible(t, "fewer fields of a tuple", "parts", serializer.ForTuple3(serializer.ForLong(), serializer.ForLong(), serializer.ForLong()), serializer.ForTuple2(serializer.ForLong(), serializer.ForLong()))
	incompatible(t, "fewer fields of a row", "parts", serializer.ForRow(serializer.ForAny(serializer.ForLong())), serializer.ForRow())
	incompatible(t, "padding", "padded", serializer.ForNullable(serializer.ForLong(), true), serializer.ForNullable(serializer.ForLong(), false))
	incompatible(t, "class of an array", "another class", serializer.ForArray("A", serializer.ForLong()), serializer.ForArray("B", serializer.ForLong()))
	incompatible(t, "time to live of another type", "Long", serializer.ForTTL(serializer.ForLong()), serializer.ForString())
	incompatible(t, "time to live inside", "element: ", serializer.ForList(serializer.ForLong()), serializer.ForList(serializer.ForTTL(serializer.ForLong())))
	if _, err := serializer.Adapt(serializer.ForTTL(serializer.ForLong()), serializer.ForLong().Snapshot(), nil); !errors.Is(err, serializer.ErrIncompatible) {
		t.Errorf("time to live where there can be none: %v", err)
	}
	if _, err := serializer.Adapt(serializer.ForLong(), nil, now); !errors.Is(err, serializer.ErrIncompatible) {
		t.Errorf("without a snapshot: %v", err)
	}
}

// A field that has gone must be passed over, which can't be done if its end is not to be found.
func TestAdaptWithoutEnd(t *testing.T) {
	const kryo = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
	old := &serializer.Snapshot{Class: saleCodec(serializer.ForLong()).Snapshot().Class, Version: 2, Body: &serializer.Pojo{Class: saleClass, Fields: []serializer.Frame{
		serializer.PojoField(saleClass, "a", &serializer.Snapshot{Class: kryo, Version: 2, Body: &serializer.Kryo{Class: "java.util.List"}}),
		serializer.PojoField(saleClass, "id", serializer.ForLong().Snapshot()),
	}}}
	c := serializer.ForPojo(saleClass, serializer.NewMember("id", serializer.ForLong(), func(v *int64) *int64 { return v }))
	a, err := serializer.Adapt(c, old, nil)
	if err != nil || !a.Migrates {
		t.Fatal(a, err)
	}
	in := serializer.NewInput([]byte{2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	if v := a.Read(in); v != 9 || in.Err() != nil {
		t.Errorf("null: %d, %v", v, in.Err())
	}
	in.Reset([]byte{2, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	if a.Read(in); !errors.Is(in.Err(), serializer.ErrUnsupported) || !strings.Contains(in.Err().Error(), "field a") {
		t.Errorf("not null: %v", in.Err())
	}
}

// Rows of Flink before 1.11 have no kinds, and become insertions.
func TestAdaptRowWithoutKinds(t *testing.T) {
	c := serializer.ForRow(serializer.ForAny(serializer.ForLong()), serializer.ForAny(serializer.ForByte()))
	old := *c.Snapshot()
	body := *old.Body.(*serializer.Composite)
	body.OuterVersion, body.Outer = 2, nil
	old.Body = &body
	a, err := serializer.Adapt(c, &old, nil)
	if err != nil || !a.Migrates {
		t.Fatal(a, err)
	}
	got := a.Read(serializer.NewInput([]byte{0x80, 9}))
	if d := cmp.Diff(serializer.Row{Fields: []any{nil, int8(9)}}, got); d != "" {
		t.Error(d)
	}
	body.OuterVersion = 3 // those of 1.11 and 1.12 have
	if a, err := serializer.Adapt(c, &old, nil); err != nil || a.Migrates {
		t.Error(a, err)
	}
}

// Snapshots of simple serializers of older versions are of the same bytes.
func TestAdaptOldVersion(t *testing.T) {
	old := &serializer.Snapshot{Class: serializer.ForLong().Snapshot().Class, Version: 2, Body: serializer.Simple("org.apache.flink.api.common.typeutils.base.LongSerializer")}
	if a, err := serializer.Adapt(serializer.ForLong(), old, nil); err != nil || a.Read != nil {
		t.Error(a.Migrates, err)
	}
}

// Objects of subclasses can't be read, and so must not be taken over as bytes either.
func TestAdaptSubclasses(t *testing.T) {
	c := serializer.ForPojo(saleClass, serializer.NewMember("id", serializer.ForLong(), func(v *int64) *int64 { return v }))
	old := *c.Snapshot()
	body := *old.Body.(*serializer.Pojo)
	body.Others = []serializer.Frame{{Name: "com.example.Sub", Key: []byte{}, Snapshot: c.Snapshot()}}
	old.Body = &body
	a, err := serializer.Adapt(c, &old, nil)
	if err != nil || a.Read == nil || a.Migrates {
		t.Fatal(a, err)
	}
	in := serializer.NewInput([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	if v := a.Read(in); v != 9 || in.Err() != nil {
		t.Errorf("%d, %v", v, in.Err())
	}
	in.Reset([]byte{4, 0, 1, 'S'})
	if a.Read(in); !errors.Is(in.Err(), serializer.ErrUnsupported) {
		t.Error(in.Err())
	}
}
