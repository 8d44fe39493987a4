package pebble

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/drey-state/drey/backend"
)

// store is the database with a buffer in front of it. Only timers, which are never read by key, go past the buffer.
type store struct {
	db     *pebble.DB
	buffer *buffer
	most   int // bytes of the largest value
	joined []byte
}

// newStore makes the store of a database, with a buffer of so many bytes; reserve is told of those it takes.
func newStore(db *pebble.DB, buffer, most int, reserve func(bytes int)) *store {
	return &store{db: db, buffer: newBuffer(buffer, most, reserve), most: most}
}

// large is from how many bytes on a value is given memory of its own, which the database would double until it is enough.
const large = 1 << 20

// batch gives a batch for so many bytes and writes.
func (s *store) batch(bytes, writes int) *pebble.Batch {
	return s.db.NewBatchWithSize(bytes + 16*writes + 64)
}

// commit writes a batch, and closes it.
func (s *store) commit(batch *pebble.Batch, err error) error {
	if err == nil {
		err = batch.Commit(pebble.NoSync)
	}
	return errors.Join(err, batch.Close())
}

// set writes a value.
func (s *store) set(key, value []byte) error {
	if s.buffer.fits(key, value) {
		return s.write(key, value, present)
	}
	err := s.direct(key, value, (*pebble.Batch).Set)
	if err == nil {
		s.buffer.forget(key)
	}
	return err
}

// merge adds to a list.
func (s *store) merge(key, value []byte) error {
	if s.buffer.fits(key, value) {
		return s.write(key, value, added)
	}
	err := s.flush()
	if err == nil {
		err = s.direct(key, value, (*pebble.Batch).Merge)
	}
	if err == nil {
		s.buffer.forget(key)
	}
	return err
}

// delete removes a value or a list.
func (s *store) delete(key []byte) error {
	if s.buffer.fits(key, nil) {
		return s.write(key, nil, deleted)
	}
	return s.db.Delete(key, pebble.NoSync) // the buffer has no such key
}

// direct writes to the database.
func (s *store) direct(key, value []byte, f func(b *pebble.Batch, key, value []byte, _ *pebble.WriteOptions) error) error {
	if len(value) < large {
		batch := s.db.NewBatch()
		return s.commit(batch, f(batch, key, value, nil))
	}
	batch := s.batch(len(key)+len(value), 1)
	return s.commit(batch, f(batch, key, value, nil))
}

// write writes to the buffer.
func (s *store) write(key, value []byte, w effect) error {
	for !s.buffer.write(key, value, w) {
		if s.buffer.clean() {
			s.buffer.empty()
		} else if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush gives the database what it lacks. What the buffer has can be read on from there.
func (s *store) flush() error {
	if s.buffer.clean() {
		return nil
	}
	items, size := s.buffer.lacking()
	batch := s.batch(size, len(items))
	var err error
	for i := range items {
		if err != nil {
			break
		}
		switch e := s.buffer.at(items[i].place); e.effect() {
		case present:
			err = batch.Set(e.key(), e.value(), nil)
		case deleted:
			err = batch.Delete(e.key(), nil)
		case added:
			err = batch.Merge(e.key(), e.value(), nil)
		}
	}
	if err = s.commit(batch, err); err == nil {
		s.buffer.cleaned()
	}
	return err
}

// flushState is flush if there is something of a state.
func (s *store) flushState(no int) error {
	if no < len(s.buffer.lacks) && s.buffer.lacks[no] {
		return s.flush()
	}
	return nil
}

// flushAll is flush before something is written to the database that the buffer is not told.
func (s *store) flushAll() error {
	err := s.flush()
	if err == nil {
		s.buffer.empty()
	}
	return err
}

// get gives a value to f, whose argument is valid while it runs and nothing is written; false if there is none.
func (s *store) get(key []byte, f func([]byte) error) (bool, error) {
	w, value := s.buffer.get(key)
	switch w {
	case present:
		return true, s.check(value, f)
	case deleted:
		return false, nil
	}
	is, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		if w == added {
			return true, s.check(value, f)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if w == added {
		if err = backend.CheckSize("a value", len(is), s.most); err == nil {
			s.joined = slices.Grow(s.joined[:0], len(is)+1+len(value))
			s.joined = join(append(s.joined, is...), value)
			is = s.joined
		}
	}
	if err == nil {
		err = s.check(is, f)
	}
	_ = closer.Close() // gives memory back, no more
	if cap(s.joined) >= large {
		s.joined = nil
	}
	return err == nil, err
}

func (s *store) check(value []byte, f func([]byte) error) error {
	if err := backend.CheckSize("a value", len(value), s.most); err != nil {
		return err
	}
	return f(value)
}
