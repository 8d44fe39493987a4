package backend

import (
	"fmt"

	"github.com/drey-state/drey/serializer"
)

const (
	// endOfGroup stands where the number of a state would.
	endOfGroup = 0xFFFF
	// lastKey is set in the first byte of the last key of a state in a key group.
	lastKey = 0x80
)

// readCanonical reads a key group of a canonical file (FullSnapshotUtil).
func (g *groupReader) readCanonical(start, end int64) {
	g.begin(start, end)
	in := g.in
	var state *State
	for !g.out.done {
		off := in.Offset()
		id := int(in.U16())
		if id == endOfGroup && len(g.seen) > 0 {
			g.checkEnd(end)
			state = nil
			break
		}
		if state = g.begun(id, off); state == nil {
			break
		}
		wanted := g.wants(state)
		for last := false; !last && in.Err() == nil && !g.out.done; {
			if wanted {
				last = g.canonicalEntry(state)
			} else {
				last = g.skipCanonicalEntry()
			}
		}
		if in.Err() != nil {
			break
		}
	}
	if in.Err() != nil && !g.out.done {
		name := ""
		if state != nil {
			name = state.Meta.Name
		}
		g.lost(name, -1, in.Err())
	}
}

// skipCanonicalEntry passes over an entry, and says whether it is the state's last.
func (g *groupReader) skipCanonicalEntry() (last bool) {
	n := g.in.Length()
	first := g.in.U8()
	if n == 0 {
		g.in.Failf("key", "no bytes")
		return false
	}
	g.in.Skip(int64(n) - 1)
	g.in.Skip(int64(g.in.Length()))
	return first&lastKey != 0
}

// canonicalEntry reads an entry, and says whether it is the state's last.
func (g *groupReader) canonicalEntry(state *State) (last bool) {
	in, prefix := g.in, g.file.prefix
	in.Mark()
	n := in.Length()
	in.Skip(int64(n))
	m := in.Length()
	in.Skip(int64(m))
	b := in.Marked()
	if in.Err() != nil {
		return false
	}
	if n < prefix {
		in.Failf("key", "%d bytes", n)
		return false
	}
	key, value := b[4:4+n:4+n], b[8+n:8+n+m:8+n+m]
	last = key[0]&lastKey != 0
	key[0] &^= lastKey
	e := &g.out.entry
	e.State, e.KeyGroup = state, g.group
	err := g.checkPrefix(key[:prefix])
	if err == nil {
		err = e.fill(key[prefix:], value)
	}
	if err != nil {
		g.lost(state.Meta.Name, 1, fmt.Errorf("entry before offset %d: %w", in.Offset(), err))
		return last
	}
	g.out.emit()
	return last
}

func (g *groupReader) checkPrefix(p []byte) error {
	if n := groupOf(p); n != g.group {
		return fmt.Errorf("%w: the key is of key group %d", serializer.ErrCorrupt, n)
	}
	return nil
}

// groupOf is the key group in front of a composite key.
func groupOf(prefix []byte) int {
	n := 0
	for _, c := range prefix {
		n = n<<8 | int(c)
	}
	return n
}

// fill sets an entry's parts from a composite key without its key group and
// a value as RocksDB has it.
func (e *Entry) fill(key, value []byte) error {
	if !e.State.known && len(value) == 0 {
		// Perhaps a timer, which does not begin with the key.
		*e = Entry{State: e.State, KeyGroup: e.KeyGroup, Key: key, Unsplit: true, in: e.in}
		return nil
	}
	if err := e.split(key); err != nil {
		return err
	}
	e.Value, e.Null = value, false
	switch e.State.Type {
	case TypeMap:
		if len(value) == 0 || value[0] > 1 {
			return fmt.Errorf("value of a map: %w: no flag that says whether it is null", serializer.ErrCorrupt)
		}
		e.Value = value[1:]
		if e.Null = value[0] == 1; e.Null {
			e.Value = nil
		}
	case TypeTimers:
		if len(value) > 0 {
			return fmt.Errorf("value of a timer: %w: %d bytes", serializer.ErrCorrupt, len(value))
		}
		e.Value = nil
	}
	return nil
}

// SetStored sets the parts of an entry of the state e.State from its joined key, as
// [Entry.AppendStoredKey] appends it, and its stored value. They are not copied.
func (e *Entry) SetStored(key, value []byte) error {
	e.input()
	return e.fill(key, value)
}
