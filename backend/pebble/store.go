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

	// view is an iterator of the database as it is, which is kept from read to read, as making one costs more than a read
	// by it; nil if none is kept. It is closed when the database is written, so that it holds nothing for longer.
	view    *pebble.Iterator
	changes uint64 // counts what closed it
	beside  int    // bytes of timers written since view was made
}

// newStore makes the store of a database, with a buffer of so many bytes; reserve is told of those it takes.
func newStore(db *pebble.DB, buffer, most int, reserve func(bytes int)) *store {
	return &store{db: db, buffer: newBuffer(buffer, most, reserve), most: most}
}

// large is from how many bytes on a value is given memory of its own, which the database would double until it is enough.
const large = 1 << 20

// batch gives a batch for so many bytes and writes.
func (s *store) batch(bytes, writes int) *pebble.Batch {
	return s.db.NewBatchWithSize(bytes + 8*writes + 64)
}

// commit writes a batch, and closes it.
func (s *store) commit(batch *pebble.Batch, err error) error {
	if err == nil {
		s.outdated()
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
	s.outdated()
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
	is, ok, err := s.lookUp(key)
	if err != nil {
		return false, err
	}
	if !ok {
		if w == added {
			return true, s.check(value, f)
		}
		return false, nil
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
	if cap(s.joined) >= large {
		s.joined = nil
	}
	if len(is) >= large {
		s.outdated() // which may hold it
	}
	return err == nil, err
}

// lookUp gives what the database has of a key, valid until the next read or write.
func (s *store) lookUp(key []byte) ([]byte, bool, error) {
	it, err := s.take(nil, nil)
	if err != nil {
		return nil, false, err
	}
	var value []byte
	ok := it.SeekPrefixGE(key) // all of the key is its prefix
	if ok {
		value, err = it.ValueAndErr()
	} else {
		err = it.Error()
	}
	if err != nil {
		_ = it.Close()
		return nil, false, err
	}
	s.view = it
	return value, ok, nil
}

// take gives an iterator of the database as it is now, to be given back, with the number of changes as it was then, or closed.
func (s *store) take(lower, upper []byte) (*pebble.Iterator, error) {
	it := s.view
	if it == nil {
		s.beside = 0
		return s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	}
	s.view = nil
	it.SetBounds(lower, upper)
	return it, nil
}

// give takes an iterator back.
func (s *store) give(it *pebble.Iterator, changes uint64) error {
	if s.view != nil || changes != s.changes || it.Error() != nil {
		return it.Close()
	}
	s.view = it
	return nil
}

// outdated is called before the database is written, and when it is to hold no more than it must.
func (s *store) outdated() {
	s.changes++
	if s.view != nil {
		_ = s.view.Close() // what went wrong in it was told when it was read
		s.view = nil
	}
}

// timersWritten is outdated after many timers were written. They are never read by an iterator that was kept, but have
// write buffers of their own that it would hold.
func (s *store) timersWritten(bytes int) {
	if s.beside += bytes; s.beside >= minBuffer {
		s.beside = 0
		s.outdated()
	}
}

// deleteRange removes all whose keys begin with a prefix. The buffer must have none of them.
func (s *store) deleteRange(prefix []byte) error {
	s.outdated()
	return s.db.DeleteRange(prefix, after(prefix), pebble.NoSync)
}

func (s *store) check(value []byte, f func([]byte) error) error {
	if err := backend.CheckSize("a value", len(value), s.most); err != nil {
		return err
	}
	return f(value)
}
