package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// logOf makes changes of one state, with String keys and namespaces, as
// AbstractStateChangeLogger writes them.
type logOf struct {
	changes []metadata.StateChange
}

func (l *logOf) describe(typ Type, value *serializer.Snapshot) {
	out := new(serializer.Output)
	out.U8(changeMetadata)
	out.I32(oldChangeMetaVersion) // that of the queue is the newest
	str := &serializer.Snapshot{Class: stringSnapshot, Version: 3}
	out.UTF("s")
	out.I32(int32(KindKeyValue))
	out.I32(1)
	out.UTF(OptionStateType)
	out.UTF(string(typ))
	out.I32(2)
	out.UTF(SerializerValue)
	out.I32(2)
	value.Write(out)
	out.UTF(SerializerNamespace)
	out.I32(2)
	str.Write(out)
	out.Raw([]byte{0, 0, 0, 7, 1}) // no time to live, no default value, number 7, KEY_VALUE
	l.changes = append(l.changes, metadata.StateChange{KeyGroup: -1, Change: out.Bytes()})
}

func (l *logOf) add(op byte, namespace string, operand ...byte) {
	b := append([]byte{op, 0, 7}, text("k")...)
	b = append(append(b, text(namespace)...), operand...)
	l.changes = append(l.changes, metadata.StateChange{KeyGroup: 1, Change: b})
}

// text is a short ASCII string as StringSerializer writes it.
func text(s string) []byte { return append([]byte{byte(len(s) + 1)}, s...) }

const stringSnapshot = "org.apache.flink.api.common.typeutils.base.StringSerializer$StringSerializerSnapshot"

// read gives "namespace[/user key]=value" of each entry, sorted, then errors.
func (l *logOf) read() []string {
	// What says how keys are serialized is a queue of timers, as in real logs.
	queue := new(serializer.Output)
	queue.U8(changeMetadata)
	queue.I32(changeMetaVersion)
	queue.UTF("_timer_state/event_t")
	queue.I32(int32(KindPriorityQueue))
	queue.I32(0)
	queue.I32(1)
	queue.UTF(SerializerValue)
	queue.I32(2)
	str := &serializer.Snapshot{Class: stringSnapshot, Version: 3}
	nest("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", 2, str, str).Write(queue)
	queue.Raw([]byte{0, 8, 3})
	changes := append([]metadata.StateChange{{KeyGroup: -1, Change: queue.Bytes()}}, l.changes...)
	h := &metadata.Changelog{KeyGroups: metadata.KeyGroupRange{Start: 0, Count: 2}, Delta: []metadata.Keyed{&metadata.ChangelogMemory{Changes: changes}}}
	r, err := OpenKeyed(context.Background(), Files{}, h, Options{MaxParallelism: 2})
	if err != nil {
		return []string{"open: " + err.Error()}
	}
	var got []string
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			got = append(got, "error: "+err.Error())
			continue
		}
		ns, _ := e.DecodeNamespace()
		user, _ := e.DecodeUserKey()
		value, err := e.DecodeValue()
		if err != nil {
			got = append(got, "error: "+err.Error())
			continue
		}
		name := fmt.Sprint(ns)
		if user != nil {
			name += "/" + fmt.Sprint(user)
		}
		got = append(got, name+"="+serializer.Text(value))
	}
	slices.Sort(got)
	return got
}

func nest(class string, outer int32, nested ...*serializer.Snapshot) *serializer.Snapshot {
	return &serializer.Snapshot{Class: class, Version: 3, Body: &serializer.Composite{OuterVersion: outer, Nested: nested}}
}

