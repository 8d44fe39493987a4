package fuzz

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// keys are snapshots of serializers and values that real Flink wrote, see
// ../serializer/testdata/README.md.
const keys = "../serializer/testdata/keys.tsv"

func keySeeds(f *testing.F, add func(snapshot, value []byte)) {
	seedsOf(f, keys, 1, func(_ []string, snapshot, value []byte) { add(snapshot, value) })
}

// seedsOf gives the lines of a table that has a snapshot in a column ("-" is that of the line before), and in the next one a value.
func seedsOf(f *testing.F, table string, at int, add func(columns []string, snapshot, value []byte)) {
	data, err := os.ReadFile(table)
	if err != nil {
		f.Fatal(err)
	}
	var snapshot []byte
	for line := range strings.Lines(string(data)) {
		columns := strings.Split(line, "\t")
		var err1 error
		if columns[at] != "-" {
			snapshot, err1 = hex.DecodeString(columns[at])
		}
		value, err2 := hex.DecodeString(strings.Trim(columns[at+1], "-"))
		if err := errors.Join(err1, err2); err != nil {
			f.Fatal(err)
		}
		add(columns, snapshot, value)
	}
}

// pojoKeys are POJOs that real Flink wrote, with the rules of their hash codes.
const pojoKeys = "../serializer/testdata/pojokeys.tsv"

// FuzzHasher checks that the hash of any key of any serializer is given or refused, by any rules.
func FuzzHasher(f *testing.F) {
	keySeeds(f, func(snapshot, value []byte) { f.Add("*=objects", snapshot, value) })
	seedsOf(f, pojoKeys, 2, func(columns []string, snapshot, value []byte) { f.Add(columns[1], snapshot, value) })
	f.Fuzz(func(t *testing.T, text string, snapshot, value []byte) {
		rules := serializer.HashRules{}
		for rule := range strings.FieldsSeq(text) {
			if err := rules.Set(rule); err != nil && !errors.Is(err, serializer.ErrHashRule) {
				t.Errorf("%q: %v", rule, err)
			}
		}
		for class, rule := range rules {
			if back, err := serializer.ParseHashRule(rule.String()); err != nil || back.String() != rule.String() {
				t.Errorf("rule of %q: %s is read as %s, %v", class, rule, back, err)
			}
		}
		s := serializer.ReadSnapshot(serializer.NewInput(snapshot))
		h := serializer.NewHasherBy(s, rules)
		_, err := h.Hash(value)
		var place *serializer.Error
		switch {
		case h.Err() != nil && !errors.Is(err, serializer.ErrNoHash):
			t.Errorf("%v, but %v", h.Err(), err)
		case err != nil && !errors.Is(err, serializer.ErrNoHash) && !errors.As(err, &place):
			t.Errorf("an error without a place: %v", err)
		}
	})
}

// record is a POJO of a bit of everything.
type record struct {
	Texts  []*string
	Counts map[string]*int64
	Either *serializer.OneOf[serializer.Tuple2[int16, serializer.Date], serializer.Row]
	Timers []serializer.TimerValue[[]byte, serializer.Window]
	Amount *serializer.Decimal
}

func recordCodec() serializer.Codec[record] {
	either := serializer.ForEither(
		serializer.ForTuple2(serializer.ForShort(), serializer.ForLocalDate()),
		serializer.ForRow(serializer.ForAny(serializer.ForBoolean()), serializer.ForAny(serializer.ForEnum("Color", "RED", "GREEN"))))
	return serializer.ForPojo("Record",
		serializer.NewMember("texts", serializer.ForStringArray(), func(r *record) *[]*string { return &r.Texts }),
		serializer.NewMember("counts", serializer.ForNullMap(serializer.ForString(), serializer.ForLong()), func(r *record) *map[string]*int64 { return &r.Counts }),
		serializer.NewNullMember("either", either, func(r *record) **serializer.OneOf[serializer.Tuple2[int16, serializer.Date], serializer.Row] {
			return &r.Either
		}),
		serializer.NewMember("timers", serializer.ForList(serializer.ForTimer(serializer.ForBytes(), serializer.ForTimeWindow())), func(r *record) *[]serializer.TimerValue[[]byte, serializer.Window] { return &r.Timers }),
		serializer.NewNullMember("amount", serializer.ForBigDecimal(), func(r *record) **serializer.Decimal { return &r.Amount }),
	)
}

// FuzzCodec checks that what a codec accepts it writes in a form that it reads
// again, and that the serializer of its snapshot accepts that, too.
func FuzzCodec(f *testing.F) {
	codec := recordCodec()
	dynamic := serializer.Of(codec.Snapshot())
	text, count := "é", int64(7)
	var seed serializer.Output
	for _, r := range []record{
		{},
		{Texts: []*string{&text, nil}, Counts: map[string]*int64{"a": &count, "b": nil}, Timers: []serializer.TimerValue[[]byte, serializer.Window]{{Timestamp: -1, Key: []byte{1}}}},
		{Either: &serializer.OneOf[serializer.Tuple2[int16, serializer.Date], serializer.Row]{Right: serializer.Row{Kind: 3, Fields: []any{true, nil}}}, Amount: &serializer.Decimal{}},
	} {
		seed.Reset()
		if codec.Write(&seed, r); seed.Err() != nil {
			f.Fatal(seed.Err())
		}
		f.Add(bytes.Clone(seed.Bytes()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := serializer.NewInput(data)
		v := codec.Read(in)
		if in.Err() != nil {
			return
		}
		var once, twice serializer.Output
		if codec.Write(&once, v); once.Err() != nil {
			t.Fatalf("%x is accepted, but %v", data, once.Err())
		}
		in.Reset(once.Bytes())
		if codec.Write(&twice, codec.Read(in)); in.Err() != nil || !in.AtEnd() || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("%x becomes %x and that %x, %v", data, once.Bytes(), twice.Bytes(), in.Err())
		}
		in.Reset(once.Bytes())
		if dynamic.Read(in); in.Err() != nil || !in.AtEnd() {
			t.Fatalf("the serializer of the snapshot on %x: %v", once.Bytes(), in.Err())
		}
	})
}

// FuzzParseKey checks that a key is given from any text, or refused, and that its serializer reads it.
func FuzzParseKey(f *testing.F) {
	keySeeds(f, func(snapshot, value []byte) {
		s := serializer.ReadSnapshot(serializer.NewInput(snapshot))
		f.Add(snapshot, serializer.Text(serializer.Of(s).Read(serializer.NewInput(value))))
	})
	f.Fuzz(func(t *testing.T, snapshot []byte, text string) {
		s := serializer.ReadSnapshot(serializer.NewInput(snapshot))
		key, err := serializer.ParseKey(s, text)
		if err != nil || strings.HasPrefix(text, "0x") {
			return
		}
		in := serializer.NewInput(key)
		if v := serializer.Of(s).Read(in); in.Err() != nil || !in.AtEnd() {
			t.Errorf("%q of %s is %x, which reads as %v, %v", text, s, key, v, in.Err())
		}
	})
}
