package tools

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// voidNamespace is the namespace of state that has none.
const voidNamespace = "VoidNamespace"

// entriesOf are the entries of one key and namespace.
type entriesOf struct {
	value      any
	has        bool
	entries    serializer.Map
	timestamps []int64
	group      int
}

func (c *comparer) compareKeyed(path string, want truthState, got *keyedContent) {
	kind := backend.Type(strings.ToUpper(want.Kind))
	if got.typ != kind {
		c.diff(path, "the state is %s, want %s", got.typ, kind)
	}
	if got.ttl != want.TTL {
		c.diff(path, "time to live is %t, want %t", got.ttl, want.TTL)
	}
	found := c.group(path, want, got)
	value := notationOf(want.ValueType)
	for text, w := range want.Entries {
		key := splitKey(text, want.NamespaceType == voidNamespace)
		at := path + "/" + key
		g := found[key]
		delete(found, key)
		if g == nil {
			if !c.inflight {
				c.diff(at, "is missing, want %s", canon(w))
			}
			continue
		}
		if group, ok := want.KeyGroups[text]; ok && group != g.group {
			c.diff(at, "is in key group %d, want %d", g.group, group)
		}
		c.elements++
		var v any
		switch kind {
		case backend.TypeTimers:
			slices.Sort(g.timestamps)
			list := make([]any, len(g.timestamps))
			for i, ts := range g.timestamps {
				list[i] = ts
			}
			v = list
		case backend.TypeMap:
			v = g.entries
		default:
			v = shown(want.ValueType, g.value)
		}
		if c.inflight {
			c.compareEarlier(at, w, v)
			continue
		}
		if list, ok := v.([]any); ok && strings.HasPrefix(want.ValueType, "Tuple2<TimeWindow,TimeWindow>") {
			v = mergedWindows(list)
		}
		c.match(at, value, w, v)
	}
	for key, g := range found {
		if c.inflight && deletedLater(key) {
			c.left["states of keys in an unaligned checkpoint that an event in flight deletes"]++
			continue
		}
		c.diff(path, "unexpected entry of key %s: %s", key, canon(value.tree(g.value)))
	}
}

// deletedLater says that events of the job delete the state of this key, see
// Jobs.longKey and Event.isDelete.
func deletedLater(key string) bool {
	n, err := strconv.ParseInt(key, 10, 64)
	return err == nil && (n+40_000)%7919 == 0 && (n+40_000)/7919%8 == 3
}

// group collects the entries of each key and namespace.
func (c *comparer) group(path string, want truthState, got *keyedContent) map[string]*entriesOf {
	found := map[string]*entriesOf{}
	for _, e := range got.entries {
		key := keyText(want, e)
		g := found[key]
		if g == nil {
			g = &entriesOf{group: e.group}
			found[key] = g
		}
		if g.group != e.group {
			c.diff(path, "key %s is in key groups %d and %d", key, g.group, e.group)
		}
		v := e.value
		if got.ttl && !c.shownTTL {
			v = c.withoutTTL(path+"/"+key, v)
		}
		switch got.typ {
		case backend.TypeTimers:
			g.timestamps = append(g.timestamps, e.timestamp)
		case backend.TypeMap:
			g.entries = append(g.entries, serializer.MapEntry{Key: e.userKey, Value: v})
		default:
			if g.has {
				c.diff(path, "key %s is there twice", key)
			}
			g.value, g.has = v, true
		}
	}
	return found
}

// withoutTTL takes the user's value out of one with a time of access, which
// must be of the time when the fixtures were made.
func (c *comparer) withoutTTL(path string, v any) any {
	switch v := v.(type) {
	case nil:
		return nil // a null in a map stands outside of what has a time
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = c.withoutTTL(path, e)
		}
		return list
	case serializer.TTL:
		if v.LastAccess < 1_500_000_000_000 || v.LastAccess > 3_000_000_000_000 {
			c.diff(path, "last access at %d", v.LastAccess)
		}
		return v.Value
	}
	c.diff(path, "no time of access: %T", v)
	return v
}

// keyText is key and namespace of an entry, as splitKey gives the truth's.
func keyText(want truthState, e keyedEntry) string {
	var key string
	switch k := e.key.(type) {
	case *serializer.Record:
		// PojoKey.toString of the job has the two fields the other way round than the file.
		if want.KeyType == "Pojo(PojoKey)" && len(k.Fields) == 2 {
			key = fmt.Sprintf("%v/%v", k.Fields[1].Value, k.Fields[0].Value)
		}
	case []any:
		if strings.HasPrefix(want.KeyType, "Tuple2<") {
			key = javaString(k)
		}
	}
	n := notationOf(want.KeyType)
	if n.avro {
		key = avroKey(want, e.key)
	}
	if key == "" {
		key = n.text(e.key)
	}
	if want.NamespaceType == voidNamespace {
		if e.namespace != serializer.Unit(voidNamespace) {
			return fmt.Sprintf("%s in namespace %v", key, e.namespace)
		}
		return key
	}
	return joinKey(key, notationOf(want.NamespaceType).text(e.namespace))
}

