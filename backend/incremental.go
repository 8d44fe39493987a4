package backend

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// rocksFiles is keyed state in the files of RocksDB or of ForSt, which has its
// formats: a column family for each state, with keys and values as canonical
// files have them.
type rocksFiles struct {
	db       *rocksdb.DB
	name     string
	prefix   int
	states   []*State
	families []*rocksdb.Family // of each state, nil if it has none
}

// PebbleFile is the local name of a file that is among the private ones of a handle if its files are those of a Pebble database.
const PebbleFile = "DREY"

// ErrPebble is given for the files of a Pebble database, which only the backend of package pebble restores.
var ErrPebble = errors.New("the files are those of a Pebble database, not of RocksDB: only drey's backend on Pebble restores them; " +
	"a canonical savepoint is what all others read")

// IsPebble says whether a handle is of an incremental checkpoint of package pebble.
func IsPebble(h *metadata.Incremental) bool {
	return slices.ContainsFunc(h.Private, func(f metadata.LocalFile) bool { return f.LocalName.String() == PebbleFile })
}

// ReadMeta reads the header that the files of a handle belong to.
func ReadMeta(ctx context.Context, files Files, h *metadata.Incremental) (*KeyedHeader, error) {
	r := &KeyedReader{}
	if _, err := readMeta(ctx, files, h.Meta, Options{}, r); err != nil {
		return nil, err
	}
	return r.header, r.headerErr
}

func openIncremental(ctx context.Context, files Files, h *metadata.Incremental, o Options) (*KeyedReader, error) {
	r := &KeyedReader{format: "rocksdb", keyGroups: h.KeyGroups.Range()}
	if h.KeyGroups.Start < 0 || r.keyGroups.End >= o.MaxParallelism {
		return nil, fmt.Errorf("key groups %s of %d: %w", r.keyGroups, o.MaxParallelism, serializer.ErrCorrupt)
	}
	if IsPebble(h) {
		return nil, ErrPebble
	}
	name, err := readMeta(ctx, files, h.Meta, o, r)
	if err != nil {
		return nil, err
	}
	stored := rocksdb.Files{}
	for _, list := range [][]metadata.LocalFile{h.Shared, h.Private} {
		for _, f := range list {
			stored[f.LocalName.String()] = opener(files, f.Stream, o.Progress)
		}
	}
	db, err := rocksdb.Open(ctx, stored, rocksdb.Options{Merge: rocksdb.StringAppend(","), ReadAhead: o.ReadAhead})
	if err != nil {
		return nil, fmt.Errorf("database of %s: %w", name, err)
	}
	f := &rocksFiles{db: db, name: name, prefix: prefixLen(o.MaxParallelism)}
	described := map[string]bool{"default": true}
	for _, s := range r.states {
		family, _ := db.Family(s.Meta.Name)
		f.families = append(f.families, family)
		described[s.Meta.Name] = true
	}
	for _, family := range db.Families() {
		if !described[family.Name()] {
			r.states = append(r.states, unknownState(family.Name(), r.header.Key))
			f.families = append(f.families, family)
		}
	}
	f.states = r.states
	r.layout = f
	return r, nil
}

// readMeta reads the meta file, which is a header and nothing else.
func readMeta(ctx context.Context, files Files, s metadata.Stream, o Options, r *KeyedReader) (name string, err error) {
	obj, err := files.open(ctx, s)
	if err != nil {
		return "", err
	}
	defer obj.Close()
	src := newSource(ctx, obj, &o)
	var h *KeyedHeader
	in := readHeader(src, obj.Size(), func(hr *headerReader) { h, _ = hr.keyed() })
	if in.Err() == nil && in.Offset() != obj.Size() {
		in.Failf("end", "bytes follow the header")
	}
	switch err := in.Err(); {
	case src.err != nil:
		return "", fmt.Errorf("%s: %w", obj.name, src.err)
	case err == nil:
	case h == nil || h.Version != KeyedVersion || !errors.Is(err, serializer.ErrUnsupported):
		return "", fmt.Errorf("%s: header: %w", obj.name, err)
	default:
		r.headerErr = fmt.Errorf("%s: header: %w", obj.name, err)
	}
	r.header = h
	for i := range h.States {
		r.states = append(r.states, NewState(&h.States[i], h.Key))
	}
	return obj.name, nil
}

