package rocksdb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/storage"
)

// What is written: the oldest footer with a checksum type, as all releases
// read it, and index keys with their trailers.
const (
	writtenFormat   = 2
	writtenSequence = 1
	dataInterval    = 16
)

// tableWriter writes one table: data blocks as they fill up, the rest at its
// end. It holds a data block and the index.
type tableWriter struct {
	ctx  context.Context
	o    *WriterOptions
	meta File // without a family

	out  storage.Writer
	buf  *bufio.Writer
	off  uint64
	data blockWriter
	// index has the last key of each data block.
	index  blockWriter
	packed []byte // memory of a compressed block
	count  Properties
}

func newTableWriter(ctx context.Context, out storage.Writer, number uint64, o *WriterOptions) *tableWriter {
	return &tableWriter{
		ctx: ctx, o: o, out: out, buf: bufio.NewWriterSize(out, 64<<10),
		meta:  File{Level: writtenLevel, Number: number, SmallestSequence: writtenSequence, LargestSequence: writtenSequence},
		data:  blockWriter{interval: dataInterval},
		index: blockWriter{interval: 1},
	}
}

// add appends an entry; keys have trailers, prev is that of the entry before.
func (t *tableWriter) add(prev, key, value []byte) error {
	if t.count.Entries == 0 {
		t.meta.smallest, _ = splitKey(bytes.Clone(key))
	}
	t.count.Entries++
	t.count.RawKeySize += uint64(len(key))
	t.count.RawValueSize += uint64(len(value))
	t.data.add(prev, key, value)
	if t.data.size() < t.o.BlockSize {
		return nil
	}
	return t.flush(key)
}

// full says that the next entry belongs to another table.
func (t *tableWriter) full() bool { return int64(t.off)+int64(t.index.size()) >= t.o.TableSize }

// flush writes the data block, the last key of which is last.
func (t *tableWriter) flush(last []byte) error {
	if t.data.n == 0 {
		return nil
	}
	if err := t.ctx.Err(); err != nil {
		return err
	}
	h, err := t.block(t.data.finish(), t.o.Compression == Snappy)
	if err != nil {
		return err
	}
	t.data.reset()
	t.count.DataBlocks++
	t.count.DataSize = t.off
	t.index.add(nil, last, h.append(nil))
	return nil
}

// block writes a block with its trailer.
func (t *tableWriter) block(content []byte, compress bool) (handle, error) {
	kind := byte(compressNone)
	if compress {
		if n := snappy.MaxEncodedLen(len(content)); cap(t.packed) < n {
			t.packed = make([]byte, n)
		}
		packed := snappy.Encode(t.packed[:cap(t.packed)], content)
		// As RocksDB does: to decompress must be worth it.
		if len(packed) < len(content)-len(content)/8 {
			content, kind = packed, compressSnappy
		}
	}
	trailer := [blockTrailer]byte{kind}
	sum := crc32.Update(crc32.Checksum(content, castagnoli), castagnoli, trailer[:1])
	binary.LittleEndian.PutUint32(trailer[1:], mask(sum))
	h := handle{t.off, uint64(len(content))}
	if _, err := t.buf.Write(content); err != nil {
		return h, err
	}
	_, err := t.buf.Write(trailer[:])
	t.off += h.size + blockTrailer
	return h, err
}

// finish writes what follows the data and commits the table; last is the last key.
func (t *tableWriter) finish(last []byte, family *FamilyWriter) error {
	if err := t.flush(last); err != nil {
		return err
	}
	t.meta.largest, _ = splitKey(bytes.Clone(last))
	content := t.index.finish()
	properties, err := t.block(t.properties(family, len(content)), false)
	if err != nil {
		return err
	}
	index, err := t.block(content, t.o.Compression == Snappy)
	if err != nil {
		return err
	}
	b := blockWriter{interval: 1}
	b.add(nil, []byte(metaProperties), properties.append(nil))
	metaindex, err := t.block(b.finish(), false)
	if err != nil {
		return err
	}
	footer := make([]byte, footerSize)
	footer[0] = checksumCRC32C
	index.append(metaindex.append(footer[:1]))
	binary.LittleEndian.PutUint32(footer[41:], writtenFormat)
	binary.LittleEndian.PutUint64(footer[45:], magicBlockBased)
	if _, err := t.buf.Write(footer); err != nil {
		return err
	}
	t.meta.Size = int64(t.off) + footerSize
	if err := t.buf.Flush(); err != nil {
		return err
	}
	if err := t.out.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// properties makes the block of that name. Its entries must be in order.
func (t *tableWriter) properties(family *FamilyWriter, indexSize int) []byte {
	number := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	compression, operator := "Snappy", t.o.MergeOperator
	if t.o.Compression == Uncompressed {
		compression = "NoCompression"
	}
	if operator == "" {
		operator = "nullptr" // as RocksDB calls it
	}
	b := blockWriter{interval: 1}
	for _, p := range []struct {
		name  string
		value []byte
	}{
		{"rocksdb.block.based.table.index.type", binary.LittleEndian.AppendUint32(nil, indexBinarySearch)},
		{"rocksdb.block.based.table.prefix.filtering", []byte("0")},
		{"rocksdb.block.based.table.whole.key.filtering", []byte("1")},
		{"rocksdb.column.family.id", number(uint64(family.id))},
		{"rocksdb.column.family.name", []byte(family.name)},
		{"rocksdb.comparator", []byte(Bytewise)},
		{"rocksdb.compression", []byte(compression)},
		{"rocksdb.data.size", number(t.count.DataSize)},
		{"rocksdb.deleted.keys", number(0)},
		{"rocksdb.filter.size", number(0)},
		{"rocksdb.index.key.is.user.key", number(0)},
		{"rocksdb.index.size", number(uint64(indexSize + blockTrailer))},
		{"rocksdb.index.value.is.delta.encoded", number(0)},
		{"rocksdb.merge.operands", number(0)},
		{"rocksdb.merge.operator", []byte(operator)},
		{"rocksdb.num.data.blocks", number(t.count.DataBlocks)},
		{"rocksdb.num.entries", number(t.count.Entries)},
		{"rocksdb.num.range-deletions", number(0)},
		{"rocksdb.raw.key.size", number(t.count.RawKeySize)},
		{"rocksdb.raw.value.size", number(t.count.RawValueSize)},
	} {
		b.add(nil, []byte(p.name), p.value)
	}
	return b.finish()
}
