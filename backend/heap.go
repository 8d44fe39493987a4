package backend

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/drey-state/drey/serializer"
)

// readHeap reads a key group of a file of the heap backend (HeapSnapshotStrategy).
// Nothing in it has a length, so that what follows a value of unknown length
// is lost.
func (g *groupReader) readHeap(start, end int64) {
	in := g.in
	g.span = span{g.src, start, end}
	in.ResetStream(&g.span, start)
	if n := in.I32(); in.Err() == nil && int(n) != g.group {
		in.FailAt(start, "key group", fmt.Errorf("%w: number %d", serializer.ErrCorrupt, n))
	}
	if in.Err() != nil {
		g.lost("", -1, in.Err())
		return
	}
	if g.file.compressed {
		g.begin(start+4, end)
	}
	for i := range g.blocks() {
		if i > 0 && g.file.compressed && in.AtEnd() && in.Err() == nil && g.snappy.next() {
			in.ResetStream(&g.snappy, 0)
		}
		if i > 0 && !g.file.counted && in.AtEnd() && in.Err() == nil {
			return
		}
		g.heapBlock()
		if g.out.done {
			return
		}
		if in.Err() == nil {
			continue
		}
		if g.src.err == nil && g.file.compressed && g.snappy.next() {
			in.ResetStream(&g.snappy, 0)
			continue
		}
		g.lostAfter(i)
		return
	}
	if g.checkEnd(end); in.Err() != nil {
		g.lost("", -1, in.Err())
	}
}

// blocks is how many states there are in each key group.
func (g *groupReader) blocks() int {
	if !g.file.counted {
		return math.MaxInt16
	}
	return len(g.file.states)
}

// lostAfter tells of the states behind a block that could not be read.
func (g *groupReader) lostAfter(block int) {
	if block+1 == g.blocks() || g.out.done {
		return
	}
	var names []string
	for id, s := range g.file.states {
		if !g.seen[id] && g.wants(s) {
			names = append(names, s.Meta.Name)
		}
	}
	if len(names) == 0 && g.file.counted {
		return
	}
	g.lost("", -1, fmt.Errorf("the states behind it cannot be found (%s): %w", strings.Join(names, ", "), g.in.Err()))
}

// heapBlock reads the entries of a state. If it fails, it tells of what was lost.
func (g *groupReader) heapBlock() {
	in := g.in
	off := in.Offset()
	state := g.begun(int(in.U16()), off)
	if state != nil && g.file.nested {
		g.heapNested(state)
		return
	}
	count := int64(in.Length())
	if state == nil || in.Err() != nil {
		g.lost("", -1, in.Err())
		return
	}
	i := int64(0)
	if !state.known && count > 0 {
		in.Fail("entries", fmt.Errorf("a state that the header does not describe: %w", serializer.ErrUnsupported))
	}
	wanted := g.wants(state)
	for ; i < count && in.Err() == nil && !g.out.done; i++ {
		off := in.Offset()
		if state.Type == TypeTimers {
			g.heapTimer(state, wanted)
		} else {
			g.heapEntry(state, wanted)
		}
		if in.Offset() == off {
			in.Failf("entries", "of no bytes")
		}
		if in.Err() != nil {
			break
		}
	}
	if in.Err() != nil && !g.out.done {
		g.lost(state.Meta.Name, count-i, in.Err())
	}
}

func (g *groupReader) heapTimer(state *State, wanted bool) {
	in := g.in
	if wanted {
		in.Mark()
	}
	timestamp := in.I64() ^ math.MinInt64
	start := in.Offset()
	skipValue(in, state.Key, "key")
	middle := in.Offset()
	skipValue(in, state.Namespace, "namespace")
	if in.Err() != nil || !wanted {
		return
	}
	b := in.Marked()[8:]
	n := int(middle - start)
	e := g.entry(state)
	e.Timestamp = timestamp
	e.Key, e.Namespace = b[:n:n], b[n:]
	g.out.emit()
}

// entry gives the entry, emptied.
func (g *groupReader) entry(state *State) *Entry {
	g.out.entry = Entry{State: state, KeyGroup: g.group, in: g.out.entry.in}
	return &g.out.entry
}

func (g *groupReader) heapEntry(state *State, wanted bool) {
	in := g.in
	in.Mark()
	start := in.Offset()
	skipValue(in, state.Namespace, "namespace")
	middle := in.Offset()
	skipValue(in, state.Key, "key")
	end := in.Offset()
	n, m := int(middle-start), int(end-start)
	switch state.Type {
	case TypeMap, TypeList:
		head := in.Marked()
		if in.Err() != nil {
			return
		}
		g.copied = append(g.copied[:0], head...)
		e := g.entry(state)
		e.Namespace, e.Key = g.copied[:n:n], g.copied[n:m:m]
		g.heapValue(e, wanted)
	default:
		skipValue(in, state.Value, "value")
		b := in.Marked()
		if in.Err() != nil || !wanted {
			return
		}
		e := g.entry(state)
		e.Namespace, e.Key, e.Value = b[:n:n], b[n:m:m], b[m:]
		g.out.emit()
	}
}

// heapValue reads the value of an entry whose key and namespace are known.
func (g *groupReader) heapValue(e *Entry, wanted bool) {
	in := g.in
	if in.Err() != nil {
		return
	}
	wanted = wanted && g.wantsKey(e.Key)
	switch e.State.Type {
	case TypeMap:
		g.heapMap(e, wanted)
	case TypeList:
		g.heapList(e, wanted)
	default:
		in.Mark()
		skipValue(in, e.State.Value, "value")
		b := in.Marked()
		if in.Err() == nil && wanted {
			e.Value = b
			g.out.emit()
		}
	}
}

func (g *groupReader) wantsKey(key []byte) bool {
	return g.out.filter.Key == nil || bytes.Equal(g.out.filter.Key, key)
}

// heapMap hands out each entry of a map.
func (g *groupReader) heapMap(e *Entry, wanted bool) {
	in := g.in
	for n := in.Length(); n > 0 && in.Err() == nil && !g.out.done; n-- {
		in.Mark()
		start := in.Offset()
		skipValue(in, e.State.UserKey, "user key")
		end := in.Offset()
		null := readBool(in, "whether a value of a map is null")
		if !null {
			skipValue(in, e.State.Value, "value")
		}
		b := in.Marked()
		if in.Err() != nil || !wanted {
			continue
		}
		k := int(end - start)
		e.UserKey, e.Null, e.Value = b[:k:k], null, nil
		if !null {
			e.Value = b[k+1:]
		}
		g.out.emit()
	}
}

// heapList joins the elements of a list as RocksDB has them.
func (g *groupReader) heapList(e *Entry, wanted bool) {
	in := g.in
	g.list = g.list[:0]
	n := in.Length()
	for i := 0; i < n && in.Err() == nil; i++ {
		in.Mark()
		skipValue(in, e.State.Value, "element")
		b := in.Marked()
		if in.Err() != nil {
			return
		}
		if len(b) == 0 {
			in.Failf("elements of a list", "of no bytes")
			return
		}
		if !wanted {
			continue
		}
		if i > 0 {
			g.list = append(g.list, ',')
		}
		g.list = append(g.list, b...)
	}
	if in.Err() == nil && wanted && n > 0 {
		e.Value = g.list
		g.out.emit()
	}
}
