package metadata

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/drey-state/drey/keygroup"
)

// Ref is one place in a snapshot that names a file or a directory. The same
// file may be named in several places.
type Ref struct {
	// Path is absolute, but for RefRelative, where it is relative to the directory of _metadata.
	Path string
	// Size in bytes of the file or segment, -1 if unknown; 0 for a directory.
	// It is a logical length where Part is PartChange.
	Size int64
	// Start is the offset of a segment in its file, in bytes; 0 otherwise.
	Start int64
	Kind  RefKind
	Role  Role
	Part  Part
	// Subtask is its index, or -1 where the operator's coordinator names the file.
	Subtask int32
	// Operator is the operator in the snapshot.
	Operator *Operator
	// KeyGroups of the keyed handle; empty where Role is not one of the keyed ones.
	KeyGroups keygroup.Range
	// LocalName is the name under which a store knows the file, e.g. "000012.sst"; "" if none.
	LocalName string

	at place
}

// RefKind is how a file or directory is named.
type RefKind uint8

// The kinds of references.
const (
	// RefFile is a whole file by absolute path.
	RefFile RefKind = iota
	// RefRelative is a whole file beside _metadata.
	RefRelative
	// RefSegment is a part of a file by absolute path.
	RefSegment
	// RefDirectory is a directory of file merging by absolute path.
	RefDirectory
)

// String names the kind.
func (k RefKind) String() string {
	return [...]string{"file", "relative file", "segment", "directory"}[k]
}

// Role is what the state is to the subtask.
type Role uint8

// The roles.
const (
	RoleCoordinator Role = iota
	RoleManagedOperator
	RoleRawOperator
	RoleManagedKeyed
	RoleRawKeyed
	RoleInputChannel
	RoleOutputChannel
	RoleLegacy
)

// String names the role.
func (r Role) String() string {
	return [...]string{"coordinator state", "managed operator state", "raw operator state", "managed keyed state",
		"raw keyed state", "input channel state", "output channel state", "state of the Checkpointed interface"}[r]
}

var roleFields = [...]string{"coordinator", "managedOperator", "rawOperator", "managedKeyed", "rawKeyed", "inputChannels", "outputChannels", "legacy"}

// Part is what the file is to its handle.
type Part uint8

// The parts.
const (
	// PartState is the stream of the state itself.
	PartState Part = iota
	// PartMeta is the meta stream of an incremental handle.
	PartMeta
	// PartShared and PartPrivate are files of a store.
	PartShared
	PartPrivate
	// PartChange is a file of a changelog, of which a part is meant.
	PartChange
	// PartTaskOwnedDirectory and PartSharedDirectory are directories of file merging.
	PartTaskOwnedDirectory
	PartSharedDirectory
)

// String names the part.
func (p Part) String() string {
	return [...]string{"state", "meta file", "shared file", "private file", "changelog file", "task-owned directory", "shared directory"}[p]
}

// place is where a Ref stands, kept small as there may be a million Refs.
type place struct {
	operator, subtask int32 // indexes in the lists
	item              int32 // index in a list of operator states or channels, or -1
	base, delta       int32 // index in a changelog's lists, or -1
	file              int32 // index in shared, private or streams
	nested            int8  // number of delegates between the handle and the stream
}

// Field is where the reference stands, as errors name it, for example
// "operators[2].subtasks[0].managedKeyed.shared[17]".
func (r Ref) Field() string {
	var b strings.Builder
	index := func(name string, i int32) {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
		if i >= 0 {
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(int(i)))
			b.WriteByte(']')
		}
	}
	index("operators", r.at.operator)
	if r.at.subtask >= 0 {
		index("subtasks", r.at.subtask)
	}
	index(roleFields[r.Role], r.at.item)
	if r.at.base >= 0 {
		index("base", r.at.base)
	}
	if r.at.delta >= 0 {
		index("delta", r.at.delta)
	}
	switch r.Part {
	case PartState:
		if r.Role != RoleCoordinator && r.Role != RoleLegacy {
			index("delegate", -1)
		}
	case PartMeta:
		index("meta", -1)
	case PartShared:
		index("shared", r.at.file)
	case PartPrivate:
		index("private", r.at.file)
	case PartChange:
		index("streams", r.at.file)
	case PartTaskOwnedDirectory:
		index("taskOwnedDirectory", -1)
	case PartSharedDirectory:
		index("sharedDirectory", -1)
	}
	for range r.at.nested {
		index("delegate", -1)
	}
	return b.String()
}

