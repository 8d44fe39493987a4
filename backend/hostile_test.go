package backend

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// drain reads everything there is to a handle of keyed state, and gives the
// number of entries and the first error.
func drain(h metadata.Keyed, o Options) (entries int, first error) {
	r, err := OpenKeyed(context.Background(), Files{}, h, o)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		entries++
		for _, part := range []func([]byte) ([]byte, error){e.AppendKeyJSON, e.AppendNamespaceJSON, e.AppendUserKeyJSON, e.AppendValueJSON} {
			if _, err := part(nil); err != nil {
				first = errors.Join(first, err)
			}
		}
	}
	return entries, first
}

func drainOperator(h *metadata.OperatorState, o Options) (entries int, first error) {
	r, err := OpenOperator(context.Background(), Files{}, h, o)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for e, err := range r.Entries(context.Background(), nil) {
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		entries++
		_, err1 := e.AppendKeyJSON(nil)
		_, err2 := e.AppendValueJSON(nil)
		first = errors.Join(first, err1, err2)
	}
	return entries, first
}

// specimen is a small file.
type specimen struct {
	name    string
	data    []byte
	entries int
	// summed is where everything has checksums, from there to the end.
	summed int
	read   func(data []byte) (int, error)
}

const zipped = ", compressed"

func specimens(t testing.TB) (all []specimen) {
	o := Options{MaxParallelism: 128}
	keyed := func(name string, form metadata.KeyGroupsForm, data []byte, start int, entries int, o Options, offsets ...int64) {
		summed := len(data)
		if strings.HasSuffix(name, zipped) {
			summed = int(offsets[0])
		}
		all = append(all, specimen{name, data, entries, summed, func(data []byte) (int, error) {
			return drain(inlineKeyGroups(form, data, start, offsets...), o)
		}})
	}
	for _, zip := range []bool{false, true} {
		suffix := ""
		if zip {
			suffix = zipped
		}
		file, offsets := richFile(t, zip)
		keyed("canonical"+suffix, metadata.KeyGroupsV2, file, 54, 7, o, offsets...)
		file, offsets = heapFile(t, zip)
		keyed("heap"+suffix, metadata.KeyGroupsV2, file, 54, 7, o, offsets...)
		f := allKinds(t, 6, zip)
		all = append(all, specimen{"operator" + suffix, f.data, 8, len(f.data), func(data []byte) (int, error) {
			h := f.handle
			h.Delegate = &metadata.ByteStream{Name: "inline", Data: data}
			return drainOperator(&h, Options{})
		}})
	}
	a := rawGroup(t, "0000000000000007 00 00000000000003e8")
	raw := Options{MaxParallelism: 128, Raw: true}
	keyed("raw timers", metadata.KeyGroupsV2, append(a, a...), 3, 2, raw, 0, -1, int64(len(a)))
	return all
}

// TestTruncated cuts each file everywhere: less is read, and an error is told.
func TestTruncated(t *testing.T) {
	for _, s := range specimens(t) {
		if n, err := s.read(s.data); n != s.entries || err != nil {
			t.Errorf("%s: %d entries, %v", s.name, n, err)
		}
		for i := range s.data {
			if n, err := s.read(s.data[:i:i]); err == nil || n > s.entries {
				t.Errorf("%s cut at %d: %d entries and no error", s.name, i, n)
			}
		}
		if _, err := s.read(append(bytes.Clone(s.data), 0)); err == nil {
			t.Errorf("%s: a byte more is no error", s.name)
		}
	}
}

// TestFlipped flips bits: anything may come out, but it comes to an end. In
// compressed data each is an error, since chunks have checksums, or stands for the
// same data.
func TestFlipped(t *testing.T) {
	for _, s := range specimens(t) {
		silent, flips := 0, 0
		for i := range s.data {
			for bit := range 8 {
				if i < len(s.data)-150 && bit != i%8 {
					continue // mostly names of classes
				}
				data := bytes.Clone(s.data)
				data[i] ^= 1 << bit
				flips++
				n, err := s.read(data)
				if err == nil {
					silent++
				}
				if n > 100 || err == nil && i >= s.summed && n != s.entries {
					t.Errorf("%s, bit %d of byte %d: %d entries, %v", s.name, bit, i, n, err)
				}
			}
		}
		t.Logf("%s: %d of %d bits were no error", s.name, silent, flips)
	}
}

