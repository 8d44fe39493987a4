package rocksdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
)

// table is an open table.
type table struct {
	reader
	db         *DB
	meta       *File
	props      *Properties
	decomp     decompressor // of data blocks
	plain      decompressor // of all others, which have no dictionary
	index      block
	tombstones []tombstone
	global     uint64 // sequence of all entries of an ingested file
	ingested   bool
}

// openTable reads all of a table that is not its data.
func (f *Family) openTable(ctx context.Context, meta *File) (*table, error) {
	obj, err := f.db.open.open(ctx, meta.Name())
	if err != nil {
		return nil, err
	}
	t := &table{db: f.db, meta: meta}
	t.ctx, t.file, t.obj, t.ahead = ctx, meta.Name(), obj, f.db.ahead
	if err := t.load(f); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *table) close() {
	t.decomp.close()
	t.obj.Close()
}

// load reads the footer, the metaindex and the blocks that it names.
func (t *table) load(f *Family) error {
	if err := t.loadFooter(); err != nil {
		return err
	}
	metaindex, err := t.metaindex()
	if err != nil {
		return err
	}
	if err := t.loadProperties(f, metaindex); err != nil {
		return err
	}
	if err := t.loadDict(metaindex); err != nil {
		return err
	}
	if err := t.loadTombstones(metaindex); err != nil {
		return err
	}
	return t.loadIndex(metaindex)
}

// loadFooter compares the size with the MANIFEST and reads the end of the file.
func (t *table) loadFooter() error {
	size := t.obj.Size()
	if size != t.meta.Size {
		err := corrupt("%d bytes instead of the %d that %s says", size, t.meta.Size, t.db.manifest)
		if size < t.meta.Size {
			err = fmt.Errorf("%w: %d bytes instead of the %d that %s says", ErrTruncated, size, t.meta.Size, t.db.manifest)
		}
		return &Error{File: t.file, Offset: -1, Inner: -1, Field: "size", Err: err}
	}
	tail := make([]byte, min(size, footerSize))
	if err := readAt(t.obj, tail, size-int64(len(tail))); err != nil {
		return &Error{File: t.file, Offset: size - int64(len(tail)), Inner: -1, Field: "footer", Err: err}
	}
	var err error
	if t.footer, err = decodeFooter(t.file, tail, size); err != nil {
		return err
	}
	t.decomp.version, t.plain.version = t.footer.version, t.footer.version
	t.stop = int64(t.footer.metaindex.offset)
	return nil
}

// loadDict reads the dictionary of the data blocks, if there is one.
func (t *table) loadDict(metaindex map[string]handle) error {
	h, ok := metaindex[metaDict]
	if !ok {
		return nil
	}
	data, kind, err := t.read(h, metaDict)
	if err != nil {
		return err
	}
	if t.decomp.dict, err = t.plain.decode(nil, data, kind); err != nil {
		return t.fail(h, metaDict, err)
	}
	return nil
}

// loadTombstones reads the range deletions, if there are any.
func (t *table) loadTombstones(metaindex map[string]handle) error {
	h, ok := metaindex[metaRangeDel]
	if !ok {
		return nil
	}
	b, err := t.block(h, metaRangeDel)
	if err != nil {
		return err
	}
	if t.tombstones, err = t.decodeTombstones(b); err != nil {
		return t.fail(h, metaRangeDel, err)
	}
	return nil
}

// loadIndex reads the index, or the top of it.
func (t *table) loadIndex(metaindex map[string]handle) error {
	h := t.footer.index
	if t.footer.version >= formatContext {
		var ok bool
		if h, ok = metaindex[metaIndex]; !ok {
			return t.fail(t.footer.metaindex, "metaindex", corrupt("no %s", metaIndex))
		}
		t.footer.index = h
	}
	var err error
	t.index, err = t.block(h, "index")
	return err
}

