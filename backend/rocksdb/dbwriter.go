package rocksdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/drey-state/drey/storage"
)

var (
	// ErrOrder says that a key is not above the one that was added before it.
	ErrOrder = errors.New("keys are not in ascending order")
	// ErrTooLarge says that a key and its value have more than MaxEntry bytes.
	ErrTooLarge = errors.New("key and value are too large")
)

// MaxEntry is the most bytes that a key and its value may have together; an
// array of Java could not hold more of either.
const MaxEntry = math.MaxInt32 - trailerSize

// Compression says how the blocks of tables are written.
type Compression byte

// Compressions that are written; all that RocksDB has are read.
const (
	// Snappy is what Flink's RocksDB writes by default. A block that it
	// makes smaller by less than an eighth is written as it is.
	Snappy Compression = iota
	// Uncompressed writes blocks as they are.
	Uncompressed
)

const (
	defaultBlockSize = 4 << 10
	defaultTableSize = 64 << 20
	maxSize          = 1 << 30 // of either: with MaxEntry more, offsets still have 32 bits

	writtenManifest = 5 // number of the MANIFEST
	writtenLevel    = 6 // RocksDB's last one, where tables don't overlap
)

// WriterOptions are the options of Create; the zero value is the default.
type WriterOptions struct {
	// BlockSize is from which size on a data block ends, in bytes before
	// compression; 0 means 4 KiB, at most 1 GiB.
	BlockSize int
	// TableSize is from which size on a table ends, in bytes, of data in the
	// file and index together; 0 means 64 MiB, at most 1 GiB.
	TableSize int64
	// Compression of data blocks and the index.
	Compression Compression
	// MergeOperator is the name that tables give as their merge operator; ""
	// means none. RocksDB does not compare it with that of those who open
	// them. Flink's tables say "StringAppendTESTOperator".
	MergeOperator string
}

// CreateFunc begins a file by its name in RocksDB's directory (CURRENT,
// 000012.sst), whatever name it may have where it is stored.
type CreateFunc func(ctx context.Context, name string) (storage.Writer, error)

// Written is a file that was written.
type Written struct {
	// Name is the file's name in RocksDB's directory.
	Name string
	// Size in bytes.
	Size int64
	// Table says that it is a table, which never changes, and which later
	// checkpoints of a database may name too. CURRENT and the MANIFEST are not.
	Table bool
}

// Writer writes a database as a checkpoint has it: tables, a MANIFEST and
// CURRENT. RocksDB from 5.17 on opens them. Rows come by column family, each
// family's in order of the keys; several families may be written by turns.
//
// After an error all methods of it and of its families return that one, and
// Abort is all that is left to do. A Writer, with its families, is for one
// goroutine. It holds for each family with an unfinished table a data block
// and the index (which a table's size bounds), and the smallest and largest
// key of each table.
type Writer struct {
	ctx      context.Context
	create   CreateFunc
	o        WriterOptions
	families []*FamilyWriter
	names    map[string]bool
	next     uint64 // file number
	written  []Written
	err      error
}

// Create begins a database; nothing is created before there is a row. All
// that is written ends with ctx. An error says that an option is out of its bounds.
func Create(ctx context.Context, create CreateFunc, o WriterOptions) (*Writer, error) {
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	if o.TableSize == 0 {
		o.TableSize = defaultTableSize
	}
	if o.BlockSize < 0 || o.BlockSize > maxSize || o.TableSize < 0 || o.TableSize > maxSize {
		return nil, fmt.Errorf("blocks of %d and tables of %d bytes: both must be from 1 to %d", o.BlockSize, o.TableSize, maxSize)
	}
	if o.Compression > Uncompressed {
		return nil, unsupported("compression %d", o.Compression)
	}
	w := &Writer{ctx: ctx, create: create, o: o, names: map[string]bool{}, next: writtenManifest + 1}
	w.families = []*FamilyWriter{{w: w, name: "default"}}
	return w, nil
}

// Family adds a column family, which may stay without rows. The one called
// "default" is there in any case, and may be asked for once like any other. A name that was
// there before is an error that unwraps to [io/fs.ErrExist].
func (w *Writer) Family(name string) (*FamilyWriter, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.names[name] {
		w.err = fmt.Errorf("column family %q: %w", name, fs.ErrExist)
		return nil, w.err
	}
	w.names[name] = true
	if name == w.families[0].name {
		return w.families[0], nil
	}
	f := &FamilyWriter{w: w, id: uint32(len(w.families)), name: name}
	w.families = append(w.families, f)
	return f, nil
}

// FamilyWriter takes the rows of a column family.
type FamilyWriter struct {
	w     *Writer
	id    uint32
	name  string
	table *tableWriter // nil between tables
	files []File
	key   []byte // with the trailer
	last  []byte // the key before; empty if there is none
}

