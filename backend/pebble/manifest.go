package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/record"

	"github.com/drey-state/drey/serializer"
)

// The manifest of a database of Pebble, see FORMAT.md: which tables it has in which levels. Checkpoints read the one that
// Pebble wrote and write one of the same content, restores write one for a database that is put together of others' tables.

// numLevels is how many levels a database has.
const numLevels = 7

// Tags of what a version edit says. All others are refused.
const (
	tagComparer       = 1
	tagLogNumber      = 2
	tagNextFile       = 3
	tagLastSequence   = 4
	tagDeletedTable   = 6
	tagPrevLogNumber  = 9
	tagNewTable2      = 100 // without custom fields
	tagNewTable4      = 103
	tagCreatedBacking = 105
	tagRemovedBacking = 106

	customEnd             = 1
	customNeedsCompaction = 2
	customCreationTime    = 6
	customVirtual         = 66
)

// version is the tables of a database.
type version struct {
	comparer string
	nextFile uint64
	// lastSequence is the last sequence number that was given to an entry.
	lastSequence uint64
	levels       [numLevels][]tableMeta
	// backings are the sizes in bytes of files that virtual tables are parts of, by number.
	backings map[uint64]uint64
}

// tableMeta is a table in a level: a file, or a part of one if it is virtual.
type tableMeta struct {
	number uint64
	size   uint64 // in bytes; of a virtual table as estimated
	// smallest and largest are internal keys: they end with 8 bytes of sequence number and kind. largest of a table that
	// ends with a deletion of a range is its end, which the table doesn't have.
	smallest, largest []byte
	// seqs are the smallest and largest sequence number. If they are equal, all entries have it, whatever the file says.
	seqs [2]uint64
	// created is the time when the table was written, in seconds since 1970; 0 if it is not known.
	created uint64
	marked  bool // for compaction
	virtual bool
	backing uint64 // number of the file, if virtual
}

// file is the number of the file that a table is in.
func (t *tableMeta) file() uint64 {
	if t.virtual {
		return t.backing
	}
	return t.number
}

// userKey gives an internal key without what it ends with.
func userKey(internal []byte) []byte { return internal[:len(internal)-trailerLen] }

const trailerLen = 8

// maxSequence is the highest sequence number of an entry (base.SeqNumMax of Pebble).
const maxSequence = 1<<56 - 2

// rangeEnd is what the largest internal key of a table ends with if it is the end of a deletion of a range (InternalKeyRangeDeleteSentinel).
var rangeEnd = []byte{15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// readVersion reads a manifest; an error unwraps to serializer.ErrCorrupt or ErrUnsupported.
func readVersion(r io.Reader) (*version, error) {
	v := &version{backings: map[uint64]uint64{}}
	records := record.NewReader(r, 0)
	for n := 0; ; n++ {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var edit []byte
		if err == nil {
			edit, err = io.ReadAll(rec)
		}
		if err != nil {
			return nil, fmt.Errorf("edit %d: %w: %w", n, serializer.ErrCorrupt, err)
		}
		if err := v.apply(edit); err != nil {
			return nil, fmt.Errorf("edit %d: %w", n, err)
		}
	}
	return v, v.check()
}

// editReader reads a version edit. After a failure it gives zero values.
type editReader struct {
	rest []byte
	err  error
}

func (e *editReader) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *editReader) uvarint() uint64 {
	n, size := binary.Uvarint(e.rest)
	if size <= 0 {
		e.fail("%w: a number that does not end", serializer.ErrCorrupt)
		e.rest = nil
		return 0
	}
	e.rest = e.rest[size:]
	return n
}

func (e *editReader) bytes() []byte {
	n := e.uvarint()
	if n > uint64(len(e.rest)) {
		e.fail("%w: %d bytes, where there are %d", serializer.ErrCorrupt, n, len(e.rest))
		e.rest = nil
		return nil
	}
	b := e.rest[:n:n]
	e.rest = e.rest[n:]
	return b
}

func (e *editReader) level() int {
	n := e.uvarint()
	if n >= numLevels {
		e.fail("%w: level %d", serializer.ErrCorrupt, n)
		return 0
	}
	return int(n)
}

func (e *editReader) internalKey() []byte {
	k := e.bytes()
	if len(k) < trailerLen {
		e.fail("%w: a key of %d bytes", serializer.ErrCorrupt, len(k))
		return make([]byte, trailerLen)
	}
	return k
}

