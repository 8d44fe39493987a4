package pebble

import (
	"encoding/binary"
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// prefixLen is the length of key group and number in front of keys.
const prefixLen = 4

// table is one state, opened.
type table[K, N comparable] struct {
	b         *Backend[K]
	no        int // number of the state
	state     *backend.State
	namespace serializer.Codec[N]
	ambiguous bool
	current   N
	// joined is prefix, key and namespace, made for the key that was set as the
	// version-th one; 0 if it is to be made again.
	joined  []byte
	version uint64
	sweep   *sweep            // nil if nothing is cleaned up
	out     serializer.Output // scratch for values
	in      serializer.Input
}

// SetNamespace is that of all states.
func (t *table[K, N]) SetNamespace(n N) {
	if n != t.current {
		t.current, t.version = n, 0
	}
}

// at gives the database's key of the current key and namespace, valid until either changes.
func (t *table[K, N]) at() ([]byte, error) {
	if t.b.group < 0 {
		return nil, t.b.noKey()
	}
	if t.sweep != nil {
		if err := t.sweep.step(t.b.store, t.b.now()); err != nil {
			return nil, t.wrap(fmt.Errorf("clean up: %w", err))
		}
	}
	if t.version == t.b.version && t.version != 0 {
		return t.joined, nil
	}
	t.joined = t.appendAt(t.joined[:0], t.current)
	if err := t.out.Err(); err != nil {
		return nil, t.wrap(fmt.Errorf("namespace: %w", err))
	}
	if err := t.b.checkKey("key and namespace", len(t.joined)-prefixLen); err != nil {
		return nil, t.wrap(err)
	}
	t.version = t.b.version
	return t.joined, nil
}

func (t *table[K, N]) appendAt(dst []byte, n N) []byte {
	t.out.Reset()
	t.namespace.Write(&t.out, n)
	dst = appendPrefix(dst, t.b.group, t.no)
	return backend.AppendComposite(dst, t.ambiguous, t.b.keyBytes, t.out.Bytes(), nil)
}

func appendPrefix(dst []byte, group, no int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(group))
	return binary.BigEndian.AppendUint16(dst, uint16(no))
}

// Clear is that of value and list states.
func (t *table[K, N]) Clear() error {
	at, err := t.at()
	if err != nil {
		return err
	}
	return t.wrap(t.b.delete(at))
}

// read gives a value to f, whose argument is valid while it runs; false if there is none.
func (t *table[K, N]) read(at []byte, f func([]byte) error) (bool, error) {
	ok, err := t.b.get(at, f)
	if err != nil {
		return false, t.wrap(err)
	}
	return ok, nil
}

// set writes what t.out holds.
func (t *table[K, N]) set(at []byte) error {
	if err := t.out.Err(); err != nil {
		return t.wrap(err)
	}
	if err := backend.CheckSize("a value", t.out.Len(), t.b.o.MaxSize); err != nil {
		return t.wrap(err)
	}
	return t.wrap(t.write(at, t.b.set))
}

// write hands what t.out holds to f, and then forgets it if it is large.
func (t *table[K, N]) write(at []byte, f func(key, value []byte) error) error {
	err := f(at, t.out.Bytes())
	if t.out.Len() >= large {
		t.out = serializer.Output{}
	}
	return err
}

func (t *table[K, N]) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state %q: %w", t.state.Meta.Name, err)
}

// after gives the first key behind all that begin with a prefix.
func after(prefix []byte) []byte { return appendAfter(nil, prefix) }

// appendAfter is after in memory that is there.
func appendAfter(end, prefix []byte) []byte {
	end = append(end, prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil // all of it was 0xff
}
