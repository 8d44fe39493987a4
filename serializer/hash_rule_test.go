package serializer

import (
	"errors"
	"flag"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
)

// TestPojoHashes has objects as Flink serialized and Java hashed them (testdata/pojokeys.tsv).
func TestPojoHashes(t *testing.T) {
	data, err := os.ReadFile("testdata/pojokeys.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var s *Snapshot
	seen := map[string]int{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		rules := HashRules{}
		for rule := range strings.FieldsSeq(f[1]) {
			if err := rules.Set(rule); err != nil {
				t.Fatal(err)
			}
		}
		if f[2] != "-" { // it is not that of the line before
			s = (sample{name: f[0], snapshot: unhex(t, f[2])}).read(t)
		}
		key := unhex(t, f[3])
		if _, err := NewHasher(s).Hash(key); !errors.Is(err, ErrNoHash) {
			t.Errorf("%s: %v without rules", f[0], err)
		}
		h := NewHasherBy(s, rules)
		got, err := h.Hash(key)
		if err != nil || strconv.Itoa(int(got)) != f[4] {
			t.Errorf("%s of %s: hash %d, %v; want %s", f[0], f[3], got, err, f[4])
		}
		if a, b := strconv.Itoa(keygroup.ForHash(got, 128)), strconv.Itoa(keygroup.ForHash(got, keygroup.UpperBound)); a != f[5] || b != f[6] {
			t.Errorf("%s of %s: key groups %s and %s, want %s and %s", f[0], f[3], a, b, f[5], f[6])
		}
		if !strings.Contains(h.Assumes(), "hashCode of ") {
			t.Errorf("%s assumes %q", f[0], h.Assumes())
		}
		for n := range key {
			if _, err := h.Hash(key[:n]); err == nil {
				t.Errorf("%s: %d bytes of %x are a key", f[0], n, key)
			}
		}
		seen[f[0]]++
	}
	if len(seen) < 13 || seen["Lombok"] < 20 {
		t.Errorf("objects of %d types: %v", len(seen), seen)
	}
}

// TestPojoHashOfKeys has the POJOs of keys.tsv.
func TestPojoHashOfKeys(t *testing.T) {
	n := 0
	for _, s := range samplesOf(t, "keys.tsv") {
		if s.name != "POJO" {
			continue
		}
		n++
		h := NewHasherBy(s.read(t), HashRules{"Keys$Event": {Kind: HashObjects, Fields: []HashField{{Name: "name"}, {Name: "count"}}}})
		got, err := h.Hash(s.raw)
		if err != nil || strconv.Itoa(int(got)) != s.hash {
			t.Errorf("%x: hash %d, %v; want %s", s.raw, got, err, s.hash)
		}
		if want := "that the hashCode of Keys$Event is objects(name,count)"; h.Assumes() != want {
			t.Errorf("assumes %q, want %q", h.Assumes(), want)
		}
	}
	if n != 2 {
		t.Errorf("%d POJOs", n)
	}
}

// pojoSnapshotOf is a snapshot of a POJO with these fields, in their order.
func pojoSnapshotOf(class string, fields ...Frame) *Snapshot {
	return &Snapshot{Class: pojoSnapshot, Version: 2, Body: &Pojo{Class: class, Fields: fields}}
}

// kryo is a serializer of values without a length.
func kryo() *Snapshot { return kryoOf("java.util.UUID") }

func basicOf(name string) *Snapshot {
	return &Snapshot{Class: base + name + "Serializer$" + name + "SerializerSnapshot", Version: 3}
}

func TestHashRuleRefusals(t *testing.T) {
	enum := &Snapshot{Class: base + "EnumSerializer$EnumSerializerSnapshot", Version: 3, Body: &Enum{Class: "Color", Constants: []string{"RED"}}}
	ints := &Snapshot{Class: arrays + "IntPrimitiveArraySerializer$IntPrimitiveArraySerializerSnapshot", Version: 3}
	s := pojoSnapshotOf("K",
		PojoField("K", "flag", basicOf("Boolean")), PojoField("K", "id", basicOf("Long")), PojoField("K", "color", enum),
		PojoField("K", "ints", ints), PojoField("K", "other", pojoSnapshotOf("Other", PojoField("Other", "x", basicOf("Int")))),
		PojoField("K", "uuid", kryo()), Frame{Name: "lost"})
	for _, c := range []struct{ rule, want string }{
		{"", "a hashCode of its own"},
		{"K=objects", "must name the fields that hashCode takes, in its order, of flag, id, color, ints, other, uuid, lost"},
		{"K=objects(id,nme)", "has a field nme, the class has flag, id"},
		{"K=lombok(flag)", "flag:boolean or flag:Boolean"},
		{"K=objects(color)", "color:name"},
		{"K=objects(ints)", "ints:array"},
		{"K=record(id:array)", "no array"},
		{"K=record(id:bit)", "no Boolean"},
		{"K=record(id:name)", "no enum"},
		{"K=record(id,other)", "Other: the hash code of the key is not known"},
		{"K=record(uuid)", "java.util.UUID"},
		{"K=record(lost)", "its serializer is not known"},
		{"k=record(id)", "no rule"},
		{"K=record(id,flag)", ""},
		{"*=record(id,flag)", ""},
		{"K=lombok(ints,color:name,flag:bit)", ""},
	} {
		rules := HashRules{}
		if c.rule != "" {
			if err := rules.Set(c.rule); err != nil {
				t.Fatal(err)
			}
		}
		h := NewHasherBy(s, rules)
		switch err := h.Err(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.rule, err)
		case c.want != "" && (!errors.Is(err, ErrNoHash) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.rule, err, c.want)
		}
	}
	for _, r := range []HashRule{
		{Kind: "sum", Fields: []HashField{{Name: "id"}}},
		{Kind: HashObjects, Fields: []HashField{{Name: "id"}, {Name: "id"}}},
		{Kind: HashObjects, Fields: []HashField{{Name: "id", As: "int"}}},
		{Kind: HashOne, Fields: []HashField{{Name: "id"}, {Name: "flag"}}},
	} {
		if err := NewHasherBy(s, HashRules{"K": r}).Err(); !errors.Is(err, ErrNoHash) {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// TestHashPastOpaque has fields of which the length is not known: what is behind them can't be found, and nothing
// need be.
func TestHashPastOpaque(t *testing.T) {
	first := pojoSnapshotOf("K", PojoField("K", "a", kryo()), PojoField("K", "id", basicOf("Int")))
	last := pojoSnapshotOf("K", PojoField("K", "id", basicOf("Int")), PojoField("K", "z", kryo()))
	null := []byte{2, 1, 0, 0, 0, 0, 7}
	rules := HashRules{"*": {Kind: HashOne, Fields: []HashField{{Name: "id"}}}}
	list := func(s *Snapshot) *Snapshot { return compositeOf(base+"ListSerializerSnapshot", 1, nil, s) }
	for _, c := range []struct {
		name string
		s    *Snapshot
		key  []byte
		want int32
		ok   bool
	}{
		{"before", first, []byte{2, 0, 0x57, 2, 3, 0, 0, 0, 0, 7}, 0, false},
		{"null before", first, null, 7, true},
		{"behind", last, []byte{2, 0, 0, 0, 0, 7, 0, 0x57, 2, 3}, 7, true},
		{"null behind", last, []byte{2, 0, 0, 0, 0, 7, 1}, 7, true},
		{"in a list", list(last), []byte{0, 0, 0, 2, 2, 0, 0, 0, 0, 7, 0, 0x57, 2, 0, 0, 0, 0, 7, 1}, 0, false},
		{"null in a list", list(last), []byte{0, 0, 0, 2, 2, 0, 0, 0, 0, 7, 1, 2, 0, 0, 0, 0, 8, 1}, (31+7)*31 + 8, true},
		{"null in a list", list(first), append([]byte{0, 0, 0, 1}, null...), 31 + 7, true},
	} {
		got, err := NewHasherBy(c.s, rules).Hash(c.key)
		if (err == nil) != c.ok || c.ok && got != c.want || !c.ok && !errors.Is(err, ErrNoHash) {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
	}
}

// TestHashOfSubclasses has classes without a rule beside others with one.
func TestHashOfSubclasses(t *testing.T) {
	id := PojoField("Base", "id", basicOf("Int"))
	s := pojoSnapshotOf("Base", id)
	body := s.Body.(*Pojo)
	body.Others = []Frame{{Name: "Sub", Key: []byte{}, Snapshot: pojoSnapshotOf("Sub", id, PojoField("Sub", "more", basicOf("Int")))}, {Name: "Gone"}}
	sub := []byte{pojoSubclass, 0, 3, 'S', 'u', 'b', pojoExact, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2}
	exact := []byte{pojoExact, 0, 0, 0, 0, 1}
	gone := []byte{pojoSubclass, 0, 4, 'G', 'o', 'n', 'e', 1}
	never := []byte{pojoSubclass, 0, 5, 'N', 'e', 'v', 'e', 'r', 1}
	for _, c := range []struct {
		rule, hashes string
	}{
		{"Base=record(id)", "1 - - -"},
		{"Sub=record(id,more)", "- 33 - -"},
		{"Base=record(id) Sub=record(more,id)", "1 63 - -"},
		{"*=record(id)", "1 1 - -"},
		{"Base=record(more) Sub=record(more,id)", "- - - -"},
		{"Base=record(id) Sub=record(less)", "- - - -"},
		{"Other=record(id)", "- - - -"},
	} {
		rules := HashRules{}
		for r := range strings.FieldsSeq(c.rule) {
			if err := rules.Set(r); err != nil {
				t.Fatal(err)
			}
		}
		h := NewHasherBy(s, rules)
		var got []string
		for _, key := range [][]byte{exact, sub, gone, never} {
			code, err := h.Hash(key)
			switch {
			case err == nil:
				got = append(got, strconv.Itoa(int(code)))
			case errors.Is(err, ErrNoHash):
				got = append(got, "-")
			default:
				t.Errorf("%s: %v", c.rule, err)
			}
		}
		if strings.Join(got, " ") != c.hashes {
			t.Errorf("%s: %v, want %s", c.rule, got, c.hashes)
		}
	}
	if _, err := NewHasherBy(s, HashRules{"*": {Kind: HashOne, Fields: []HashField{{Name: "id"}}}}).Hash([]byte{pojoNull}); !errors.Is(err, ErrNoHash) {
		t.Errorf("null: %v", err)
	}
}

func TestHashRuleText(t *testing.T) {
	for _, text := range []string{"objects(id,name)", "record(a)", "lombok(id,paid:boolean,maybe:Boolean)", "field(id)", "field", "record", "objects(a:bit,b:array,c:name)"} {
		r, err := ParseHashRule(text)
		if err != nil || r.String() != text {
			t.Errorf("%s is read as %s, %v", text, r, err)
		}
	}
	if r, err := ParseHashRule("objects( id , name )"); err != nil || r.String() != "objects(id,name)" {
		t.Errorf("%s, %v", r, err)
	}
	for _, text := range []string{"", "sum(a)", "objects(", "objects()", "objects(a", "objects(a,)", "objects(a,a)", "objects(a:int)", "objects(a)b", "objects)", "field(a,b)", "objects(a b)", "objects(a:)x"} {
		if r, err := ParseHashRule(text); !errors.Is(err, ErrHashRule) {
			t.Errorf("%q is read as %s, %v", text, r, err)
		}
	}
	rules := HashRules{}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Var(rules, "key-hash", "")
	if err := set.Parse([]string{"--key-hash", "b.K$I=objects(id)", "--key-hash", "*=field(x)", "--key-hash", "*=field(x)"}); err != nil {
		t.Fatal(err)
	}
	if got := rules.String(); got != "*=field(x) b.K$I=objects(id)" {
		t.Errorf("got %s", got)
	}
	for _, text := range []string{"", "a.K", "=objects(id)", "a.K=sum(id)", "*=field(y)"} {
		if err := rules.Set(text); !errors.Is(err, ErrHashRule) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPojoHashAllocs(t *testing.T) {
	s := pojoSnapshotOf("K", PojoField("K", "id", basicOf("Long")), PojoField("K", "name", basicOf("String")))
	h := NewHasherBy(s, HashRules{"K": {Kind: HashObjects, Fields: []HashField{{Name: "id"}, {Name: "name"}}}})
	key := []byte{pojoExact, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 2, 'a'}
	if code, err := h.Hash(key); err != nil || code != keygroup.ListHash(7, 'a') {
		t.Errorf("hash %d, %v", code, err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = h.Hash(key) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