// avroKey finds the truth's text of an Avro record, in which fixed bytes and
// days are not told from lists and numbers.
func avroKey(want truthState, key any) string {
	for text := range want.Entries {
		m := matcher{opaque: map[string]int{}}
		if m.match("", notationOf(want.KeyType), text, key); len(m.diffs) == 0 {
			return normText(text)
		}
	}
	return ""
}

var shownPattern = regexp.MustCompile(`, shown (f\d.*)$`)

// shown is a tuple as the truth says it shows it, such as "shown f0/f1".
func shown(valueType string, v any) any {
	m := shownPattern.FindStringSubmatch(valueType)
	fields, ok := v.([]any)
	if m == nil || !ok {
		return v
	}
	text := m[1]
	for i, f := range fields {
		name := "f" + strconv.Itoa(i)
		if text == name {
			return f
		}
		text = strings.ReplaceAll(text, name, javaString(f))
	}
	return text
}

// mergedWindows is what the truth shows of the windows of sessions, which the
// job keeps in a hash map.
func mergedWindows(list []any) []any {
	texts := make([]any, len(list))
	for i, e := range list {
		texts[i] = strings.Trim(javaString(e), "()")
	}
	slices.SortFunc(texts, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return texts
}

// compareEarlier compares state that lacks what was in flight: what grows has
// a beginning of what the truth says, other values are those of an earlier event.
func (c *comparer) compareEarlier(path string, want, got any) {
	switch g := got.(type) {
	case []any:
		w, _ := want.([]any)
		if len(g) > len(w) {
			c.diff(path, "%d elements, but only %d after all that was in flight", len(g), len(w))
			return
		}
		c.match(path, notation{}, any(w[:len(g)]), got)
	case serializer.Map:
		w, _ := want.(map[string]any)
		for _, e := range g {
			if _, ok := w[(notation{}).text(e.Key)]; !ok {
				c.diff(path, "unexpected key %s", (notation{}).text(e.Key))
			}
		}
	case int64:
		if n, err := strconv.ParseInt(fmt.Sprint(want), 10, 64); err != nil || g > n {
			c.diff(path, "%d, which is more than %v", g, want)
		}
	default:
		if _, text := want.(string); !text {
			if _, object := want.(map[string]any); !object {
				c.diff(path, "want something like %s, got %T", canon(want), got)
			}
		}
	}
}

func (c *comparer) compareOperator(path string, want truthState, got *stateContent) {
	mode := map[string]metadata.Mode{"operator-list": metadata.ModeSplit, "operator-union": metadata.ModeUnion}[want.Kind]
	if strings.HasSuffix(want.Kind, "broadcast") {
		mode = metadata.ModeBroadcast
	}
	if got.mode != mode {
		c.diff(path, "distributed by %s, want %s", got.mode, mode)
	}
	if mode == metadata.ModeBroadcast {
		if len(got.maps) == 0 && len(want.Entries) > 0 {
			c.diff(path, "no subtask has a copy")
		}
		for subtask, m := range got.maps {
			c.elements += len(m)
			c.matchMap(fmt.Sprintf("%s, subtask %d", path, subtask), notationOf(want.ValueType), want.Entries, m)
		}
		return
	}
	var all []any
	for _, list := range got.lists {
		for _, e := range list {
			v, err := payload(want.ValueType, e)
			if err != nil {
				c.diff(path, "%v", err)
			}
			all = append(all, shown(want.ValueType, v))
		}
	}
	if _, one := want.Entries[""]; one || len(want.Entries) == 0 {
		c.compareList(path, want, all)
		return
	}
	m := serializer.Map{}
	for _, e := range all {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			c.diff(path, "want pairs, got %T", e)
			return
		}
		m = append(m, serializer.MapEntry{Key: pair[0], Value: pair[1]})
	}
	c.compareMap(path, want, m)
}

// compareList compares a list without regard to the order, which is not that
// of the subtasks.
func (c *comparer) compareList(path string, want truthState, got []any) {
	w, _ := want.Entries[""].([]any)
	n := notationOf(want.ValueType)
	c.elements += len(got)
	if strings.HasPrefix(want.ValueType, "CommittableCollector") {
		c.compareInside(path, w, got)
		return
	}
	asIs := func(v any) any { return v }
	c.match(path, n, any(sorted(w, asIs)), any(sorted(got, n.tree)))
}