// Location is where a reference shall point.
type Location struct {
	Path string
	// Relative makes the handle of a whole file relative to the directory of
	// _metadata; otherwise it is absolute. Segments and directories can't be relative.
	Relative bool
}

// Refs yields every file and directory that the snapshot names, in the order
// of the file. Inline handles name none.
func (s *Snapshot) Refs() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		m := mapper{fn: func(r Ref) (Location, error) {
			if !yield(r) {
				return Location{}, errStop
			}
			return Location{Path: r.Path, Relative: r.Kind == RefRelative}, nil
		}}
		m.snapshot(s)
	}
}

var errStop = errors.New("stop")

// MapPaths gives a snapshot in which every path is what fn makes of it, and
// everything else is as in s, which stays as it is; the two share what did
// not change. An error of fn ends it and is returned in an [*Error] with the
// field; so does a path that the format can't hold.
func (s *Snapshot) MapPaths(fn func(Ref) (string, error)) (*Snapshot, error) {
	return s.Rewrite(func(r Ref) (Location, error) {
		path, err := fn(r)
		return Location{Path: path, Relative: r.Kind == RefRelative}, err
	})
}

// Rewrite is MapPaths for a caller that also decides whether the handle of a
// file is absolute or relative.
func (s *Snapshot) Rewrite(fn func(Ref) (Location, error)) (*Snapshot, error) {
	m := mapper{fn: fn}
	c := m.snapshot(s)
	if m.err != nil {
		return nil, m.err
	}
	return c, nil
}

// mapper walks a snapshot and copies what changes.
type mapper struct {
	fn  func(Ref) (Location, error)
	ref Ref // of the place where the walk is
	err error

	listed bool // operator states are lists, as in version 1

	// see decoder
	files     block[File]
	relatives block[RelativeFile]
	segments  block[Segment]
}

// mapSlice copies list if fn changes an element, which it says by its second result.
func mapSlice[T any](m *mapper, list []T, fn func(i int, v T) (T, bool)) ([]T, bool) {
	changed := false
	for i, v := range list {
		w, ch := fn(i, v)
		if m.err != nil {
			return list, false
		}
		if ch {
			if !changed {
				list = append([]T(nil), list...)
				changed = true
			}
			list[i] = w
		}
	}
	return list, changed
}

func (m *mapper) snapshot(s *Snapshot) *Snapshot {
	m.ref.at = place{item: -1, base: -1, delta: -1}
	m.listed = s.Version == Version1
	ops, changed := mapSlice(m, s.Operators, func(i int, o Operator) (Operator, bool) {
		m.ref.Operator = &s.Operators[i]
		m.ref.at.operator = int32(i)
		return m.operator(o)
	})
	if !changed {
		return s
	}
	c := *s
	c.Operators = ops
	return &c
}

func (m *mapper) operator(o Operator) (Operator, bool) {
	m.ref.Subtask, m.ref.at.subtask = -1, -1
	m.ref.KeyGroups = keygroup.Range{End: -1}
	m.ref.Role, m.ref.Part = RoleCoordinator, PartState
	c, changed := m.stream(o.Coordinator)
	o.Coordinator = c
	subtasks, ch := mapSlice(m, o.Subtasks, func(i int, s Subtask) (Subtask, bool) {
		if s.State == nil {
			return s, false
		}
		m.ref.Subtask, m.ref.at.subtask = s.Index, int32(i)
		var ch bool
		s.State, ch = m.subtask(s.State)
		return s, ch
	})
	o.Subtasks = subtasks
	return o, changed || ch
}