// Add adds a row. Its key must be above that of the row before, as bytes, else the
// error unwraps to [ErrOrder]. Nothing of key and value is kept.
func (f *FamilyWriter) Add(key, value []byte) error {
	w := f.w
	if w.err != nil {
		return w.err
	}
	if len(key) > MaxEntry || len(value) > MaxEntry-len(key) {
		return f.fail(fmt.Errorf("%w: %d and %d bytes", ErrTooLarge, len(key), len(value)))
	}
	if n := len(f.last) - trailerSize; n >= 0 && bytes.Compare(key, f.last[:n]) <= 0 {
		return f.fail(fmt.Errorf("%w: %.64x after %.64x", ErrOrder, key, f.last[:n]))
	}
	if f.table == nil {
		if err := f.begin(); err != nil {
			return f.fail(err)
		}
	}
	f.key = binary.LittleEndian.AppendUint64(append(f.key[:0], key...), writtenSequence<<8|typeValue)
	err := f.table.add(f.last, f.key, value)
	f.key, f.last = f.last, f.key
	if err == nil && f.table.full() {
		return f.Finish()
	}
	if err != nil {
		return f.fail(f.table.fail(err))
	}
	return nil
}

// begin begins a table.
func (f *FamilyWriter) begin() error {
	w := f.w
	file := File{Number: w.next}
	out, err := w.begin(file.Name())
	if err != nil {
		return err
	}
	w.next++
	f.table = newTableWriter(w.ctx, out, file.Number, &w.o)
	return nil
}

// Finish completes the table in the midst of which the family is, and frees its
// memory. It is of use between families that are written one after the
// other; rows may be added after it. [Writer.Finish] does it for all.
func (f *FamilyWriter) Finish() error {
	if f.w.err != nil || f.table == nil {
		return f.w.err
	}
	t := f.table
	if err := t.finish(f.last, f); err != nil {
		return f.fail(t.fail(err))
	}
	f.table = nil
	f.files = append(f.files, t.meta)
	f.w.written = append(f.w.written, Written{Name: t.meta.Name(), Size: t.meta.Size, Table: true})
	return nil
}

func (t *tableWriter) fail(err error) error { return fmt.Errorf("%s: %w", t.meta.Name(), err) }

// fail makes an error the Writer's.
func (f *FamilyWriter) fail(err error) error {
	f.w.err = fmt.Errorf("column family %q: %w", f.name, err)
	return f.w.err
}

// begin creates a file.
func (w *Writer) begin(name string) (storage.Writer, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := w.create(w.ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// Finish completes all tables, writes the MANIFEST and at last CURRENT, and
// gives all files in order of their writing. After it the Writer takes no more.
func (w *Writer) Finish() ([]Written, error) {
	for _, f := range w.families {
		if err := f.Finish(); err != nil {
			return nil, err
		}
	}
	manifest := fmt.Sprintf("MANIFEST-%06d", writtenManifest)
	for _, file := range []struct {
		name    string
		content func(*logWriter) error
	}{
		{manifest, w.manifest},
		{"CURRENT", func(l *logWriter) error { return l.write([]byte(manifest + "\n")) }},
	} {
		if w.err == nil {
			w.err = w.file(file.name, file.content)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	w.err = fs.ErrClosed
	return w.written, nil
}

// file writes a file that is no table.
func (w *Writer) file(name string, content func(*logWriter) error) error {
	out, err := w.begin(name)
	if err != nil {
		return err
	}
	defer out.Abort()
	l := &logWriter{w: out}
	if err := content(l); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("%s: commit: %w", name, err)
	}
	w.written = append(w.written, Written{Name: name, Size: l.off})
	return nil
}

// manifest writes the edits of the MANIFEST.
func (w *Writer) manifest(l *logWriter) error {
	err := l.add(firstEdit(w.next))
	for _, f := range w.families[1:] {
		if err == nil {
			err = l.add(familyEdit(f.id, f.name))
		}
	}
	if err == nil {
		err = l.add(maxFamilyEdit(uint32(len(w.families) - 1)))
	}
	for _, f := range w.families {
		for i := range f.files {
			if err == nil {
				err = l.add(fileEdit(f.id, &f.files[i]))
			}
		}
	}
	return err
}

// Abort forgets what is not complete. Files that were complete already are
// without CURRENT no database; they are the caller's, who created them, to
// remove. After Finish without an error it does nothing.
func (w *Writer) Abort() {
	if w.err == nil {
		w.err = fs.ErrClosed
	}
	for _, f := range w.families {
		if f.table != nil {
			f.table.out.Abort()
			f.table = nil
		}
	}
}