func (c *comparer) compareMap(path string, want truthState, got serializer.Map) {
	c.elements += len(got)
	c.matchMap(path, notation{}, want.Entries, got)
}

// compareInside looks for texts in the bytes of elements that are a
// serializer's own: each must be in one of them.
func (c *comparer) compareInside(path string, want []any, got []any) {
	for _, w := range want {
		ok := slices.ContainsFunc(got, func(g any) bool {
			raw, _ := g.([]byte)
			return strings.Contains(string(raw), w.(string))
		})
		if !ok {
			c.diff(path, "%v is in none of %d elements", w, len(got))
		}
	}
}

// payload decodes what a connector or job wrote as bytes in a form of its own,
// as the truth says that it is.
func payload(valueType string, v any) (any, error) {
	raw, _ := v.([]byte)
	switch {
	case strings.HasPrefix(valueType, "NumberSequenceSplit"):
		if len(raw) < 8 || int(binary.BigEndian.Uint32(raw[4:])) != len(raw)-8 {
			return nil, fmt.Errorf("split: %x", raw)
		}
		in := serializer.NewInput(raw[8:])
		split := readSplit(in)
		if !in.AtEnd() {
			return nil, fmt.Errorf("split: %x", raw)
		}
		return split, in.Err()
	case strings.HasPrefix(valueType, "Long, 8 bytes big endian"):
		// Its serializer is the job's own.
		o, ok := v.(serializer.Opaque)
		if !ok || len(o.Raw) != 8 {
			return nil, fmt.Errorf("want eight bytes, got %+v", v)
		}
		return int64(binary.BigEndian.Uint64(o.Raw)), nil
	case valueType == sinkFilesType:
		return recoverable(raw)
	case valueType == "byte[], shown length and crc32":
		return fmt.Sprintf("len %d crc32 %x", len(raw), crc32.ChecksumIEEE(raw)), nil
	}
	return v, nil
}

// sinkFilesType is the type of the bucket states of a FileSink, shown as the
// file that is being written and its length.
const sinkFilesType = "file that a FileSink writes"

// recoverable finds the LocalRecoverable in a bucket's state: a magic number,
// length of the file, length of the names of the target and of the file,
// all little endian, and the names.
func recoverable(raw []byte) (string, error) {
	_, b, found := bytes.Cut(raw, []byte("WKt\x1e"))
	if !found || len(b) < 16 {
		return "", fmt.Errorf("no recoverable in %q", raw)
	}
	length, target, name := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if b = b[16:]; uint64(len(b)) < uint64(target)+uint64(name) {
		return "", fmt.Errorf("recoverable cut off in %q", raw)
	}
	file := string(b[target : target+name])
	return fmt.Sprintf("%s=%d", file[max(0, strings.Index(file, "sink out/")):], length), nil
}

// readSplit reads a NumberSequenceSplit as id and "from..to".
func readSplit(in *serializer.Input) []any {
	id := in.UTF()
	from, to := in.I64(), in.I64()
	return []any{id, fmt.Sprintf("%d..%d", from, to)}
}

// coordinatorSplits are the splits that the coordinator of a number sequence
// source has left: version of the coordinator, version and length of what the
// enumerator wrote, number of splits, splits.
func coordinatorSplits(state []byte) serializer.Map {
	in := serializer.NewInput(state)
	in.I32()
	in.I32()
	in.I32()
	var m serializer.Map
	for n := in.I32(); n > 0 && in.Err() == nil; n-- {
		split := readSplit(in)
		m = append(m, serializer.MapEntry{Key: split[0], Value: split[1]})
	}
	return m
}

// rawTexts are partitions of raw operator state, each written by writeUTF.
func rawTexts(partitions [][]byte) []any {
	var list []any
	for _, p := range partitions {
		list = append(list, serializer.NewInput(p).UTF())
	}
	return list
}

// compareRawKeyed compares what a job wrote to raw keyed state by itself: a
// count, then pairs of int and long, which the truth shows as "int=long".
func (c *comparer) compareRawKeyed(path string, want truthState, got map[int][]byte) {
	m := serializer.Map{}
	for group, raw := range got {
		in := serializer.NewInput(raw)
		var list []any
		for n := in.I32(); n > 0 && in.Err() == nil; n-- {
			list = append(list, fmt.Sprintf("%d=%d", in.I32(), in.I64()))
		}
		if in.Err() != nil || !in.AtEnd() {
			c.diff(path, "key group %d: %x", group, raw)
		}
		m = append(m, serializer.MapEntry{Key: int64(group), Value: list})
	}
	c.compareMap(path, want, m)
}