func (m *mapper) subtask(old *SubtaskState) (*SubtaskState, bool) {
	s := *old
	var changed [7]bool
	m.ref.KeyGroups = keygroup.Range{End: -1}
	m.ref.Role = RoleLegacy
	s.Legacy, changed[0] = mapSlice(m, s.Legacy, func(i int, h Stream) (Stream, bool) {
		m.ref.at.item = int32(i)
		m.ref.Part = PartState
		return m.stream(h)
	})
	m.ref.at.item = -1
	m.ref.Role = RoleManagedOperator
	s.ManagedOperator, changed[1] = mapSlice(m, s.ManagedOperator, m.operatorState)
	m.ref.Role = RoleRawOperator
	s.RawOperator, changed[2] = mapSlice(m, s.RawOperator, m.operatorState)
	m.ref.at.item = -1
	m.ref.Role = RoleManagedKeyed
	s.ManagedKeyed, changed[3] = m.keyed(s.ManagedKeyed)
	m.ref.Role = RoleRawKeyed
	s.RawKeyed, changed[4] = m.keyed(s.RawKeyed)
	m.ref.KeyGroups = keygroup.Range{End: -1}
	m.ref.Role = RoleInputChannel
	s.InputChannels, changed[5] = mapSlice(m, s.InputChannels, m.channel)
	m.ref.Role = RoleOutputChannel
	s.OutputChannels, changed[6] = mapSlice(m, s.OutputChannels, m.channel)
	m.ref.at.item = -1
	if changed == [7]bool{} {
		return old, false
	}
	return &s, true
}

func (m *mapper) operatorState(i int, s *OperatorState) (*OperatorState, bool) {
	if s == nil {
		return nil, false
	}
	if m.listed {
		m.ref.at.item = int32(i)
	}
	c := *s
	changed := false
	if s.Merged != nil {
		d := *s.Merged
		var ch1, ch2 bool
		d.TaskOwned, ch1 = m.directory(d.TaskOwned, PartTaskOwnedDirectory)
		d.Shared, ch2 = m.directory(d.Shared, PartSharedDirectory)
		if changed = ch1 || ch2; changed {
			c.Merged = &d
		}
	}
	m.ref.Part = PartState
	h, ch := m.stream(s.Delegate)
	c.Delegate = h
	if !changed && !ch {
		return s, false
	}
	return &c, true
}

func (m *mapper) channel(i int, c ChannelState) (ChannelState, bool) {
	m.ref.at.item = int32(i)
	m.ref.Part = PartState
	h, changed := m.stream(c.Delegate)
	c.Delegate = h
	return c, changed
}

func (m *mapper) keyed(k Keyed) (Keyed, bool) {
	switch h := k.(type) {
	case *KeyGroups:
		m.ref.KeyGroups, m.ref.Part = h.Range(), PartState
		s, changed := m.stream(h.Delegate)
		if changed {
			c := *h
			c.Delegate = s
			return &c, true
		}
	case *Incremental:
		m.ref.KeyGroups, m.ref.Part = h.KeyGroups.Range(), PartMeta
		c := *h
		var ch1, ch2, ch3 bool
		c.Meta, ch1 = m.stream(h.Meta)
		c.Shared, ch2 = m.localFiles(h.Shared, PartShared)
		c.Private, ch3 = m.localFiles(h.Private, PartPrivate)
		if ch1 || ch2 || ch3 {
			return &c, true
		}
	case *Changelog:
		c := *h
		var ch1, ch2 bool
		c.Base, ch1 = mapSlice(m, h.Base, func(i int, k Keyed) (Keyed, bool) {
			m.ref.at.base = int32(i)
			return m.keyed(k)
		})
		m.ref.at.base = -1
		c.Delta, ch2 = mapSlice(m, h.Delta, func(i int, k Keyed) (Keyed, bool) {
			m.ref.at.delta = int32(i)
			return m.keyed(k)
		})
		m.ref.at.delta = -1
		if ch1 || ch2 {
			return &c, true
		}
	case *ChangelogFile:
		m.ref.KeyGroups, m.ref.Part = h.KeyGroups.Range(), PartChange
		streams, changed := mapSlice(m, h.Streams, func(i int, s ChangelogStream) (ChangelogStream, bool) {
			m.ref.at.file = int32(i)
			var ch bool
			s.Stream, ch = m.stream(s.Stream)
			return s, ch
		})
		if changed {
			c := *h
			c.Streams = streams
			return &c, true
		}
	case *ChangelogMemory, nil:
	}
	return k, false
}