// apply applies a version edit, of which v keeps parts.
func (v *version) apply(edit []byte) error {
	e := &editReader{rest: edit}
	type added struct {
		level int
		meta  tableMeta
	}
	var news []added
	var removed []uint64
	for len(e.rest) > 0 && e.err == nil {
		switch tag := e.uvarint(); tag {
		case tagComparer:
			v.comparer = string(e.bytes())
		case tagLogNumber, tagPrevLogNumber: // there are no logs
			e.uvarint()
		case tagNextFile:
			v.nextFile = e.uvarint()
		case tagLastSequence:
			v.lastSequence = e.uvarint()
		case tagCreatedBacking:
			n := e.uvarint()
			v.backings[n] = e.uvarint()
		case tagRemovedBacking:
			removed = append(removed, e.uvarint())
		case tagDeletedTable:
			level, n := e.level(), e.uvarint()
			at := slices.IndexFunc(v.levels[level], func(t tableMeta) bool { return t.number == n })
			if at < 0 {
				e.fail("%w: table %d, which goes, is not in level %d", serializer.ErrCorrupt, n, level)
				break
			}
			v.levels[level] = slices.Delete(v.levels[level], at, at+1)
		case tagNewTable2, tagNewTable4:
			level := e.level()
			t := tableMeta{number: e.uvarint(), size: e.uvarint(), smallest: e.internalKey(), largest: e.internalKey()}
			t.seqs = [2]uint64{e.uvarint(), e.uvarint()}
			if tag == tagNewTable4 {
				e.custom(&t)
			}
			news = append(news, added{level, t})
		default:
			e.fail("%w: tag %d", serializer.ErrUnsupported, tag)
		}
	}
	if e.err != nil {
		return e.err
	}
	// A table that moves to another level is in both lists.
	for _, n := range news {
		v.levels[n.level] = append(v.levels[n.level], n.meta)
	}
	for _, n := range removed {
		delete(v.backings, n)
	}
	return nil
}

func (e *editReader) custom(t *tableMeta) {
	for e.err == nil {
		switch tag := e.uvarint(); tag {
		case customEnd:
			return
		case customNeedsCompaction:
			b := e.bytes()
			t.marked = len(b) == 1 && b[0] == 1
		case customCreationTime:
			b := e.bytes()
			n, size := binary.Uvarint(b)
			if size != len(b) {
				e.fail("%w: a time of %d bytes", serializer.ErrCorrupt, len(b))
			}
			t.created = n
		case customVirtual:
			t.virtual, t.backing = true, e.uvarint()
		default:
			e.fail("%w: custom tag %d of table %d", serializer.ErrUnsupported, tag, t.number)
		}
	}
}

// check puts the tables of each level in order, and says what is wrong with them: what Pebble takes for granted.
func (v *version) check() error {
	if v.lastSequence > maxSequence {
		return fmt.Errorf("sequence number %d: %w", v.lastSequence, serializer.ErrCorrupt)
	}
	numbers := map[uint64]bool{}
	for level := range v.levels {
		tables := v.levels[level]
		for _, t := range tables {
			switch {
			case numbers[t.number]:
				return fmt.Errorf("table %d is there twice: %w", t.number, serializer.ErrCorrupt)
			case max(t.number, t.file()) >= v.nextFile:
				return fmt.Errorf("table %d: the next number is %d: %w", t.number, v.nextFile, serializer.ErrCorrupt)
			case bytes.Compare(userKey(t.smallest), userKey(t.largest)) > 0:
				return fmt.Errorf("table %d ends before it begins: %w", t.number, serializer.ErrCorrupt)
			case t.seqs[0] > t.seqs[1] || t.seqs[1] > v.lastSequence:
				return fmt.Errorf("table %d: sequence numbers %d to %d of %d: %w", t.number, t.seqs[0], t.seqs[1], v.lastSequence, serializer.ErrCorrupt)
			}
			if _, ok := v.backings[t.backing]; t.virtual && !ok {
				return fmt.Errorf("table %d: its file %d is not there: %w", t.number, t.backing, serializer.ErrCorrupt)
			}
			numbers[t.number] = true
		}
		if level == 0 {
			continue
		}
		slices.SortFunc(tables, func(a, b tableMeta) int { return bytes.Compare(userKey(a.smallest), userKey(b.smallest)) })
		for i := 1; i < len(tables); i++ {
			if before, t := &tables[i-1], &tables[i]; !before.endsBefore(userKey(t.smallest)) {
				return fmt.Errorf("tables %d and %d of level %d overlap: %w", before.number, t.number, level, serializer.ErrCorrupt)
			}
		}
	}
	for _, tables := range v.levels {
		for i := range tables {
			if t := &tables[i]; t.virtual && numbers[t.backing] {
				return fmt.Errorf("table %d: its file is another table's, too: %w", t.number, serializer.ErrCorrupt)
			}
		}
	}
	return nil
}

