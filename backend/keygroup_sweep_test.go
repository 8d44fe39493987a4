package backend

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// TestKeyGroups checks every key of every fixture: its hash code gives the key
// group under which Flink stored it, and its text gives its bytes.
func TestKeyGroups(t *testing.T) {
	checked, texts, without := map[string]int{}, map[string]int{}, map[string]int{}
	eachFixture(t, []string{"flink", "sql", "extra", "old", "rocksdb", "public"}, func(f fixture) {
		for _, k := range f.keyed() {
			r, err := OpenKeyed(t.Context(), f.files, k.handle, k.o)
			if err != nil {
				continue // the sweep of readers tells
			}
			hashers := map[*State]*keyCheck{}
			for e, err := range r.Entries(t.Context(), Filter{}) {
				var lost *LostError
				if errors.As(err, &lost) {
					continue
				}
				if err != nil {
					break
				}
				c := hashers[e.State]
				if c == nil {
					c = newKeyCheck(r, e.State)
					hashers[e.State] = c
				}
				if c.snapshot == nil || e.Unsplit {
					without["keys without a serializer"]++
					continue
				}
				if c.text(e.Key) {
					texts[c.name]++
				}
				hash, err := c.hasher.Hash(e.Key)
				switch {
				case errors.Is(err, serializer.ErrNoHash):
					without[err.Error()]++
				case err != nil:
					t.Errorf("%s: key %x of %s: %v", k.label, e.Key, e.State.Meta.Name, err)
				default:
					if got := keygroup.ForHash(hash, k.o.MaxParallelism); got != e.KeyGroup {
						t.Errorf("%s: key %x (%s) of %s is in key group %d of %d, but hashes to %d", k.label, e.Key, c.name, e.State.Meta.Name, e.KeyGroup, k.o.MaxParallelism, got)
					}
					checked[c.name]++
				}
			}
			if err := r.Close(); err != nil {
				t.Errorf("%s: %v", k.label, err)
			}
		}
	})
	if len(checked) < 20 || checked["String"] < 10_000 || texts["String"] < 10_000 {
		t.Errorf("too few keys: %v and %v", checked, texts)
	}
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		t.Logf("%7d keys of %s in the key group of their hash, %d from their text", checked[name], name, texts[name])
	}
	for _, why := range slices.Sorted(maps.Keys(without)) {
		t.Logf("%7d %s", without[why], why)
	}
}

// keyCheck is what checks the keys of a state.
type keyCheck struct {
	snapshot *serializer.Snapshot
	name     string
	hasher   *serializer.Hasher
	key      serializer.Serializer
}

func newKeyCheck(r *KeyedReader, s *State) *keyCheck {
	c := &keyCheck{key: s.Key}
	if h := r.Header(); h != nil {
		c.snapshot = h.Key
	} else if s.Meta != nil { // raw timers
		c.snapshot = s.Meta.Serializer(SerializerKey)
	}
	if c.snapshot != nil {
		c.name, c.hasher = c.snapshot.String(), serializer.NewHasher(c.snapshot)
	}
	return c
}

// text says that the text of a key gives its bytes.
func (c *keyCheck) text(key []byte) bool {
	in := serializer.NewInput(key)
	v := c.key.Read(in)
	if in.Err() != nil {
		return false
	}
	raw, err := serializer.ParseKey(c.snapshot, serializer.Text(v))
	return err == nil && bytes.Equal(raw, key)
}
