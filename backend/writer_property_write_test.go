package backend

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// flat is an entry that outlives its sequence.
type flat struct {
	state                          string
	group                          int
	key, namespace, userKey, value string
	null                           bool
	timestamp                      int64
}

func flatten(e *Entry) flat {
	return flat{e.State.Meta.Name, e.KeyGroup, string(e.Key), string(e.Namespace), string(e.UserKey), string(e.Value), e.Null, e.Timestamp}
}

// flats reads all entries.
func flats(t *rapid.T, h *metadata.KeyGroups, o Options, format string) (all []flat) {
	r, err := OpenKeyed(context.Background(), Files{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Format() != format {
		t.Fatalf("read as %s instead of %s", r.Format(), format)
	}
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, flatten(e))
	}
	return all
}

// anyKeyed draws a header and entries: of key groups in order, the states of each in any order.
func anyKeyed(t *rapid.T) (h *KeyedHeader, r keygroup.Range, maxParallelism int, entries []flat) {
	serializers := map[string]*serializer.Snapshot{"long": simple(longClass), "string": simple(stringClass), "void": simple(voidNamespace)}
	drawBytes := map[string]func(label string) []byte{
		"long":   func(label string) []byte { return long(rapid.Int64().Draw(t, label)) },
		"string": func(label string) []byte { return text(rapid.StringMatching(`[a-z,]{0,40}`).Draw(t, label)) },
		"void":   func(string) []byte { return []byte{0} },
	}
	maxParallelism = rapid.SampledFrom([]int{1, 128, 129, 32768}).Draw(t, "max parallelism")
	r.Start = rapid.IntRange(0, maxParallelism-1).Draw(t, "start")
	r.End = min(maxParallelism-1, r.Start+rapid.IntRange(0, 5).Draw(t, "key groups"))
	key := rapid.SampledFrom([]string{"long", "string"}).Draw(t, "key")
	h = &KeyedHeader{Version: 6, Compressed: rapid.Bool().Draw(t, "compressed"), Key: serializers[key]}
	namespaces := map[string]string{}
	types := map[string]Type{}
	for i := range rapid.IntRange(0, 5).Draw(t, "states") {
		name := fmt.Sprintf("state %d", i)
		namespace := rapid.SampledFrom([]string{"void", "long", "string"}).Draw(t, "namespace")
		typ := rapid.SampledFrom([]Type{TypeValue, TypeReducing, TypeAggregating, TypeList, TypeMap, TypeTimers}).Draw(t, "type")
		namespaces[name], types[name] = namespace, typ
		value := serializers["string"]
		switch typ {
		case TypeList:
			value = nested(listClass, 1, value)
		case TypeMap:
			value = nested(mapClass, 1, serializers["string"], value)
		}
		if typ == TypeTimers {
			h.States = append(h.States, timerQueue(name, h.Key, serializers[namespace]))
		} else {
			h.States = append(h.States, keyValue(name, typ, value, serializers[namespace]))
		}
	}
	for group := r.Start; group <= r.End; group++ {
		for _, m := range rapid.Permutation(h.States).Draw(t, "order") {
			seen := map[string]bool{}
			for range rapid.IntRange(0, 4).Draw(t, "entries") {
				e := flat{state: m.Name, group: group, key: string(drawBytes[key]("key")), namespace: string(drawBytes[namespaces[m.Name]]("namespace"))}
				if seen[e.key+e.namespace] {
					continue
				}
				seen[e.key+e.namespace] = true
				switch types[m.Name] {
				case TypeTimers:
					e.timestamp = rapid.Int64().Draw(t, "timestamp")
				case TypeList:
					var list [][]byte
					for range rapid.IntRange(1, 3).Draw(t, "elements") {
						list = append(list, drawBytes["string"]("element"))
					}
					e.value = string(bytes.Join(list, []byte(",")))
				case TypeMap:
					for range rapid.IntRange(0, 2).Draw(t, "more user keys") {
						more := e
						more.userKey, more.value = string(drawBytes["string"]("user key")), string(drawBytes["string"]("value"))
						entries = append(entries, more)
					}
					e.userKey = string(drawBytes["string"]("user key"))
					if e.null = rapid.Bool().Draw(t, "null"); !e.null {
						e.value = string(drawBytes["string"]("value"))
					}
				default:
					e.value = string(drawBytes["string"]("value"))
				}
				entries = append(entries, e)
			}
		}
	}
	return h, r, maxParallelism, entries
}

// states makes the states of a header, by name with their numbers.
func states(h *KeyedHeader) (byName map[string]*State, number map[string]int) {
	byName, number = map[string]*State{}, map[string]int{}
	for i := range h.States {
		byName[h.States[i].Name], number[h.States[i].Name] = NewState(&h.States[i], h.Key), i
	}
	return byName, number
}

func (f flat) entry(s *State) *Entry {
	return &Entry{State: s, KeyGroup: f.group, Key: []byte(f.key), Namespace: []byte(f.namespace), UserKey: []byte(f.userKey), Value: []byte(f.value), Null: f.null, Timestamp: f.timestamp}
}