// block reads and decompresses a block that is no data block.
func (t *table) block(h handle, field string) (block, error) {
	data, kind, err := t.read(h, field)
	if err != nil {
		return block{}, err
	}
	if data, err = t.plain.decode(nil, data, kind); err != nil {
		return block{}, t.fail(h, field, err)
	}
	b, err := parseBlock(data)
	if err != nil {
		return block{}, t.fail(h, field, err)
	}
	return b, nil
}

// metaindex gives the handles of all blocks that it names.
func (t *table) metaindex() (map[string]handle, error) {
	b, err := t.block(t.footer.metaindex, "metaindex")
	if err != nil {
		return nil, err
	}
	handles := map[string]handle{}
	var it blockIter
	it.reset(b)
	for {
		ok, err := it.next()
		if err != nil {
			return nil, t.fail(t.footer.metaindex, "metaindex", err)
		}
		if !ok {
			return handles, nil
		}
		name := string(it.key)
		h, _, ok := parseHandle(it.value)
		if !ok {
			return nil, t.fail(t.footer.metaindex, "metaindex", corrupt("handle of %q", name))
		}
		if name == metaPropertiesOld {
			name = metaProperties
		}
		handles[name] = h
	}
}

func (t *table) loadProperties(f *Family, metaindex map[string]handle) error {
	h, ok := metaindex[metaProperties]
	if !ok {
		return t.fail(t.footer.metaindex, "metaindex", corrupt("no %s", metaProperties))
	}
	b, err := t.block(h, metaProperties)
	if err == nil {
		if t.props, err = decodeProperties(b); err != nil {
			err = t.fail(h, metaProperties, err)
		}
	}
	if err != nil {
		return err
	}
	t.props.FormatVersion = t.footer.version
	if c := t.props.Comparator; c != "" && c != f.comparator {
		return t.fail(h, metaProperties, corrupt("comparator %q instead of %q", c, f.comparator))
	}
	if t.props.externalFile >= 2 {
		t.ingested = true
		if t.global = t.props.globalSequence; t.global == 0 {
			t.global = t.meta.LargestSequence
		}
		if t.global > maxSequence {
			return t.fail(h, metaProperties, corrupt("global sequence %d", t.global))
		}
	}
	return nil
}

// entry takes an internal key of the table apart, and gives it the sequence
// that is meant.
func (t *table) entry(key []byte) (ikey, error) {
	n := len(key) - trailerSize
	if n < 0 {
		return ikey{}, corrupt("internal key of %d bytes", len(key))
	}
	k := ikey{key[:n:n], binary.LittleEndian.Uint64(key[n:])}
	if t.ingested {
		if k.sequence() != 0 {
			return ikey{}, corrupt("sequence %d in an ingested file", k.sequence())
		}
		k.trailer |= t.global << 8
	}
	if k.sequence() > t.db.lastSequence {
		return ikey{}, corrupt("sequence %d above the last one, %d", k.sequence(), t.db.lastSequence)
	}
	return k, nil
}

// tableIter goes over the entries of a table in order.
type tableIter struct {
	*table
	top, part indexIter // part is of a partition, where there are any
	handle    handle    // of the data block
	data      blockIter
	buf       []byte // decompressed data block
	count     uint64
	whole     bool // from the first entry on

	key   ikey
	value []byte
}

func newTableIter(t *table) *tableIter {
	it := &tableIter{table: t}
	it.top.form, it.part.form = t.props.form(), t.props.form()
	it.top.reset(t.index)
	return it
}

// indexError says where in the index something is wrong.
func (it *tableIter) indexError(err error) error {
	return &Error{File: it.file, Offset: -1, Inner: -1, Field: "index", Err: err}
}

