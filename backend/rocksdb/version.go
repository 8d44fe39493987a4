package rocksdb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// familyState is a column family while edits are applied to it.
type familyState struct {
	id         uint32
	name       string
	comparator string
	logNumber  uint64
	files      map[fileID]*File
}

// version is the set of live files that the edits of a MANIFEST give.
type version struct {
	families     map[uint32]*familyState
	dropped      map[uint32]bool
	lastSequence uint64
	group        []*edit // of an atomic group that is not complete yet
}

func newVersion() *version {
	return &version{
		families: map[uint32]*familyState{0: {name: "default", files: map[fileID]*File{}}},
		dropped:  map[uint32]bool{},
	}
}

// push applies an edit, or keeps it until its atomic group is complete.
func (v *version) push(e *edit) error {
	if e.group == nil {
		if len(v.group) > 0 {
			return corrupt("an edit inside of an atomic group that is no part of it")
		}
		return v.apply(e)
	}
	v.group = append(v.group, e)
	if *e.group > 0 {
		return nil
	}
	for _, g := range v.group {
		if err := v.apply(g); err != nil {
			return err
		}
	}
	v.group = nil
	return nil
}

func (v *version) apply(e *edit) error {
	if e.lastSequence != nil {
		v.lastSequence = max(v.lastSequence, *e.lastSequence)
	}
	f := v.families[e.family]
	switch {
	case e.add != nil && e.drop:
		return corrupt("column family %d is both added and dropped", e.family)
	case e.add != nil && (f != nil || v.dropped[e.family]):
		return corrupt("column family %d is added twice", e.family)
	case e.add != nil:
		f = &familyState{id: e.family, name: *e.add, files: map[fileID]*File{}}
		v.families[e.family] = f
	case f == nil && v.dropped[e.family]:
		return nil
	case f == nil:
		return corrupt("column family %d was never added", e.family)
	case e.drop:
		delete(v.families, e.family)
		v.dropped[e.family] = true
		return nil
	}
	if e.comparator != nil {
		f.comparator = *e.comparator
	}
	if e.logNumber != nil {
		f.logNumber = max(f.logNumber, *e.logNumber)
	}
	for _, id := range e.deleted {
		if f.files[id] == nil {
			return corrupt("table %d is deleted from level %d of %q, where it is not", id.number, id.level, f.name)
		}
		delete(f.files, id)
	}
	for _, file := range e.added {
		id := fileID{file.Level, file.Number}
		if f.files[id] != nil {
			return corrupt("table %d is added to level %d of %q twice", id.number, id.level, f.name)
		}
		f.files[id] = file
	}
	return nil
}

// readManifest reads a MANIFEST to its end.
func readManifest(name string, r io.Reader, size int64) (*version, error) {
	v := newVersion()
	l := &logReader{file: name, r: r, size: size}
	n := 0
	for ; ; n++ {
		rec, off, ok, err := l.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		c := &cursor{file: name, base: off, buf: rec}
		e := decodeEdit(c)
		c.within(fmt.Sprintf("edit[%d]", n))
		if err := c.failed(); err != nil {
			return nil, err
		}
		if err := v.push(e); err != nil {
			return nil, &Error{File: name, Offset: off, Inner: -1, Field: fmt.Sprintf("edit[%d]", n), Err: err}
		}
	}
	if n == 0 {
		return nil, &Error{File: name, Offset: 0, Inner: -1, Field: "edit[0]", Err: fmt.Errorf("%w: no edit at all", ErrTruncated)}
	}
	return v, nil
}

// maxCurrent bounds CURRENT, which is one name.
const maxCurrent = 1 << 10

// readCurrent gives the name of the MANIFEST.
func readCurrent(ctx context.Context, files Files) (string, error) {
	const name = "CURRENT"
	obj, err := files.open(ctx, name)
	if err != nil {
		return "", err
	}
	defer obj.Close()
	fail := func(err error) error { return &Error{File: name, Offset: 0, Inner: -1, Field: "name", Err: err} }
	if obj.Size() > maxCurrent {
		return "", fail(corrupt("%d bytes", obj.Size()))
	}
	text := make([]byte, obj.Size())
	if err := readAt(obj, text, 0); err != nil {
		return "", fail(err)
	}
	line, ok := strings.CutSuffix(string(text), "\n")
	if !ok {
		return "", fail(fmt.Errorf("%w: no newline", ErrTruncated))
	}
	digits, ok := strings.CutPrefix(line, "MANIFEST-")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", fail(corrupt("%q is no name of a MANIFEST", line))
	}
	return line, nil
}

// readAt fills p; a file that is shorter than its size is ErrTruncated.
func readAt(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: at byte %d of %d", ErrTruncated, off+int64(n), off+int64(len(p)))
	}
	return err
}

// readVersion reads CURRENT and the MANIFEST that it names.
func readVersion(ctx context.Context, files Files) (string, *version, error) {
	name, err := readCurrent(ctx, files)
	if err != nil {
		return "", nil, err
	}
	obj, err := files.open(ctx, name)
	if err != nil {
		return "", nil, err
	}
	defer obj.Close()
	r, err := obj.Reader(ctx, 0)
	if err != nil {
		return "", nil, &Error{File: name, Offset: 0, Inner: -1, Field: "open", Err: err}
	}
	defer r.Close()
	v, err := readManifest(name, r, obj.Size())
	return name, v, err
}

// build makes the families that a DB offers.
func (v *version) build(db *DB) error {
	for _, s := range v.families {
		f := &Family{db: db, id: s.id, name: s.name, comparator: s.comparator}
		for _, file := range s.files {
			file.family = s.name
			f.files = append(f.files, file)
		}
		slices.SortFunc(f.files, func(a, b *File) int {
			if c := cmp.Compare(a.Level, b.Level); c != 0 {
				return c
			}
			if c := a.smallest.compare(b.smallest); c != 0 && a.Level > 0 {
				return c
			}
			return cmp.Compare(a.Number, b.Number)
		})
		for i, file := range f.files {
			if _, ok := db.open[file.Name()]; !ok {
				return &Error{File: file.Name(), Offset: -1, Inner: -1,
					Err: fmt.Errorf("%w: %s names it as a table of column family %q", fs.ErrNotExist, db.manifest, f.name)}
			}
			if i == 0 || file.Level == 0 || f.files[i-1].Level != file.Level || f.comparator != Bytewise {
				continue
			}
			if prev := f.files[i-1]; bytes.Compare(prev.largest.user, file.smallest.user) > 0 {
				return &Error{File: db.manifest, Offset: -1, Inner: -1, Field: fmt.Sprintf("level %d of %q", file.Level, f.name),
					Err: corrupt("%s and %s overlap", prev.Name(), file.Name())}
			}
		}
		db.families = append(db.families, f)
	}
	slices.SortFunc(db.families, func(a, b *Family) int { return cmp.Compare(a.id, b.id) })
	return nil
}
