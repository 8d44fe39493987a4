package rocksdb

import (
	"bytes"
	"context"
	"fmt"
)

// Bounds limit a scan to user keys from Lower on and before Upper; nil is no limit.
type Bounds struct{ Lower, Upper []byte }

// MergeFunc makes the value of a row that has merge operands: base is the
// value below them, if there is one, and operands are in order of their
// writing. It appends to dst, keeps nothing and gives the longer slice.
type MergeFunc func(dst, key, base []byte, hasBase bool, operands [][]byte) ([]byte, error)

// StringAppend is RocksDB's merge operator of that name: values joined by a
// delimiter. Empty ones count.
func StringAppend(delimiter string) MergeFunc {
	return func(dst, _, base []byte, hasBase bool, operands [][]byte) ([]byte, error) {
		if hasBase {
			dst = append(dst, base...)
		}
		for i, o := range operands {
			if hasBase || i > 0 {
				dst = append(dst, delimiter...)
			}
			dst = append(dst, o...)
		}
		return dst, nil
	}
}

// Iterator goes over the rows of a family in order of their keys:
//
//	it := family.Iter(ctx, rocksdb.Bounds{})
//	defer it.Close()
//	for it.Next() {
//		use(it.Key(), it.Value())
//	}
//	return it.Err()
//
// It is for one goroutine; a family may have many. Of each table in the
// midst of which it is it holds one data block, what was read ahead and the
// index; of the levels from 1 on that is one table each.
type Iterator struct {
	ctx    context.Context
	family *Family
	bounds Bounds
	merge  MergeFunc

	heap    []*source // the lowest key on top
	deleted tombstones
	started bool
	done    bool
	err     error

	key      []byte
	value    []byte
	merged   []byte // memory of a merged value
	operands [][]byte
	arena    []byte
}

// source gives the entries of tables that do not overlap. Before a table is
// opened the source stands before the first version of its smallest key.
type source struct {
	files []*File
	table *tableIter // nil while the next file is not open
	key   ikey
	value []byte
}

// Iter begins a scan. Nothing is read before the first call of Next.
func (f *Family) Iter(ctx context.Context, b Bounds) *Iterator {
	it := &Iterator{ctx: ctx, family: f, bounds: b, merge: f.db.merge}
	if f.comparator != Bytewise {
		it.done = true
		it.err = &Error{File: f.db.manifest, Offset: -1, Inner: -1, Field: fmt.Sprintf("comparator of %q", f.name), Err: unsupported("%q", f.comparator)}
		return it
	}
	var level []*File
	flush := func() {
		if len(level) > 0 {
			it.heap = append(it.heap, newSource(level))
		}
		level = nil
	}
	for _, file := range f.files {
		if b.Lower != nil && bytes.Compare(file.largest.user, b.Lower) < 0 ||
			b.Upper != nil && bytes.Compare(file.smallest.user, b.Upper) >= 0 {
			continue
		}
		if file.Level == 0 || len(level) > 0 && level[0].Level != file.Level {
			flush()
		}
		level = append(level, file)
	}
	flush()
	for i := len(it.heap)/2 - 1; i >= 0; i-- {
		it.down(i)
	}
	return it
}

func newSource(files []*File) *source {
	s := &source{files: files}
	s.wait()
	return s
}

// wait puts the source before its next file.
func (s *source) wait() {
	s.key = ikey{s.files[0].smallest.user, maxTrailer}
	s.value = nil
}