func (m *mapper) localFiles(files []LocalFile, part Part) ([]LocalFile, bool) {
	m.ref.Part = part
	files, changed := mapSlice(m, files, func(i int, f LocalFile) (LocalFile, bool) {
		m.ref.at.file = int32(i)
		m.ref.LocalName = f.LocalName.String()
		var ch bool
		f.Stream, ch = m.stream(f.Stream)
		return f, ch
	})
	m.ref.LocalName = ""
	return files, changed
}

func (m *mapper) stream(s Stream) (Stream, bool) {
	if m.err != nil {
		return s, false
	}
	switch h := s.(type) {
	case *File:
		path, relative, changed := m.whole(h.Path, h.Size, RefFile)
		return m.file(s, path, h.Size, relative, changed)
	case *RelativeFile:
		path, relative, changed := m.whole(h.Path, h.Size, RefRelative)
		return m.file(s, path, h.Size, relative, changed)
	case *Segment:
		m.ref.Kind, m.ref.Size, m.ref.Start = RefSegment, h.Size, h.Start
		path, changed := m.absolute(h.Path)
		m.ref.Start = 0
		if changed {
			c := m.segments.new()
			*c = *h
			c.Path = path
			return c, true
		}
	case *KeyGroupsStream:
		m.ref.at.nested++
		d, changed := m.stream(h.Delegate)
		m.ref.at.nested--
		if changed {
			c := *h
			c.Delegate = d
			return &c, true
		}
	case *ByteStream, *EmptySegment, nil:
	}
	return s, false
}

func (m *mapper) file(old Stream, path Text, size int64, relative, changed bool) (Stream, bool) {
	switch {
	case !changed:
		return old, false
	case relative:
		c := m.relatives.new()
		c.Path, c.Size = path, size
		return c, true
	}
	c := m.files.new()
	c.Path, c.Size = path, size
	return c, true
}

// whole asks fn where a whole file shall be.
func (m *mapper) whole(old Text, size int64, kind RefKind) (path Text, relative, changed bool) {
	m.ref.Kind, m.ref.Size = kind, size
	loc, changed := m.ask(old)
	if !changed {
		return old, kind == RefRelative, false
	}
	return m.text(loc.Path), loc.Relative, true
}

func (m *mapper) absolute(old Text) (Text, bool) {
	loc, changed := m.ask(old)
	if !changed {
		return old, false
	}
	if loc.Relative {
		m.fail(fmt.Errorf("a %s can't be relative", m.ref.Kind))
	}
	return m.text(loc.Path), true
}

func (m *mapper) directory(old Text, part Part) (Text, bool) {
	if m.err != nil {
		return old, false
	}
	m.ref.Kind, m.ref.Part, m.ref.Size = RefDirectory, part, 0
	return m.absolute(old)
}

func (m *mapper) ask(old Text) (loc Location, changed bool) {
	m.ref.Path = old.String()
	loc, err := m.fn(m.ref)
	if err != nil {
		m.fail(err)
		return loc, false
	}
	return loc, loc.Path != m.ref.Path || loc.Relative != (m.ref.Kind == RefRelative)
}

func (m *mapper) text(path string) Text {
	t, err := NewText(path)
	if err != nil {
		m.fail(fmt.Errorf("path %.60s...: %w", path, err))
	}
	return t
}

// fail records err with its place.
func (m *mapper) fail(err error) {
	switch {
	case m.err != nil:
	case errors.Is(err, errStop):
		m.err = err
	default:
		m.err = &Error{Offset: -1, Field: m.ref.Field(), Err: err}
	}
}
