package javaio

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func objectFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/objects/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parseObject(t *testing.T, data []byte) *Object {
	t.Helper()
	s, n, err := ParseObject(append(data[:len(data):len(data)], 0xAC, 0xED))
	if err != nil || n != len(data) || !bytes.Equal(s.Raw, data) {
		t.Fatalf("%d of %d bytes, error %v", n, len(data), err)
	}
	o, ok := s.Root.(*Object)
	if !ok {
		t.Fatalf("root is %T", s.Root)
	}
	return o
}

// TestObjectsOfFlink reads streams of Flink; what they say is known from the
// classes and from the jobs that wrote them.
func TestObjectsOfFlink(t *testing.T) {
	const types = "org.apache.flink.table.types."
	o := parseObject(t, objectFile(t, "AtomicDataType"))
	if o.Class.Name != types+"AtomicDataType" || o.Class.Super.Name != types+"DataType" {
		t.Errorf("class %s", o.Class.Name)
	}
	if c := o.Field("conversionClass").(*Class); c.Desc.Name != types[:len(types)-len("types.")]+"data.StringData" {
		t.Errorf("class %s", c.Desc.Name)
	}
	l := o.Field("logicalType").(*Object)
	if l.Class.UID != 1 || l.Int("length") != 2147483647 /* STRING */ || l.Field("isNullable") == nil {
		t.Errorf("type %+v", l)
	}
	root := l.Field("typeRoot").(*Enum)
	if root.Constant != "VARCHAR" || root.Class.Flags != FlagSerializable|FlagEnum || root.Class.Super.Name != "java.lang.Enum" {
		t.Errorf("enum %+v", root)
	}

	row := parseObject(t, objectFile(t, "RowType"))
	fields, ok := Elements(row.Field("fields"))
	var names, classes []string
	for _, f := range fields {
		f := f.(*Object)
		names = append(names, f.Text("name"))
		classes = append(classes, f.Field("type").(*Object).Class.Name[len(types+"logical."):])
	}
	if !ok || !reflect.DeepEqual(names, []string{"a", "b", "c"}) || !reflect.DeepEqual(classes, []string{"IntType", "VarCharType", "ArrayType"}) {
		t.Errorf("fields %q of %q", names, classes)
	}

	props := parseObject(t, objectFile(t, "CheckpointProperties"))
	if v := props.Field("forced"); v != true && v != false {
		t.Errorf("forced is %v", v)
	}
	if s := parseObject(t, objectFile(t, "SerializableSerializer")); !strings.HasSuffix(s.Class.Name, "$SerializableSerializer") ||
		s.Field("serializer").(*Object).Class == nil {
		t.Errorf("serializer %+v", s)
	}
}