// TestKeyedProperty: what is written in either layout is read again, and the
// canonical file of what was read from the other one has the same bytes.
func TestKeyedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, r, maxParallelism, entries := anyKeyed(t)
		o := Options{MaxParallelism: maxParallelism}
		byName, number := states(h)
		writeCanonical := func(entries []flat) *metadata.KeyGroups {
			var out bytes.Buffer
			w := NewCanonicalWriter(&out, h, r, maxParallelism)
			group := -1
			for _, f := range entries {
				if f.group != group {
					group = f.group
					if err := w.StartKeyGroup(group); err != nil {
						t.Fatal(err)
					}
				}
				e := f.entry(byName[f.state])
				if err := w.Entry(number[f.state], e.AppendStoredKey(nil), e.AppendStoredValue(nil)); err != nil {
					t.Fatal(err)
				}
			}
			offsets, size, err := w.Close()
			if err != nil || size != int64(out.Len()) || offsets.Range() != r {
				t.Fatalf("key groups %v, %d of %d bytes, %v", offsets.Range(), size, out.Len(), err)
			}
			return inlineKeyGroups(metadata.KeyGroupsSavepoint, out.Bytes(), r.Start, offsets.Offsets...)
		}
		file := writeCanonical(entries)
		got := flats(t, file, o, "canonical")
		if !slices.Equal(got, entries) {
			t.Fatalf("read\n%+v\nwant\n%+v", got, entries)
		}

		var out bytes.Buffer
		w := NewHeapWriter(&out, h, r)
		last := flat{group: -1}
		for _, f := range entries {
			if f.group != last.group && w.StartKeyGroup(f.group) != nil ||
				(f.group != last.group || f.state != last.state) && w.StartState(number[f.state], -1) != nil ||
				w.Add(f.entry(byName[f.state])) != nil {
				t.Fatal(w.err)
			}
			last = f
		}
		offsets, size, err := w.Close()
		if err != nil || size != int64(out.Len()) || offsets.Range() != r {
			t.Fatalf("key groups %v, %d of %d bytes, %v", offsets.Range(), size, out.Len(), err)
		}
		heap := inlineKeyGroups(metadata.KeyGroupsV2, out.Bytes(), r.Start, offsets.Offsets...)
		got = flats(t, heap, o, "heap")
		if !slices.Equal(got, entries) {
			t.Fatalf("read\n%+v\nwant\n%+v", got, entries)
		}
		if again := writeCanonical(got); !bytes.Equal(again.Delegate.(*metadata.ByteStream).Data, file.Delegate.(*metadata.ByteStream).Data) {
			t.Fatal("the canonical file of what was read from the heap backend's differs")
		}
	})
}

// TestOperatorProperty: what is written is read again.
func TestOperatorProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &OperatorHeader{Version: 6, Compressed: rapid.Bool().Draw(t, "compressed")}
		word := func(label string) []byte {
			return text(rapid.StringMatching(`[a-z]{0,40}`).Draw(t, label))
		}
		option := func(mode string) []Option { return []Option{{OptionDistributionMode, mode}} }
		for i := range rapid.IntRange(0, 3).Draw(t, "lists") {
			h.Operator = append(h.Operator, StateMeta{
				Name: fmt.Sprintf("list %d", i), Kind: KindOperator,
				Options:     option(rapid.SampledFrom([]string{"SPLIT_DISTRIBUTE", "UNION"}).Draw(t, "mode")),
				Serializers: []NamedSnapshot{{SerializerValue, simple(stringClass)}},
			})
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "maps") {
			h.Broadcast = append(h.Broadcast, StateMeta{
				Name: fmt.Sprintf("map %d", i), Kind: KindBroadcast, Options: option("BROADCAST"),
				Serializers: []NamedSnapshot{{SerializerValue, simple(stringClass)}, {SerializerKey, simple(stringClass)}},
			})
		}
		var all []*place
		want := map[string][]string{}
		for i := range rapid.IntRange(0, 12).Draw(t, "elements") {
			if len(h.Operator) == 0 {
				break
			}
			state := rapid.IntRange(0, len(h.Operator)-1).Draw(t, "list")
			value := word("element")
			if i == 0 {
				value = append(binary.AppendUvarint(nil, 200_001), bytes.Repeat([]byte("x"), 200_000)...)
			}
			all = append(all, &place{state: state, entries: []pair{{nil, value}}})
			name := h.Operator[state].Name
			want[name] = append(want[name], "="+string(value))
		}
		for i, m := range h.Broadcast {
			p := &place{state: len(h.Operator) + i, broadcast: true}
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				p.entries = append(p.entries, pair{word("key"), word("value")})
				last := p.entries[len(p.entries)-1]
				want[m.Name] = append(want[m.Name], string(last.key)+"="+string(last.value))
			}
			if len(p.entries) > 0 || rapid.Bool().Draw(t, "begun") {
				all = append(all, p)
			}
		}
		data, offsets, err := writePlaces(h, all)
		if err != nil {
			t.Fatal(err)
		}
		r, err := OpenOperator(context.Background(), Files{}, &metadata.OperatorState{States: offsets, Delegate: &metadata.ByteStream{Name: "inline", Data: data}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for e, err := range r.Entries(context.Background(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got[e.State.Name] = append(got[e.State.Name], string(e.Key)+"="+string(e.Value))
		}
		for _, m := range slices.Concat(h.Operator, h.Broadcast) {
			if !slices.Equal(got[m.Name], want[m.Name]) {
				t.Fatalf("state %q: read\n%q\nwant\n%q", m.Name, got[m.Name], want[m.Name])
			}
		}
	})
}
