package rocksdb

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/drey-state/drey/storage"
)

// Bytewise is the only comparator that is read: keys in order of their bytes.
const Bytewise = "leveldb.BytewiseComparator"

// Files are the files of a checkpoint by their names in RocksDB's directory
// (CURRENT, 000012.sst), which are not those that they may have where they
// are stored. What RocksDB's MANIFEST does not name is ignored, so it does no
// harm to give more files than needed. The functions may be called
// concurrently and again; reads of an object end with the context given.
type Files map[string]func(ctx context.Context) (storage.Object, error)

// Directory gives the files that lie directly in a directory, under their own names.
func Directory(ctx context.Context, store storage.FS, dir string) (Files, error) {
	files := Files{}
	for info, err := range store.ReadDir(ctx, dir) {
		if err != nil {
			return nil, err
		}
		if info.Dir {
			continue
		}
		uri := info.URI
		files[storage.Base(uri)] = func(ctx context.Context) (storage.Object, error) { return store.Open(ctx, uri) }
	}
	return files, nil
}

// open opens a file by name.
func (f Files) open(ctx context.Context, name string) (storage.Object, error) {
	open, ok := f[name]
	if !ok {
		return nil, &Error{File: name, Offset: -1, Inner: -1, Field: "open", Err: fs.ErrNotExist}
	}
	obj, err := open(ctx)
	if err != nil {
		return nil, &Error{File: name, Offset: -1, Inner: -1, Field: "open", Err: err}
	}
	return obj, nil
}

// Options are the options of Open; the zero value is the default.
type Options struct {
	// Merge makes one value of merge operands. Without it a row that has
	// operands is an error that unwraps to [ErrNoMerge].
	Merge MergeFunc
	// ReadAhead is the most that is read at once of a table that is scanned,
	// in bytes; 0 means 512 KiB. Each table that a scan is in the midst of
	// holds so much.
	ReadAhead int
}

// DB is a checkpoint as its MANIFEST describes it. It holds no open file, does
// not change and may be used concurrently.
type DB struct {
	open         Files
	merge        MergeFunc
	ahead        int
	manifest     string
	lastSequence uint64
	families     []*Family
}

// Open reads CURRENT and the MANIFEST. No table is opened, but all that are
// live must be in files.
func Open(ctx context.Context, files Files, o Options) (*DB, error) {
	name, v, err := readVersion(ctx, files)
	if err != nil {
		return nil, err
	}
	db := &DB{open: files, merge: o.Merge, ahead: o.ReadAhead, manifest: name, lastSequence: v.lastSequence}
	if db.ahead <= 0 {
		db.ahead = 512 << 10
	}
	if err := v.build(db); err != nil {
		return nil, err
	}
	if err := v.refuseLogs(ctx, files); err != nil {
		return nil, err
	}
	return db, nil
}

// refuseLogs refuses write-ahead logs whose rows are not all in tables.
func (v *version) refuseLogs(ctx context.Context, files Files) error {
	needed := uint64(1<<64 - 1)
	for _, f := range v.families {
		needed = min(needed, f.logNumber)
	}
	for name := range files {
		digits, ok := strings.CutSuffix(name, ".log")
		n, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil || n < needed {
			continue
		}
		obj, err := files.open(ctx, name)
		if err != nil {
			return err
		}
		size := obj.Size()
		obj.Close()
		if size > 0 {
			return &Error{File: name, Offset: -1, Inner: -1, Err: unsupported("a write-ahead log that is not empty; its rows would be missed")}
		}
	}
	return nil
}

// Manifest is the name of the MANIFEST that was read.
func (db *DB) Manifest() string { return db.manifest }

// LastSequence is the sequence number of the newest write.
func (db *DB) LastSequence() uint64 { return db.lastSequence }

// Families gives the column families in order of their ids; the first is
// "default" and in a checkpoint by Flink empty.
func (db *DB) Families() []*Family { return slices.Clone(db.families) }

// Family finds a column family by name.
func (db *DB) Family(name string) (*Family, bool) {
	for _, f := range db.families {
		if f.name == name {
			return f, true
		}
	}
	return nil, false
}

// Family is a column family: a set of rows, ordered by key.
type Family struct {
	db         *DB
	id         uint32
	name       string
	comparator string
	files      []*File // by level, and there by smallest key
}

// ID is the number by which the files know the family.
func (f *Family) ID() uint32 { return f.id }

// Name is the family's name; Flink's are names of states.
func (f *Family) Name() string { return f.name }

// Comparator is the name of the order of keys. A family with another than
// [Bytewise] cannot be read.
func (f *Family) Comparator() string { return f.comparator }

// Files yields the live tables by level.
func (f *Family) Files() iter.Seq[*File] { return slices.Values(f.files) }

// File is a table as the MANIFEST describes it.
type File struct {
	// Level is 0 for tables that overlap each other.
	Level  int
	Number uint64
	// Size in bytes.
	Size int64
	// SmallestSequence and LargestSequence are those of its entries.
	SmallestSequence, LargestSequence uint64

	family            string
	smallest, largest ikey
}

// Name is the file's name in RocksDB's directory.
func (f *File) Name() string { return fmt.Sprintf("%06d.sst", f.Number) }

// Smallest is the lowest user key, be it of a row or of a range deletion.
func (f *File) Smallest() []byte { return slices.Clone(f.smallest.user) }

// Largest is the highest user key, or the end of a range deletion.
func (f *File) Largest() []byte { return slices.Clone(f.largest.user) }