// TestCounts: counts that promise more than there is cost nothing.
func TestCounts(t *testing.T) {
	h := &KeyedHeader{Version: 6, Key: simple(longClass), States: []StateMeta{keyValue("l", TypeList, nested(listClass, 1, simple(longClass)), simple(voidNamespace))}}
	file := headerBytes(t, h)
	offset := int64(len(file))
	for _, block := range []string{
		"0000 7fffffff", // entries
		"0000 00000001 00 0000000000000001 7fffffff", // elements
		"0000 ffffffff", // entries
		"0001 00000000", // no such state
	} {
		data := heapGroup(t, bytes.Clone(file), 1, false, fromHex(t, block))
		allocated := testing.AllocsPerRun(1, func() {
			if n, err := drain(inlineKeyGroups(metadata.KeyGroupsV2, data, 1, offset), Options{MaxParallelism: 128}); n != 0 || err == nil {
				t.Errorf("%s: %d, %v", block, n, err)
			}
		})
		if allocated > 1000 {
			t.Errorf("%s: %v allocations", block, allocated)
		}
	}
	for _, block := range []string{
		"0000 7fffffff 81", // a key
		"0000 00000009 81 0000000000000001 7fffffff 00", // a value
		"ffff",                        // no state
		"0000 00000000 00000000 ffff", // no key
		"0005 00000000 00000000 ffff", // no such state
		"0000 0000000a 81 0000000000000001 00 00000000 0000 0000000a 81 0000000000000001 00 00000000 ffff", // twice
		"0000 0000000a 81 0000000000000001 00 00000000 ffff 00",                                            // more behind it
		"0000 0000000a 82 0000000000000001 00 00000000 ffff",                                               // another key group
	} {
		data := append(bytes.Clone(file), fromHex(t, block)...)
		if _, err := drain(inlineKeyGroups(metadata.KeyGroupsSavepoint, data, 1, offset), Options{MaxParallelism: 128}); err == nil {
			t.Errorf("%s: no error", block)
		}
	}
}

// TestOffsets: handles that do not fit their file.
func TestOffsets(t *testing.T) {
	file, offsets := heapFile(t, false)
	for _, bad := range [][]int64{{-5, offsets[1]}, {offsets[0], 1 << 62}, {offsets[0], offsets[0]}, {1, offsets[1]}, {offsets[0] + 1, offsets[1]}, {offsets[1], offsets[0]}, {offsets[0]}, {offsets[1]}} {
		if n, err := drain(inlineKeyGroups(metadata.KeyGroupsV2, file, 54, bad...), Options{MaxParallelism: 128}); err == nil {
			t.Errorf("offsets %d: %d entries and no error", bad, n)
		}
	}
	for _, bad := range []Options{{}, {MaxParallelism: 55}, {MaxParallelism: 1 << 20}} {
		if _, err := drain(inlineKeyGroups(metadata.KeyGroupsV2, file, 54, offsets...), bad); !errors.Is(err, serializer.ErrCorrupt) {
			t.Errorf("max parallelism %d: %v", bad.MaxParallelism, err)
		}
	}
	if _, err := drain(inlineKeyGroups(metadata.KeyGroupsV2, file, -1, offsets...), Options{MaxParallelism: 128}); err == nil {
		t.Error("a key group of -1")
	}
	// A part of the key groups, as the base of a changelog may have after a restore.
	for i, n := range []int{7, 0} {
		if got, err := drain(inlineKeyGroups(metadata.KeyGroupsV2, file, 54+i, offsets[i]), Options{MaxParallelism: 128, partial: true}); err != nil || got != n {
			t.Errorf("key group %d: %d entries, %v", 54+i, got, err)
		}
	}
}

// TestHugePadding describes keys by a length that no memory holds.
func TestHugePadding(t *testing.T) {
	const base = "org.apache.flink.api.common.typeutils.base."
	const runtime = "org.apache.flink.api.java.typeutils.runtime."
	of := func(class string, outer serializer.Body, parts ...*serializer.Snapshot) *serializer.Snapshot {
		return &serializer.Snapshot{Class: class, Version: 3, Body: &serializer.Composite{OuterVersion: 2, Outer: outer, Nested: parts}}
	}
	value := &serializer.Snapshot{Class: base + "LongSerializer$LongSerializerSnapshot", Version: 3}
	unknown := &serializer.Snapshot{Class: "com.example.OwnSerializer", Version: 1}
	for _, nested := range []*serializer.Snapshot{value, unknown} {
		nullable := of(runtime+"NullableSerializer$NullableSerializerSnapshot", serializer.Number(1<<31-1), nested)
		fields := slices.Repeat([]*serializer.Snapshot{nullable}, 10000)
		key := of(runtime+"TupleSerializerSnapshot", serializer.ClassName("com.example.Wide"), fields...)
		s := NewState(&StateMeta{Name: "s", Serializers: []NamedSnapshot{{SerializerNamespace, key}, {SerializerValue, value}}}, key)
		e := &Entry{State: s, in: serializer.NewInput(nil)}
		if err := e.fill(make([]byte, 100), make([]byte, 8)); err == nil && !e.Unsplit && !e.Joined {
			t.Errorf("a key of %s is split into %x and %x", nested.Class, e.Key, e.Namespace)
		}
	}
}
