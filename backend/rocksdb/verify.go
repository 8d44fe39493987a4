package rocksdb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Verified counts what [DB.Verify] read.
type Verified struct {
	// Tables and Blocks that were read, damaged ones included.
	Tables, Blocks int
	// Entries of data blocks: old versions and deletions are some too.
	Entries uint64
	// Bytes of tables.
	Bytes int64
}

// Verify reads every byte of every live table and tells found of each thing
// that is wrong, with the file and the offset of its block: a checksum, a
// block that cannot be decoded, keys that are not in order or not within what
// the MANIFEST says of the table, an index or counts that do not fit the
// data, bytes that belong to nothing. After damage it goes on with the next
// block that can be found. CURRENT and the MANIFEST were read by [Open]; that
// filters have the keys which they should is not looked at. What could not be
// read, or is not supported, is told too. It returns an error only if ctx ends. It is for
// any number of goroutines; found is called by this one.
func (db *DB) Verify(ctx context.Context, found func(*Error)) (Verified, error) {
	var n Verified
	for _, f := range db.families {
		for _, file := range f.files {
			if err := f.verify(ctx, file, found, &n); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// verify verifies one table.
func (f *Family) verify(ctx context.Context, file *File, found func(*Error), n *Verified) error {
	v := &verifier{n: n, found: func(err error) {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{File: file.Name(), Offset: -1, Inner: -1, Err: err}
		}
		if ctx.Err() == nil {
			found(e)
		}
	}}
	obj, err := f.db.open.open(ctx, file.Name())
	if err != nil {
		v.found(err)
		return ctx.Err()
	}
	v.table = &table{db: f.db, meta: file}
	v.ctx, v.file, v.obj, v.ahead = ctx, file.Name(), obj, f.db.ahead
	defer v.close()
	n.Tables++
	n.Bytes += obj.Size()
	v.all(f)
	return ctx.Err()
}

// verifier verifies a table.
type verifier struct {
	*table
	n     *Verified
	found func(error)

	extents []extent
	data    tableIter  // only for its blocks
	last    ikey       // the last key, as it is stored
	count   Properties // of the data, and RangeDeletions
	ranged  Properties // sizes of range deletions
	end     uint64     // of the data in the file
	whole   bool       // all data were read
}

// extent is a part of the file that a block, with its trailer, takes up.
type extent struct{ from, to uint64 }

// sequence is of blocks, each of which must lie behind the one before,
// so that none is read twice.
type sequence struct {
	v     *verifier
	field string
	end   uint64
}

// claim says whether a block may be read.
func (s *sequence) claim(h handle) bool {
	v := s.v
	n, err := v.check(h, s.field)
	if err == nil && h.offset < s.end {
		err = v.fail(h, s.field, corrupt("it begins before byte %d, where the block before it ends", s.end))
	}
	if err != nil {
		v.found(err)
		return false
	}
	s.end = h.offset + uint64(n)
	if last := len(v.extents) - 1; last >= 0 && v.extents[last].to == h.offset {
		v.extents[last].to = s.end
	} else {
		v.extents = append(v.extents, extent{h.offset, s.end})
	}
	v.n.Blocks++
	return true
}

// all verifies the whole table.
func (v *verifier) all(f *Family) {
	if err := v.loadFooter(); err != nil {
		v.found(err)
		return
	}
	for _, check := range []func() error{v.padding, v.unchecked} {
		if err := check(); err != nil {
			v.found(err)
		}
	}
	metaindex, err := v.metaindex()
	if err != nil {
		v.found(err)
		return
	}
	readable := v.blocks(metaindex)
	for _, load := range []func() error{
		func() error { return v.loadProperties(f, metaindex) },
		func() error { return v.loadDict(metaindex) },
		func() error { return v.loadTombstones(metaindex) },
		func() error { return v.loadIndex(metaindex) },
	} {
		if err := load(); err != nil {
			v.found(err)
			readable = false
		}
	}
	if !readable {
		return
	}
	v.filters(metaindex)
	v.deletions(metaindex)
	v.whole = true
	v.index()
	if v.whole {
		v.counts()
		v.gaps()
	}
}

// padding checks the bytes of the footer that say nothing: those behind the
// handles, in which a varint may not be longer than it needs to be either.
func (v *verifier) padding() error {
	tail := make([]byte, v.obj.Size()-v.footer.start)
	if err := readAt(v.obj, tail, v.footer.start); err != nil {
		return &Error{File: v.file, Offset: v.footer.start, Inner: -1, Field: "footer", Err: err}
	}
	from := len(tail) % 2 // the checksum type, which only the longer footer has
	want := make([]byte, 0, 40)
	if v.footer.version >= formatContext {
		want = append(want, tail[from:][:16]...)
	} else {
		for _, n := range []uint64{v.footer.metaindex.offset, v.footer.metaindex.size, v.footer.index.offset, v.footer.index.size} {
			want = binary.AppendUvarint(want, n)
		}
	}
	if have := tail[from:][:40]; !bytes.Equal(have, want[:40]) {
		return &Error{File: v.file, Offset: v.footer.start + int64(from), Inner: -1, Field: "footer.handles", Err: corrupt("% x instead of % x", have, want[:40])}
	}
	return nil
}

// unchecked checks that a table without checksums has zeros in their place:
// else it is the type in the footer that is wrong.
func (v *verifier) unchecked() error {
	h := v.footer.metaindex
	if _, err := v.check(h, "metaindex"); err != nil || v.footer.checksum != checksumNone {
		return err
	}
	stored := make([]byte, 4)
	if err := readAt(v.obj, stored, int64(h.offset+h.size)+1); err != nil {
		return v.fail(h, "metaindex", err)
	}
	if got := binary.LittleEndian.Uint32(stored); got != modifier(v.footer.base, int64(h.offset)) {
		return &Error{File: v.file, Offset: v.footer.start, Inner: -1, Field: "footer.checksum type", Err: corrupt("none, but a block has the checksum %08x", got)}
	}
	return nil
}

// blocks reads the metaindex's blocks as bytes; false if two overlap, or one lies outside.
func (v *verifier) blocks(metaindex map[string]handle) bool {
	names := slices.SortedFunc(maps.Keys(metaindex), func(a, b string) int {
		return cmp.Or(cmp.Compare(metaindex[a].offset, metaindex[b].offset), cmp.Compare(a, b))
	})
	s := sequence{v: v}
	ok := true
	for _, name := range names {
		h := metaindex[name]
		s.field = name
		if !s.claim(h) {
			ok = false
			continue
		}
		switch name {
		case metaProperties, metaDict, metaRangeDel, metaIndex:
			continue // whoever uses it reads it
		}
		if _, _, err := v.read(h, name); err != nil {
			v.found(err)
		}
	}
	if v.footer.version < formatContext {
		ok = (&sequence{v: v, field: "index"}).claim(v.footer.index) && ok
	}
	return (&sequence{v: v, field: "metaindex"}).claim(v.footer.metaindex) && ok
}

// filters reads the partitions of filters.
func (v *verifier) filters(metaindex map[string]handle) {
	for _, name := range slices.Sorted(maps.Keys(metaindex)) {
		if !strings.HasPrefix(name, "partitionedfilter.") {
			continue
		}
		h := metaindex[name]
		top, err := v.block(h, name)
		if err != nil {
			continue // blocks told
		}
		form := v.props.form()
		form.firstKey = false
		s := sequence{v: v, field: "filter partition"}
		v.handles(h, top, form, name, func(x *indexIter) {
			if s.claim(x.h) {
				if _, _, err := v.read(x.h, s.field); err != nil {
					v.found(err)
				}
			}
		})
	}
}

// restarts checks the restarts of a block while its entries are gone over.
type restarts struct {
	block
	next int
}

// at is told where the next entry begins, before it is read.
func (r *restarts) at(off int, withValue bool) error {
	if 4*r.next == len(r.block.restarts) {
		return nil
	}
	want := int64(binary.LittleEndian.Uint32(r.block.restarts[4*r.next:]))
	if want > int64(off) {
		return nil
	}
	if _, _, ok := r.restart(r.next, withValue); want < int64(off) || !ok {
		return corrupt("restart %d is no beginning of an entry with its whole key", r.next)
	}
	r.next++
	return nil
}

// end is told when there are no more entries.
func (r *restarts) end() error {
	if n := len(r.block.restarts) / 4; r.next < n && len(r.entries) > 0 {
		return corrupt("restart %d of %d is no beginning of an entry", r.next, n)
	}
	return nil
}

// handles goes over a block of an index; false if it is damaged.
func (v *verifier) handles(h handle, b block, form indexForm, field string, visit func(*indexIter)) bool {
	x := indexIter{form: form}
	x.reset(b)
	r := restarts{block: b}
	var last []byte
	for n := 0; ; n++ {
		off := x.off
		ok, err := x.next()
		switch {
		case err == nil && !ok:
			err = r.end()
		case err == nil:
			err = r.at(off, !form.delta)
		}
		if err == nil && ok && n > 0 && x.position(x.key).compare(x.position(last)) <= 0 {
			err = corrupt("keys are not in order")
		}
		if err != nil {
			v.found(v.fail(h, field, err))
			return false
		}
		if !ok {
			return true
		}
		last = append(last[:0], x.key...)
		visit(&x)
	}
}

// position is where a key of the index stands among those of the data: none
// of the blocks before comes behind it.
func (x *indexIter) position(key []byte) ikey {
	if k, ok := splitKey(key); ok && !x.form.userKeys {
		return k
	}
	return ikey{user: key} // behind all versions
}

// index goes over the index and reads the data.
func (v *verifier) index() {
	v.data.table = v.table
	form := v.props.form()
	blocks := sequence{v: v, field: "data block"}
	var bound []byte // the index's key of the block before
	visit := func(x *indexIter) {
		v.dataBlock(&blocks, x, bound)
		bound = append(bound[:0], x.key...)
	}
	if v.props.indexType != indexTwoLevel {
		if !v.handles(v.footer.index, v.table.index, form, "index", visit) {
			v.whole = false
		}
		return
	}
	parts := sequence{v: v, field: "index partition"}
	partition := func(top *indexIter) bool {
		if !parts.claim(top.h) {
			return false
		}
		b, err := v.block(top.h, parts.field)
		if err != nil {
			v.found(err)
			return false
		}
		if !v.handles(top.h, b, form, parts.field, visit) {
			return false
		}
		if top.position(top.key).compare(top.position(bound)) < 0 {
			v.found(v.fail(top.h, parts.field, corrupt("keys behind the one of the index")))
		}
		return true
	}
	whole := v.handles(v.footer.index, v.table.index, form, "index", func(top *indexIter) {
		if !partition(top) {
			v.whole = false
		}
	})
	v.whole = v.whole && whole
}

// dataBlock reads the block to which x points; bound is the index's key of the one before.
func (v *verifier) dataBlock(s *sequence, x *indexIter, bound []byte) {
	if !s.claim(x.h) {
		v.whole = false
		return
	}
	err := v.data.loadBlock(x.h)
	if err == nil {
		if err = v.entries(x, bound); err != nil {
			err = v.fail(x.h, s.field, err)
		}
	}
	if err != nil {
		v.found(err)
		v.whole = false
		return
	}
	v.count.DataBlocks++
	v.end = s.end
}

// entries checks the entries of the block that was loaded.
func (v *verifier) entries(x *indexIter, bound []byte) error {
	d := &v.data.data
	r := restarts{block: d.block}
	for n := 0; ; n++ {
		off := d.off
		ok, err := d.next()
		if err != nil {
			return err
		}
		if !ok {
			if n == 0 {
				return corrupt("a block without entries")
			}
			break
		}
		if err := r.at(off, true); err != nil {
			return err
		}
		k, err := v.entry(d.key)
		if err != nil {
			return err
		}
		stored, _ := splitKey(d.key)
		switch {
		case v.count.Entries > 0 && stored.compare(v.last) <= 0:
			return corrupt("keys are not in order: %x", d.key)
		case n == 0 && bound != nil && stored.compare(x.position(bound)) <= 0:
			return corrupt("the first key is not behind the index's key of the block before: %x", d.key)
		case n == 0 && x.first != nil && !bytes.Equal(x.first, d.key):
			return corrupt("the first key is not the one of the index: %x", d.key)
		}
		if err := v.within(k); err != nil {
			return err
		}
		if err := v.tally(k, d.value); err != nil {
			return err
		}
		v.last.user, v.last.trailer = append(v.last.user[:0], stored.user...), stored.trailer
	}
	if x.position(x.key).compare(v.last) < 0 {
		return corrupt("the last key is behind the index's: %x", v.last.user)
	}
	return r.end()
}

// within compares an entry with what the MANIFEST says of the table.
func (v *verifier) within(k ikey) error {
	if s := k.sequence(); s < v.meta.SmallestSequence || s > v.meta.LargestSequence {
		return corrupt("sequence %d is not from %d to %d, as %s says", s, v.meta.SmallestSequence, v.meta.LargestSequence, v.db.manifest)
	}
	if k.compare(v.meta.smallest) < 0 || k.compare(v.meta.largest) > 0 {
		return corrupt("key %x is not within what %s says", k.user, v.db.manifest)
	}
	return nil
}

// tally counts an entry.
func (v *verifier) tally(k ikey, value []byte) error {
	switch kind := byte(k.trailer); kind {
	case typeValue:
	case typeDeletion, typeSingleDeletion:
		v.count.Deletions++
	case typeMerge:
		v.count.Merges++
	default:
		return unsupported("entry of type %#x", kind)
	}
	v.n.Entries++
	v.count.Entries++
	v.count.RawKeySize += uint64(len(k.user) + trailerSize)
	v.count.RawValueSize += uint64(len(value))
	return nil
}

// deletions checks the order and the sequences of range deletions, and counts them.
func (v *verifier) deletions(metaindex map[string]handle) {
	h, ok := metaindex[metaRangeDel]
	if !ok {
		return
	}
	b, err := v.block(h, metaRangeDel)
	if err != nil {
		return // loadTombstones told
	}
	var it blockIter
	it.reset(b)
	r := restarts{block: b}
	var last ikey
	for err == nil {
		off := it.off
		var more bool
		if more, err = it.next(); err != nil || !more {
			break
		}
		stored, _ := splitKey(it.key)
		k, _ := v.entry(it.key)
		if err = r.at(off, true); err == nil && v.count.RangeDeletions > 0 && stored.compare(last) < 0 {
			err = corrupt("keys are not in order: %x", it.key)
		}
		if s := k.sequence(); err == nil && (s < v.meta.SmallestSequence || s > v.meta.LargestSequence) {
			err = corrupt("sequence %d is not from %d to %d, as %s says", s, v.meta.SmallestSequence, v.meta.LargestSequence, v.db.manifest)
		}
		v.count.RangeDeletions++
		v.ranged.RawKeySize += uint64(len(it.key))
		v.ranged.RawValueSize += uint64(len(it.value))
		last = ikey{bytes.Clone(stored.user), stored.trailer}
	}
	if err == nil {
		err = r.end()
	}
	if err != nil {
		v.found(v.fail(h, metaRangeDel, err))
	}
}

// counts compares the properties with what is there. Range deletions are
// among entries, deletions and sizes, or not, by the release of RocksDB.
func (v *verifier) counts() {
	p, c := v.props, &v.count
	for _, n := range []struct {
		field      string
		said, have uint64
		more       uint64
	}{
		{"entries", p.Entries, c.Entries, c.RangeDeletions},
		{"deletions", p.Deletions, c.Deletions, c.RangeDeletions},
		{"merge operands", p.Merges, c.Merges, 0},
		{"range deletions", p.RangeDeletions, c.RangeDeletions, 0},
		{"data blocks", p.DataBlocks, c.DataBlocks, 0},
		{"data size", p.DataSize, v.end, 0},
		{"raw key size", p.RawKeySize, c.RawKeySize, v.ranged.RawKeySize},
		{"raw value size", p.RawValueSize, c.RawValueSize, v.ranged.RawValueSize},
	} {
		if n.said != n.have && n.said != n.have+n.more {
			v.found(&Error{File: v.file, Offset: -1, Inner: -1, Field: n.field, Err: corrupt("%d by the properties, but %d are there", n.said, n.have)})
		}
	}
}

// gaps checks that bytes between the blocks are padding, and that no block overlaps another.
func (v *verifier) gaps() {
	slices.SortFunc(v.extents, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	at := uint64(0)
	for _, e := range append(v.extents, extent{from: uint64(v.footer.start), to: uint64(v.footer.start)}) {
		if e.from < at {
			v.found(&Error{File: v.file, Offset: int64(e.from), Inner: -1, Field: "block", Err: corrupt("it begins before byte %d, where another ends", at)})
		}
		if e.from > at {
			v.zeros(at, e.from)
		}
		at = max(at, e.to)
	}
}

// zeros checks that bytes which belong to no block are zero.
func (v *verifier) zeros(from, to uint64) {
	buf := make([]byte, min(to-from, 32<<10))
	for ; from < to; from += uint64(len(buf)) {
		buf = buf[:min(to-from, uint64(len(buf)))]
		err := readAt(v.obj, buf, int64(from))
		if i := bytes.IndexFunc(buf, func(r rune) bool { return r != 0 }); err == nil && i >= 0 {
			from += uint64(i)
			err = corrupt("bytes that belong to no block and are not zero")
		}
		if err != nil {
			v.found(&Error{File: v.file, Offset: int64(from), Inner: -1, Field: "padding", Err: err})
			return
		}
	}
}