// bits joins hex digits, and texts in quotes as writeUTF has them, to a stream.
func bits(t *testing.T, s string) []byte {
	t.Helper()
	out := []byte{0xAC, 0xED, 0, 5}
	for _, f := range strings.Fields(s) {
		if f[0] == '\'' {
			f = strings.Trim(f, "'")
			out = append(append(out, byte(len(f)>>8), byte(len(f))), f...)
			continue
		}
		b, err := hex.DecodeString(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// The parts of a stream by the grammar of the Java Object Serialization Specification.
const (
	uid = "0000000000000001 "
	// classNode is class Node { Node next; int n } with handle 7e0000, its type string with 7e0001.
	classNode = "72 'Node' " + uid + "02 0002 49 'n' 4c 'next' 74 'LNode;' 78 70 "
)

func TestObjectGrammar(t *testing.T) {
	// A node that refers to itself has handle 7e0002.
	o := parseObject(t, bits(t, "73 "+classNode+"00000007 71 007e0002"))
	if o.Field("next") != o || o.Int("n") != 7 {
		t.Errorf("cyclic: %+v", o)
	}
	for name, c := range map[string]struct {
		bits string
		want Value
	}{
		"null":        {"70", nil},
		"string":      {"74 'abc'", "abc"},
		"long string": {"7c 0000000000000003 616263", "abc"},
		"block":       {"77 03 010203", Block{1, 2, 3}},
		"long block":  {"7a 00000002 0102", Block{1, 2}},
		"int array": {"75 72 '[I' " + uid + "02 0000 78 70 00000002 00000001 ffffffff",
			&Array{Class: &ClassDesc{Name: "[I", UID: 1, Flags: 2, closed: true}, Len: 2, Primitives: []byte{0, 0, 0, 1, 255, 255, 255, 255}}},
		"strings with a reference": {"75 72 '[Ljava.lang.String;' " + uid + "02 0000 78 70 00000003 74 'a' 71 007e0002 70",
			&Array{Class: &ClassDesc{Name: "[Ljava.lang.String;", UID: 1, Flags: 2, closed: true}, Len: 3, Elements: []Value{"a", "a", nil}}},
		"reset": {"79 74 'a'", "a"},
		"externalizable": {"73 72 'E' " + uid + "0c 0000 78 70 77 01 2a 74 'x' 78", &Object{
			Class: &ClassDesc{Name: "E", UID: 1, Flags: 0x0C, closed: true},
			Data:  []ClassData{{Class: &ClassDesc{Name: "E", UID: 1, Flags: 0x0C, closed: true}, Annotations: []Value{Block{42}, "x"}}}}},
		"proxy class": {"7d 00000001 'java.util.Map' 78 70",
			&ClassDesc{Proxy: true, Flags: 2, Interfaces: []string{"java.util.Map"}, closed: true}},
		"exception": {"7b 74 'boom'", &Aborted{"boom"}},
		"class":     {"76 72 'C' " + uid + "02 0000 78 70", &Class{&ClassDesc{Name: "C", UID: 1, Flags: 2, closed: true}}},
	} {
		data := bits(t, c.bits)
		s, n, err := ParseObject(data)
		if err != nil || n != len(data) || !reflect.DeepEqual(s.Root, c.want) {
			t.Errorf("%s: %d bytes, %+v, error %v", name, n, s, err)
		}
		if all, err := ParseContents(data); err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], c.want) {
			t.Errorf("%s: contents %+v, error %v", name, all, err)
		}
	}
	all, err := ParseContents(bits(t, "77 01 07 73 "+classNode+"00000001 70 79 74 'x' 71 007e0000"))
	if err != nil || len(all) != 4 || !reflect.DeepEqual(all[0], Block{7}) || all[3] != "x" {
		t.Errorf("contents %+v, error %v", all, err)
	}
}

func TestObjectFieldsOfEveryType(t *testing.T) {
	o := parseObject(t, bits(t, "73 72 'B' "+uid+"02 0008 42 'b' 43 'c' 44 'd' 46 'f' 49 'i' 4a 'j' 53 's' 5a 'z' 78 "+
		"72 'A' "+uid+"03 0001 49 'i' 78 70 00000005 77 02 0102 77 01 03 74 'x' 78 "+
		"ff 0041 3ff8000000000000 40200000 fffffffe 8000000000000000 fffd 01"))
	want := map[string]Value{"b": int8(-1), "c": uint16('A'), "d": 1.5, "f": float32(2.5), "i": int32(-2), "j": int64(-1 << 63), "s": int16(-3), "z": true, "no": nil}
	for name, v := range want {
		if got := o.Field(name); got != v {
			t.Errorf("%s is %v, want %v", name, got, v)
		}
	}
	a := o.Of("A")
	if a.Fields[0] != int32(5) || !bytes.Equal(a.Block(), []byte{1, 2, 3}) || !reflect.DeepEqual(a.Objects(), []Value{"x"}) {
		t.Errorf("superclass: %+v", a)
	}
	if d := o.Of("C"); d != nil || d.Block() != nil || d.Objects() != nil {
		t.Errorf("no class: %+v", d)
	}
}

func TestObjectRefuses(t *testing.T) {
	// Class K has a superclass with a handle that is not yet complete: itself.
	for name, c := range map[string]string{
		"other magic":            "",
		"no content":             "78",
		"unknown code":           "7f",
		"handle too high":        "71 007e0000",
		"handle too low":         "71 00000000",
		"its own superclass":     "72 'K' " + uid + "02 0000 78 71 007e0000",
		"object without class":   "73 70",
		"class that is a string": "74 'x'  73 71 007e0000",
		"field of no type":       "72 'K' " + uid + "02 0001 51 'f'",
		"array of nothing":       "75 72 'K' " + uid + "02 0000 78 70 00000000",
		"negative array":         "75 72 '[I' " + uid + "02 0000 78 70 ffffffff",
		"negative block":         "7a ffffffff",
		"huge string":            "7c 7fffffffffffffff",
		"huge array":             "75 72 '[J' " + uid + "02 0000 78 70 7fffffff",
		"bad text":               "74 0001 ff",
		"externalizable, plain":  "73 72 'E' " + uid + "04 0000 78 70 00000000",
		"not serializable":       "73 72 'E' " + uid + "00 0000 78 70",
		"fields by hand":         "73 72 'K' " + uid + "03 0001 4c 'f' 74 'LK;' 78 70 77 01 00 78",
		"enum without a name":    "7e 72 'E' " + uid + "12 0000 78 70 70",
		"too deep":               strings.Repeat("75 72 '[LK;' "+uid+"02 0000 78 70 00000001 ", 1) + strings.Repeat("75 71 007e0000 00000001 ", 2000),
	} {
		data := bits(t, c)
		if name == "other magic" {
			data = []byte{0xAC, 0xED, 0, 6, 0x70}
		}
		_, err := ParseContents(data)
		var e *Error
		if !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data)) || e.Field == "" {
			t.Errorf("%s: error %v", name, err)
		}
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrInvalidUTF) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestObjectTruncated(t *testing.T) {
	files, err := filepath.Glob("testdata/objects/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files")
	}
	for _, f := range files {
		data := objectFile(t, filepath.Base(f))
		for n := range data {
			if _, _, err := ParseObject(data[:n]); !errors.Is(err, ErrTruncated) {
				t.Fatalf("%s: %d of %d bytes: error %v", f, n, len(data), err)
			}
		}
	}
}