// endsBefore says whether all keys of a table are before one.
func (t *tableMeta) endsBefore(key []byte) bool {
	c := bytes.Compare(userKey(t.largest), key)
	return c < 0 || c == 0 && bytes.HasSuffix(t.largest, rangeEnd)
}

// files are the sizes of the files that the tables are in, by number.
func (v *version) files() map[uint64]uint64 {
	files := map[uint64]uint64{}
	for _, tables := range v.levels {
		for i := range tables {
			if t := &tables[i]; t.virtual {
				files[t.backing] = v.backings[t.backing]
			} else {
				files[t.number] = t.size
			}
		}
	}
	return files
}

// write writes a manifest of two edits, the tables being in the second.
func (v *version) write(out io.Writer) error {
	w := record.NewWriter(out)
	var first, second []byte
	first = appendBytes(binary.AppendUvarint(first, tagComparer), []byte(v.comparer))
	for _, f := range [][2]uint64{{tagNextFile, v.nextFile}, {tagLastSequence, v.lastSequence}} {
		first = binary.AppendUvarint(binary.AppendUvarint(first, f[0]), f[1])
	}
	var backings []uint64
	for level, tables := range v.levels {
		for i := range tables {
			t := &tables[i]
			if t.virtual {
				backings = append(backings, t.backing)
			}
			second = t.append(second, level)
		}
	}
	slices.Sort(backings)
	var created []byte
	for _, n := range slices.Compact(backings) {
		created = binary.AppendUvarint(binary.AppendUvarint(created, tagCreatedBacking), n)
		created = binary.AppendUvarint(created, v.backings[n])
	}
	for _, edit := range [][]byte{first, append(created, second...)} {
		if _, err := w.WriteRecord(edit); err != nil {
			return err
		}
	}
	return w.Close()
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func (t *tableMeta) append(dst []byte, level int) []byte {
	custom := t.created != 0 || t.marked || t.virtual
	tag := uint64(tagNewTable2)
	if custom {
		tag = tagNewTable4
	}
	for _, n := range []uint64{tag, uint64(level), t.number, t.size} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = appendBytes(appendBytes(dst, t.smallest), t.largest)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, t.seqs[0]), t.seqs[1])
	if !custom {
		return dst
	}
	if t.created != 0 {
		dst = appendBytes(binary.AppendUvarint(dst, customCreationTime), binary.AppendUvarint(nil, t.created))
	}
	if t.marked {
		dst = appendBytes(binary.AppendUvarint(dst, customNeedsCompaction), []byte{1})
	}
	if t.virtual {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, customVirtual), t.backing)
	}
	return binary.AppendUvarint(dst, customEnd)
}

// within says whether a table may have keys from lower on and before upper.
func (t *tableMeta) within(lower, upper []byte) bool {
	return bytes.Compare(userKey(t.largest), lower) >= 0 && bytes.Compare(userKey(t.smallest), upper) < 0
}

// inside checks that all keys are from lower on and before upper.
func (v *version) inside(lower, upper []byte) error {
	for _, tables := range v.levels {
		for i := range tables {
			if t := &tables[i]; bytes.Compare(userKey(t.smallest), lower) < 0 || !t.endsBefore(upper) {
				return fmt.Errorf("table %d has keys of other key groups: %w", t.number, serializer.ErrCorrupt)
			}
		}
	}
	return nil
}

// clip gives a version without the tables that have no keys from lower on and before upper.
func (v *version) clip(lower, upper []byte) *version {
	c := *v
	for level, tables := range v.levels {
		c.levels[level] = nil
		for _, t := range tables {
			if t.within(lower, upper) {
				c.levels[level] = append(c.levels[level], t)
			}
		}
	}
	return &c
}

// merge takes in the tables of another version, whose keys are none of those that v has, with new numbers of
// files and tables. It gives the new number of each file of the other one.
func (v *version) merge(other *version) map[uint64]uint64 {
	files := map[uint64]uint64{}
	for level, tables := range other.levels {
		for _, t := range tables {
			old := t.file()
			n, ok := files[old]
			if !ok {
				n = v.nextFile
				v.nextFile++
				files[old] = n
			}
			if t.number = n; t.virtual {
				v.backings[n] = other.backings[old]
				t.backing, t.number = n, v.nextFile
				v.nextFile++
			}
			v.levels[level] = append(v.levels[level], t)
		}
	}
	v.lastSequence = max(v.lastSequence, other.lastSequence)
	return files
}