// opener opens a file of the database.
func opener(files Files, s metadata.Stream, progress func(int64)) func(context.Context) (storage.Object, error) {
	return func(ctx context.Context) (storage.Object, error) {
		obj, err := files.Open(ctx, s)
		if err != nil || progress == nil {
			return obj, err
		}
		return storage.Counted(obj, progress), nil
	}
}

func (f *rocksFiles) close() error { return nil }

func (f *rocksFiles) verify(ctx context.Context, found func(error)) error {
	_, err := f.db.Verify(ctx, func(e *rocksdb.Error) { found(fmt.Errorf("database of %s: %w", f.name, e)) })
	return err
}

func (f *rocksFiles) entries(ctx context.Context, out *sink) {
	for i, s := range f.states {
		if out.done {
			return
		}
		if !out.filter.wants(s) {
			continue
		}
		if f.families[i] == nil {
			out.lost(&LostError{State: s.Meta.Name, KeyGroup: -1, Entries: -1, Err: fmt.Errorf("database of %s: %w: it has no column family of this name", f.name, serializer.ErrCorrupt)})
			continue
		}
		for _, b := range f.bounds(out, s) {
			if !f.scan(ctx, out, s, f.families[i], b) {
				break
			}
		}
	}
}

// bounds are the runs of keys of a state that are wanted.
func (f *rocksFiles) bounds(out *sink, s *State) []rocksdb.Bounds {
	var all []rocksdb.Bounds
	for _, run := range out.runs {
		if out.filter.Key == nil || s.Type == TypeTimers || !s.known { // timers begin with their time
			all = append(all, rocksdb.Bounds{Lower: f.groupPrefix(run.Start), Upper: f.after(run)})
			continue
		}
		for g := run.Start; g <= run.End; g++ {
			lower := append(f.groupPrefix(g), out.filter.Key...)
			all = append(all, rocksdb.Bounds{Lower: lower, Upper: successor(lower)})
		}
	}
	return all
}

func (f *rocksFiles) groupPrefix(group int) []byte {
	if f.prefix == 1 {
		return []byte{byte(group)}
	}
	return binary.BigEndian.AppendUint16(nil, uint16(group))
}

// after is the first key behind those of a run of key groups.
func (f *rocksFiles) after(run keygroup.Range) []byte { return f.groupPrefix(run.End + 1) }

// successor is the first of all byte strings that follow those that begin
// with p, nil if there is none.
func successor(p []byte) []byte {
	p = bytes.Clone(p)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			return p[:i+1]
		}
	}
	return nil
}

// scan hands out the rows within bounds, and says whether to go on.
func (f *rocksFiles) scan(ctx context.Context, out *sink, s *State, family *rocksdb.Family, b rocksdb.Bounds) bool {
	it := family.Iter(ctx, b)
	defer it.Close()
	for !out.done && it.Next() {
		f.row(out, s, it.Key(), it.Value())
	}
	err := it.Err()
	if err == nil || out.done {
		return !out.done
	}
	err = fmt.Errorf("database of %s: %w", f.name, err)
	for _, damage := range []error{fs.ErrNotExist, rocksdb.ErrCorrupt, rocksdb.ErrTruncated, rocksdb.ErrChecksum, rocksdb.ErrUnsupported} {
		if errors.Is(err, damage) {
			out.lost(&LostError{State: s.Meta.Name, KeyGroup: -1, Entries: -1, Err: err})
			return false
		}
	}
	out.fail(err)
	return false
}

func (f *rocksFiles) row(out *sink, s *State, key, value []byte) {
	e := &out.entry
	e.State, e.KeyGroup = s, -1
	var err error
	if len(key) < f.prefix {
		err = fmt.Errorf("%w: a key of %d bytes", serializer.ErrCorrupt, len(key))
	} else {
		e.KeyGroup = groupOf(key[:f.prefix])
		err = e.fill(key[f.prefix:], value)
	}
	if err != nil {
		out.lost(&LostError{State: s.Meta.Name, KeyGroup: e.KeyGroup, Entries: 1, Err: fmt.Errorf("database of %s: key %x: %w", f.name, key, err)})
		return
	}
	out.emit()
}