// TestObjectMemory claims much with few bytes: many fields in objects in objects.
func TestObjectMemory(t *testing.T) {
	data := bits(t, "73 72 'K' "+uid+"02 ffff 4c 0000 74 'LK;'")
	for range 0xFFFE {
		data = append(data, "B\x00\x00"...)
	}
	data = append(data, 0x78, 0x70)
	for range 400 {
		data = append(data, 0x73, 0x71, 0, 0x7E, 0, 0)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := ParseObject(data)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v", err)
	}
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(200*len(data)); got > most {
		t.Errorf("%d bytes allocated for %d of input", got, len(data))
	}
}

func TestCollections(t *testing.T) {
	const (
		list = "72 'java.util.ArrayList' " + uid + "03 0001 49 'size' 78 70 00000002 77 04 00000002 74 'a' 74 'b' 78"
		hmap = "72 'java.util.HashMap' " + uid + "03 0000 78 70 77 08 00000010 00000001 74 'k' 74 'v' 78"
	)
	wrap := func(class, field, inner string) string {
		return "73 72 '" + class + "' " + uid + "02 0001 4c '" + field + "' 74 'Lx;' 78 70 " + inner
	}
	for name, c := range map[string]string{
		"list":    "73 " + list,
		"wrapped": wrap("java.util.Collections$UnmodifiableList", "c", "73 "+list),
		"twice":   wrap("java.util.Collections$SynchronizedList", "c", wrap("java.util.Collections$UnmodifiableList", "c", "73 "+list)),
		"List.of": "73 72 'java.util.CollSer' " + uid + "03 0001 49 'tag' 78 70 00000001 77 04 00000002 74 'a' 74 'b' 78",
		"asList":  wrap("java.util.Arrays$ArrayList", "a", "75 72 '[Lx;' "+uid+"02 0000 78 70 00000002 74 'a' 74 'b'"),
		"treeset": "73 72 'java.util.TreeSet' " + uid + "03 0000 78 70 70 77 04 00000002 74 'a' 74 'b' 78",
	} {
		if got, ok := Elements(parseObject(t, bits(t, c))); !ok || !reflect.DeepEqual(got, []Value{"a", "b"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, c := range map[string]string{
		"map":     "73 " + hmap,
		"wrapped": wrap("java.util.Collections$UnmodifiableMap", "m", "73 "+hmap),
		"Map.of":  "73 72 'java.util.CollSer' " + uid + "03 0001 49 'tag' 78 70 00000003 77 04 00000002 74 'k' 74 'v' 78",
	} {
		if got, ok := Entries(parseObject(t, bits(t, c))); !ok || !reflect.DeepEqual(got, []Entry{{"k", "v"}}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	other := parseObject(t, bits(t, wrap("x", "c", "70")))
	for _, v := range []Value{nil, other, "x", &Object{Class: &ClassDesc{Name: "java.util.Collections$UnmodifiableSet"}}} {
		if _, ok := Elements(v); ok {
			t.Errorf("%v has elements", v)
		}
		if _, ok := Entries(v); ok {
			t.Errorf("%v has entries", v)
		}
	}
}

// TestObjectSweep reads every object stream in the files of real Flink, wherever it stands.
func TestObjectSweep(t *testing.T) {
	const root = "../../../shared/fixtures"
	if _, err := os.Stat(root); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Skip("no fixtures beside the source tree: ", err)
	}
	magic, table := []byte{0xAC, 0xED, 0, 5}, []byte("\xf7\xcf\xf4\x85\xb7\x41\xe2\x88")
	read, compressed := 0, 0
	for _, dir := range []string{"sql", "public", "flink", "extra", "old"} {
		top, err := filepath.EvalSymlinks(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(name)
			if err != nil || bytes.HasSuffix(data, table) {
				return err // tables of RocksDB leave out common prefixes
			}
			for off := bytes.Index(data, magic); off >= 0; off = bytes.Index(data, magic) {
				data = data[off:]
				s, n, err := ParseObject(data)
				switch {
				case errors.Is(err, ErrInvalidUTF) && strings.Contains(name, "/1.19/stateful-scala-udf"):
					compressed++ // key groups under snappy, which keeps the start of the stream
					n = len(magic)
				case err != nil || !bytes.Equal(s.Raw, data[:n]):
					t.Errorf("%s: at %d bytes before the end: %v", name, len(data), err)
					n = len(magic)
				}
				data = data[n:]
				read++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 27000 || compressed > 6 {
		t.Errorf("%d streams, %d of them compressed", read, compressed)
	}
	t.Logf("%d object streams", read-compressed)
}
