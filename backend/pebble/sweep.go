package pebble

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
)

// sweepView is how many steps a sweep goes with one view of the database, which
// keeps it from freeing what is removed meanwhile.
const sweepView = 1024

// sweepLeast is how many steps it goes with one view at least, however few entries there are.
const sweepLeast = 64

// sweep looks at some entries of a state at each access, to remove those that expired.
type sweep struct {
	no     int // number of the state
	groups keygroup.Range
	n      int // steps for each access
	trim   *trimmer
	it     *pebble.Iterator // nil until a new view is taken
	steps  int              // with this view
	from   []byte           // where the next view begins
}

func newSweep(no int, groups keygroup.Range, ttl *backend.TTL, s *slot, most int) *sweep {
	return &sweep{
		no: no, groups: groups, n: ttl.CleanUp,
		trim: &trimmer{state: s.state, ttl: ttl, most: most}, from: appendPrefix(nil, groups.Start, no),
	}
}

// renumber says that the state has another number now.
func (s *sweep) renumber(no int) {
	s.no, s.from = no, appendPrefix(nil, s.groups.Start, no)
}

// step goes on by some entries. The way from one key group to the next is a step, too, so that
// an access to a state of few entries does not walk through all key groups.
func (s *sweep) step(db *store, now int64) error {
	s.trim.now = now
	for range s.n {
		if err := s.look(db); err != nil {
			s.stop()
			return err
		}
	}
	return nil
}

func (s *sweep) look(db *store) error {
	if s.it == nil {
		// What is only in the buffer has to be seen, too.
		if err := db.flushState(s.no); err != nil {
			return err
		}
		it, err := db.db.NewIter(nil)
		if err != nil {
			return err
		}
		s.it, s.steps = it, 0
		it.SeekGE(s.from)
	}
	if !s.it.Valid() {
		err := s.it.Error()
		s.from = appendPrefix(s.from[:0], s.groups.Start, s.no)
		if s.steps++; err != nil || s.steps >= sweepLeast {
			s.stop()
		} else {
			s.it.SeekGE(s.from)
		}
		return err
	}
	key := s.it.Key()
	switch group, no := int(binary.BigEndian.Uint16(key)), int(binary.BigEndian.Uint16(key[2:])); {
	case no < s.no:
		s.from = appendPrefix(s.from[:0], group, s.no)
		s.it.SeekGE(s.from)
	case no > s.no:
		s.from = appendPrefix(s.from[:0], group+1, s.no)
		s.it.SeekGE(s.from)
	default:
		value, err := s.it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := s.clean(db, key, value); err != nil {
			return err
		}
		s.it.Next()
	}
	if s.steps++; s.steps == sweepView && s.it.Valid() {
		s.from = append(s.from[:0], s.it.Key()...)
		s.stop()
	}
	return nil
}

// clean removes what has expired of an entry that the view has with this value. What counts is its value now.
func (s *sweep) clean(db *store, key, value []byte) error {
	if live, ok, err := s.trim.live(value); err != nil || ok && len(live) == len(value) {
		return err
	}
	var live []byte // of a list, whose elements the trimmer has copied
	var some, all bool
	there, err := db.get(key, func(is []byte) (err error) {
		live, some, err = s.trim.live(is)
		all = len(live) == len(is)
		return err
	})
	switch {
	case errors.Is(err, backend.ErrTooLarge):
		return nil // who reads it is told
	case err != nil:
		return err
	case there && !some:
		return db.delete(key)
	case there && !all:
		return db.set(key, live)
	}
	return nil
}

// stop gives the view up.
func (s *sweep) stop() {
	if s.it != nil {
		_ = s.it.Close() // what went wrong was told when it was read
		s.it = nil
	}
}