// TestReplay applies operations that no fixture has; their operands are as
// the classes ChangelogListState and its siblings write them.
func TestReplay(t *testing.T) {
	str := &serializer.Snapshot{Class: stringSnapshot, Version: 3}
	base := "org.apache.flink.api.common.typeutils.base."
	list := nest(base+"ListSerializerSnapshot", 1, str)
	mapping := nest(base+"MapSerializerSnapshot", 1, str, str)
	count := func(n byte, parts ...[]byte) []byte { return append([]byte{0, 0, 0, n}, slices.Concat(parts...)...) }
	tests := []struct {
		name  string
		typ   Type
		value *serializer.Snapshot
		log   func(l *logOf)
		want  string
	}{
		{"a list is updated, extended and cleared", TypeList, list, func(l *logOf) {
			l.add(changeAddElement, "a", text("1")...)
			l.add(changeSet, "a", count(2, text("2"), text("3"))...)
			l.add(changeAdd, "a", count(1, text("4"))...)
			l.add(changeAddElement, "b", text("5")...)
			l.add(changeClear, "b")
			l.add(changeSet, "c", count(0)...)
		}, `a=["2","3","4"]`},
		{"lists of merged sessions", TypeList, list, func(l *logOf) {
			l.add(changeAddElement, "a", text("1")...)
			l.add(changeAddElement, "b", text("2")...)
			l.add(changeAddElement, "c", text("3")...)
			l.add(changeMerge, "b", slices.Concat(text("b"), count(2, text("c"), text("a")))...)
		}, `b=["2","3","1"]`},
		{"a reduced value moves, but two are merged by the job", TypeReducing, str, func(l *logOf) {
			l.add(changeSetInternal, "a", text("1")...)
			l.add(changeMerge, "b", slices.Concat(text("b"), count(1, text("a")))...)
			l.add(changeSetInternal, "c", text("2")...)
			l.add(changeSetInternal, "d", text("3")...)
			l.add(changeMerge, "c", slices.Concat(text("c"), count(1, text("d")))...)
		}, `b=1 error: state "s", key group 1, 1 entry lost: merged by the job's own function, which the log does not hold: not supported`},
		{"a map", TypeMap, mapping, func(l *logOf) {
			l.add(changeUpdateElement, "a", slices.Concat(text("x"), text("1"))...)
			l.add(changeAdd, "a", count(2, text("y"), []byte{0}, text("2"), text("z"), []byte{1})...)
			l.add(changeRemoveElement, "a", text("x")...)
			l.add(changeUpdateElement, "b", slices.Concat(text("x"), text("1"))...)
			l.add(changeClear, "b")
		}, `a/y=2 a/z=null`},
		{"an unknown operation", TypeMap, mapping, func(l *logOf) { l.add(42, "a") },
			`error: state "s", key group 1, entries lost: inline change 2: change: offset 7: operation: 42 on a map: not supported`},
		{"bytes behind an operand", TypeMap, mapping, func(l *logOf) { l.add(changeRemoveElement, "a", append(text("x"), 1, 2)...) },
			`error: state "s", key group 1, entries lost: inline change 2: change: offset 9: change: corrupt: 2 bytes are left`},
	}
	for _, test := range tests {
		var l logOf
		l.describe(test.typ, test.value)
		test.log(&l)
		if got := strings.Join(l.read(), " "); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		// Cut anywhere, a log gives errors and nothing worse.
		for i := range l.changes {
			whole := l.changes[i].Change
			for n := range whole {
				l.changes[i].Change = whole[:n]
				l.read()
			}
			l.changes[i].Change = whole
		}
	}
}

// TestChangelogRefusals refuses logs whose changes have no meaning.
func TestChangelogRefusals(t *testing.T) {
	h := func(changes ...metadata.StateChange) *metadata.Changelog {
		return &metadata.Changelog{KeyGroups: metadata.KeyGroupRange{Count: 2}, Delta: []metadata.Keyed{&metadata.ChangelogMemory{Changes: changes}}}
	}
	for want, c := range map[string]metadata.StateChange{
		"number 9 was not described":           {KeyGroup: 0, Change: []byte{changeSet, 0, 9}},
		"1 in the key group of descriptions":   {KeyGroup: -1, Change: []byte{changeSet}},
		"description of a state of version 99": {KeyGroup: -1, Change: []byte{changeMetadata, 0, 0, 0, 99}},
		"file ends at byte 2":                  {KeyGroup: 0, Change: []byte{changeSet, 0}},
	} {
		_, err := OpenKeyed(context.Background(), Files{}, h(c), Options{MaxParallelism: 2})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c.Change, err, want)
		}
		if !errors.Is(err, serializer.ErrCorrupt) && !errors.Is(err, serializer.ErrUnsupported) && !errors.Is(err, serializer.ErrTruncated) {
			t.Errorf("%v is of no kind", err)
		}
	}
}