// nextHandle gives the next data block.
func (it *tableIter) nextHandle() (handle, bool, error) {
	if it.props.indexType != indexTwoLevel {
		ok, err := it.top.next()
		if err != nil {
			err = it.indexError(err)
		}
		return it.top.h, ok, err
	}
	for {
		ok, err := it.part.next()
		if err != nil {
			return handle{}, false, it.indexError(err)
		}
		if ok {
			return it.part.h, true, nil
		}
		if ok, err = it.top.next(); err != nil || !ok {
			if err != nil {
				err = it.indexError(err)
			}
			return handle{}, false, err
		}
		b, err := it.block(it.top.h, "index partition")
		if err != nil {
			return handle{}, false, err
		}
		it.part.reset(b)
	}
}

// seekHandle gives the first data block that can hold user keys from lower on.
func (it *tableIter) seekHandle(lower []byte) (handle, bool, error) {
	ok, err := it.top.seek(lower)
	if err != nil || !ok {
		if err != nil {
			err = it.indexError(err)
		}
		return handle{}, false, err
	}
	if it.props.indexType != indexTwoLevel {
		return it.top.h, true, nil
	}
	b, err := it.block(it.top.h, "index partition")
	if err != nil {
		return handle{}, false, err
	}
	it.part.reset(b)
	if ok, err = it.part.seek(lower); err != nil {
		return handle{}, false, it.indexError(err)
	}
	if ok {
		return it.part.h, true, nil
	}
	return it.nextHandle()
}

// start goes to the first entry from lower on, which may be nil; false if
// there is none. Reading ahead ends where upper is, if it is not nil.
func (it *tableIter) start(lower, upper []byte) (bool, error) {
	if upper != nil {
		h, ok, err := it.seekHandle(upper)
		if err != nil {
			return false, err
		}
		if ok {
			if _, err := it.check(h, "index"); err != nil {
				return false, err
			}
			it.stop = int64(h.offset+h.size) + blockTrailer
		}
		it.top.reset(it.index)
		it.part.reset(block{})
	}
	if lower == nil {
		it.whole = true
		return it.next()
	}
	h, ok, err := it.seekHandle(lower)
	if err != nil || !ok {
		return false, err
	}
	if err := it.loadBlock(h); err != nil {
		return false, err
	}
	off, err := it.data.block.seek(func(key []byte) bool {
		return string(key[:max(0, len(key)-trailerSize)]) < string(lower)
	}, true)
	if err != nil {
		return false, it.fail(h, "data block", err)
	}
	it.data.off = off
	for {
		if ok, err := it.next(); err != nil || !ok {
			return false, err
		}
		if bytes.Compare(it.key.user, lower) >= 0 {
			return true, nil
		}
	}
}

func (it *tableIter) loadBlock(h handle) error {
	data, kind, err := it.scan(h, "data block")
	if err != nil {
		return err
	}
	if kind != compressNone {
		if data, err = it.decomp.decode(it.buf, data, kind); err != nil {
			return it.fail(h, "data block", err)
		}
		it.buf = data
	}
	b, err := parseBlock(data)
	if err != nil {
		return it.fail(h, "data block", err)
	}
	it.handle = h
	it.data.reset(b)
	return nil
}

// next goes to the next entry; false at the end.
func (it *tableIter) next() (bool, error) {
	for {
		ok, err := it.data.next()
		if err != nil {
			return false, it.fail(it.handle, "data block", err)
		}
		if ok {
			if it.key, err = it.entry(it.data.key); err != nil {
				return false, it.fail(it.handle, "data block", err)
			}
			it.value = it.data.value
			it.count++
			return true, nil
		}
		h, ok, err := it.nextHandle()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, it.checkCount()
		}
		if err := it.loadBlock(h); err != nil {
			return false, err
		}
	}
}

// checkCount compares the number of entries with the properties. Old RocksDB
// did not count range deletions as entries.
func (it *tableIter) checkCount() error {
	p := it.props
	if !it.whole || it.count == p.Entries || it.count+p.RangeDeletions == p.Entries {
		return nil
	}
	return &Error{File: it.file, Offset: -1, Inner: -1, Field: "entries",
		Err: corrupt("%d entries, of which %d are range deletions, by the properties, but %d are there", p.Entries, p.RangeDeletions, it.count)}
}