// down lets heap[i] sink to its place.
func (it *Iterator) down(i int) {
	h := it.heap
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].key.compare(h[c].key) < 0 {
			c++
		}
		if h[i].key.compare(h[c].key) <= 0 {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// top gives the source with the next entry, nil at the end or after an error.
func (it *Iterator) top() *source {
	for len(it.heap) > 0 && it.err == nil {
		s := it.heap[0]
		if s.table != nil {
			return s
		}
		it.openNext(s)
	}
	return nil
}

// openNext opens the next file of the source on top.
func (it *Iterator) openNext(s *source) {
	if it.err = it.ctx.Err(); it.err != nil {
		return
	}
	t, err := it.family.openTable(it.ctx, s.files[0])
	if err != nil {
		it.err = err
		return
	}
	s.files = s.files[1:]
	for _, d := range t.tombstones {
		if it.bounds.Lower != nil && bytes.Compare(d.hi.user, it.bounds.Lower) < 0 ||
			it.bounds.Upper != nil && bytes.Compare(d.lo.user, it.bounds.Upper) >= 0 {
			continue
		}
		it.deleted.add(d)
	}
	t.tombstones = nil
	s.table = newTableIter(t)
	ok, err := s.table.start(it.bounds.Lower, it.bounds.Upper)
	it.settle(s, ok, err)
}

// advance goes to the next entry of the source on top.
func (it *Iterator) advance(s *source) {
	ok, err := s.table.next()
	it.settle(s, ok, err)
}

// settle takes over the entry on which the top source's table is.
func (it *Iterator) settle(s *source, ok bool, err error) {
	switch {
	case err != nil:
		it.err = err
		return
	case ok:
		s.key, s.value = s.table.key, s.table.value
	default:
		s.table.close()
		s.table = nil
		if len(s.files) > 0 {
			s.wait()
			break
		}
		n := len(it.heap) - 1
		it.heap[0] = it.heap[n]
		it.heap[n] = nil
		it.heap = it.heap[:n]
	}
	it.down(0)
}

// Next goes to the next row; false at the end or after an error.
func (it *Iterator) Next() bool {
	it.value = nil
	for !it.done {
		s := it.top()
		if s == nil {
			break
		}
		if it.started {
			switch c := bytes.Compare(s.key.user, it.key); {
			case c == 0:
				it.advance(s) // an older version
				continue
			case c < 0:
				it.err = &Error{File: s.table.file, Offset: int64(s.table.handle.offset), Inner: -1, Field: "data block", Err: corrupt("keys are not in order")}
				continue
			}
		}
		if it.bounds.Upper != nil && bytes.Compare(s.key.user, it.bounds.Upper) >= 0 {
			break
		}
		it.started = true
		it.key = append(it.key[:0], s.key.user...)
		if it.resolve(s) {
			return true
		}
	}
	it.Close()
	return false
}

// resolve goes over the versions of it.key from the newest on, which is s's,
// until its value is known; false if the row is deleted, or after an error.
func (it *Iterator) resolve(s *source) bool {
	it.operands, it.arena = it.operands[:0], it.arena[:0]
	for ; s != nil && bytes.Equal(s.key.user, it.key); s = it.top() {
		if it.deleted.cover(s.key) {
			break
		}
		switch kind := byte(s.key.trailer); kind {
		case typeValue:
			if len(it.operands) == 0 {
				it.value = s.value
				return true
			}
			return it.join(s.value, true)
		case typeDeletion, typeSingleDeletion:
			return len(it.operands) > 0 && it.join(nil, false)
		case typeMerge:
			if it.merge == nil {
				it.fail(s, fmt.Errorf("%w: key %x", ErrNoMerge, it.key))
				return false
			}
			n := len(it.arena)
			it.arena = append(it.arena, s.value...)
			// Should the arena move, the operand keeps the old memory.
			it.operands = append(it.operands, it.arena[n:len(it.arena):len(it.arena)])
			it.advance(s)
		case typeBlobIndex:
			it.fail(s, unsupported("a value in a blob file (BlobDB)"))
			return false
		case typeWideColumns:
			it.fail(s, unsupported("a wide column entity"))
			return false
		default:
			it.fail(s, unsupported("entry of type %#x", kind))
			return false
		}
	}
	return it.err == nil && len(it.operands) > 0 && it.join(nil, false)
}

// fail records an error at the entry of s.
func (it *Iterator) fail(s *source, err error) {
	it.err = &Error{File: s.table.file, Offset: int64(s.table.handle.offset), Inner: -1, Field: "data block", Err: err}
}

// join merges the operands, which were met from the newest on.
func (it *Iterator) join(base []byte, has bool) bool {
	for i, j := 0, len(it.operands)-1; i < j; i, j = i+1, j-1 {
		it.operands[i], it.operands[j] = it.operands[j], it.operands[i]
	}
	v, err := it.merge(it.merged[:0], it.key, base, has, it.operands)
	if err != nil {
		it.err = fmt.Errorf("merge of key %x of column family %q: %w", it.key, it.family.name, err)
		return false
	}
	it.merged, it.value = v, v
	return true
}

// Key is the row's user key, valid until the next call of Next.
func (it *Iterator) Key() []byte { return it.key }

// Value is the row's value, valid until the next call of Next.
func (it *Iterator) Value() []byte { return it.value }

// Err is the first error, nil at a regular end.
func (it *Iterator) Err() error { return it.err }

// Close closes the open tables. Next does so at the end and after an error,
// but a second time does no harm.
func (it *Iterator) Close() {
	for _, s := range it.heap {
		if s.table != nil {
			s.table.close()
			s.table = nil
		}
	}
	it.heap, it.done = nil, true
	it.deleted = tombstones{}
}

// Properties opens a table of the family for what it says of itself.
func (f *Family) Properties(ctx context.Context, file *File) (*Properties, error) {
	t, err := f.openTable(ctx, file)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.props, nil
}
