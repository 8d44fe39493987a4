package tools

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// unit is one handle of state in a snapshot.
type unit struct {
	op      *metadata.Operator
	subtask int // -1 for the coordinator's
	role    metadata.Role
	// One of these is set.
	keyed       metadata.Keyed
	list        *metadata.OperatorState
	legacy      metadata.Stream
	coordinator metadata.Stream

	file  string // see [StateProblem]
	bytes int64  // of the state as the handle says
	parts atomic.Int32

	once     sync.Once
	keys     *backend.KeyedReader
	elements *backend.OperatorReader
	err      error
	// What was reported: err, and an error of the header after which the rest can be read.
	told, toldHeader atomic.Bool
}

// part is what one worker reads at a time: some key groups of a unit, or all of it.
type part struct {
	*unit
	// groups is empty for what has no key groups.
	groups keygroup.Range
}

// mostParts is the largest number of parts that a handle is cut into.
const mostParts = 128

// unitsOf lists the handles of an operator's subtasks, keyed state first, in
// the order of the subtasks.
func unitsOf(dir string, o *metadata.Operator, keyedOnly bool) []*unit {
	var list []*unit
	for _, t := range sortedSubtasks(o) {
		if t.State == nil {
			continue
		}
		add := func(u *unit) {
			u.op, u.subtask = o, int(t.Index)
			list = append(list, u)
		}
		for _, k := range []struct {
			metadata.Keyed
			role metadata.Role
		}{{t.State.ManagedKeyed, metadata.RoleManagedKeyed}, {t.State.RawKeyed, metadata.RoleRawKeyed}} {
			if k.Keyed != nil {
				add(&unit{role: k.role, keyed: k.Keyed, file: keyedFile(dir, k.Keyed), bytes: keyedBytes(k.Keyed)})
			}
		}
		if keyedOnly {
			continue
		}
		for _, l := range []struct {
			list []*metadata.OperatorState
			role metadata.Role
		}{{t.State.ManagedOperator, metadata.RoleManagedOperator}, {t.State.RawOperator, metadata.RoleRawOperator}} {
			for _, h := range l.list {
				if h != nil {
					add(&unit{role: l.role, list: h, file: streamFile(dir, h.Delegate), bytes: max(0, streamSize(h.Delegate))})
				}
			}
		}
		for _, h := range t.State.Legacy {
			if h != nil {
				add(&unit{role: metadata.RoleLegacy, legacy: h, file: streamFile(dir, h), bytes: max(0, streamSize(h))})
			}
		}
	}
	return list
}

// sortedSubtasks gives the subtasks by index; in the file they have the order of a hash map.
func sortedSubtasks(o *metadata.Operator) []metadata.Subtask {
	return sortedBy(o.Subtasks, func(t metadata.Subtask) int { return int(t.Index) })
}

// split cuts a unit into parts by the key groups that are wanted. It must be
// called once, before any part is read; a part that was read must be released.
func (u *unit) split(wanted []keygroup.Range) []part {
	if u.keyed == nil {
		u.parts.Store(1)
		return []part{{unit: u, groups: keygroup.Range{End: -1}}}
	}
	whole := keyedRange(u.keyed)
	var list []part
	step := max(1, (whole.Len()+mostParts-1)/mostParts)
	for _, r := range intersectAll(whole, wanted) {
		for g := r.Start; g <= r.End; g += step {
			list = append(list, part{unit: u, groups: keygroup.Range{Start: g, End: min(r.End, g+step-1)}})
		}
	}
	u.parts.Store(int32(len(list)))
	return list
}

// open opens the handle, once for all parts.
func (u *unit) open(ctx context.Context, files backend.Files, progress func(int64)) error {
	u.once.Do(func() {
		o := backend.Options{MaxParallelism: int(u.op.MaxParallelism), Progress: progress}
		switch u.role {
		case metadata.RoleRawKeyed, metadata.RoleRawOperator:
			o.Raw = true
		}
		switch {
		case u.keyed != nil:
			u.keys, u.err = backend.OpenKeyed(ctx, files, u.keyed, o)
		case u.legacy != nil:
			u.elements, u.err = backend.OpenLegacy(ctx, files, u.legacy, o)
		default:
			u.elements, u.err = backend.OpenOperator(ctx, files, u.list, o)
		}
	})
	return u.err
}

// release says that a part was read. The last one closes the files.
func (u *unit) release() {
	if u.parts.Add(-1) > 0 {
		return
	}
	switch {
	case u.keys != nil:
		_ = u.keys.Close() // it was only read
	case u.elements != nil:
		_ = u.elements.Close()
	}
}

// keyedRange is the range of key groups of a handle; an empty one without a handle.
func keyedRange(k metadata.Keyed) keygroup.Range {
	if r, ok := metadata.KeyGroupsOf(k); ok {
		return r
	}
	return keygroup.Range{End: -1}
}

// keyedStreams yields the streams of a handle of keyed state.
func keyedStreams(k metadata.Keyed) iter.Seq[metadata.Stream] {
	return func(yield func(metadata.Stream) bool) { walkStreams(k, yield) }
}

func walkStreams(k metadata.Keyed, yield func(metadata.Stream) bool) bool {
	some := func(list ...metadata.LocalFile) bool {
		for _, f := range list {
			if !yield(f.Stream) {
				return false
			}
		}
		return true
	}
	switch h := k.(type) {
	case *metadata.KeyGroups:
		return yield(h.Delegate)
	case *metadata.Incremental:
		return yield(h.Meta) && some(h.Shared...) && some(h.Private...)
	case *metadata.Changelog:
		for _, list := range [][]metadata.Keyed{h.Base, h.Delta} {
			for _, b := range list {
				if !walkStreams(b, yield) {
					return false
				}
			}
		}
	case *metadata.ChangelogFile:
		for _, s := range h.Streams {
			if !yield(s.Stream) {
				return false
			}
		}
	}
	return true
}

func keyedBytes(k metadata.Keyed) (n int64) {
	for s := range keyedStreams(k) {
		n += max(0, streamSize(s))
	}
	return n
}

// keyedFile names the file of a handle that is in one, else "".
func keyedFile(dir string, k metadata.Keyed) string {
	if h, ok := k.(*metadata.KeyGroups); ok {
		return streamFile(dir, h.Delegate)
	}
	return ""
}

// streamFile names the file of a stream, or inline data.
func streamFile(dir string, s metadata.Stream) string {
	switch h := s.(type) {
	case *metadata.ByteStream:
		return "inline data " + h.Name.String()
	case *metadata.File:
		return h.Path.String()
	case *metadata.RelativeFile:
		return storage.Join(dir, h.Path.String())
	case *metadata.Segment:
		return h.Path.String()
	case *metadata.KeyGroupsStream:
		return streamFile(dir, h.Delegate)
	}
	return ""
}

// stateReader reads the state of a snapshot in parts.
type stateReader struct {
	snapshot *Snapshot
	files    backend.Files
	states   *stateMatcher
	keyTexts []string
	parts    []part
	jobs     int
	progress func(int64)
	// total is how many bytes the parts have, as the handles say.
	total int64
	// keyErr is why a key cannot be one of some operator, keyFits that one can.
	keyErr  atomic.Pointer[error]
	keyFits atomic.Bool
}

// readerOf makes a reader without any parts.
func readerOf(fsys storage.FS, s *Snapshot, sel Selection, jobs int) *stateReader {
	return &stateReader{
		snapshot: s, files: backend.Files{FS: fsys, Dir: s.Dir}, states: sel.states(), keyTexts: sel.Keys, jobs: stateJobs(jobs),
	}
}

// newStateReader plans the reading of what is selected.
func newStateReader(fsys storage.FS, s *Snapshot, sel Selection, jobs int, progress func(done, total int64)) (*stateReader, error) {
	ops, err := sel.operators(s.Snapshot)
	if err != nil {
		return nil, err
	}
	r := readerOf(fsys, s, sel, jobs)
	for _, o := range ops {
		for _, u := range unitsOf(s.Dir, o, sel.keyedOnly()) {
			parts := u.split(sel.KeyGroups)
			groups := 0
			for _, p := range parts {
				groups += p.groups.Len()
			}
			if whole := keyedRange(u.keyed).Len(); u.keyed != nil && whole > 0 {
				r.total += int64(float64(u.bytes) * float64(groups) / float64(whole))
			} else {
				r.total += u.bytes
			}
			r.parts = append(r.parts, parts...)
		}
	}
	if progress != nil {
		var done atomic.Int64
		r.progress = func(n int64) { progress(done.Add(n), r.total) }
	}
	return r, nil
}

// stateJobs is n, or how many parts of state to work on at once if n says
// nothing: decoding keeps a CPU busy.
func stateJobs(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// visitor is told of what a part holds; what it gets is valid until it returns. An error ends the reading.
type visitor struct {
	keyed   func(*backend.Entry) error
	element func(*backend.OperatorEntry) error
	problem func(*StateProblem) error
}

// read reads a part and releases it, see scan.
func (r *stateReader) read(ctx context.Context, p part, v visitor) error {
	defer p.release()
	return r.scan(ctx, p, v)
}

// scan reads a part. Damage goes to the visitor and is no error; errors are
// those of the visitor and of the context.
func (r *stateReader) scan(ctx context.Context, p part, v visitor) error {
	fail := func(groups string, err error) error {
		if e := ctx.Err(); e != nil {
			return e
		}
		return v.problem(newProblem(p.unit, groups, err))
	}
	if err := p.open(ctx, r.files, r.progress); err != nil {
		if p.told.Swap(true) && ctx.Err() == nil {
			return nil
		}
		return fail("", err)
	}
	if p.keyed == nil {
		want := func(s *backend.OperatorState) bool { return r.states.match(s.Name) }
		for e, err := range p.elements.Entries(ctx, want) {
			if err != nil {
				err = fail("", err)
			} else {
				err = v.element(e)
			}
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	filter := backend.Filter{KeyGroups: []keygroup.Range{p.groups}}
	if r.states != nil {
		filter.State = func(s *backend.State) bool { return r.states.match(s.Meta.Name) }
	}
	if err := p.keys.HeaderErr(); err != nil && !p.toldHeader.Swap(true) {
		if err := fail("", err); err != nil {
			return err
		}
	}
	for _, k := range r.wantedKeys(p.unit) {
		f := filter
		if k.serialized != nil {
			if k.group >= 0 && !p.groups.Intersect(keygroup.Range{Start: k.group, End: k.group}).Empty() {
				f.KeyGroups = []keygroup.Range{{Start: k.group, End: k.group}}
			} else if k.group >= 0 {
				continue
			}
			f.Key = k.serialized
		}
		for e, err := range p.keys.Entries(ctx, f) {
			if err == nil && !k.matches(e) {
				continue
			}
			if err != nil {
				err = fail(groupText(p.groups), err)
			} else {
				err = v.keyed(e)
			}
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// wantedKey is a key that is looked for.
type wantedKey struct {
	// any lets all keys through.
	any bool
	// serialized is nil if entries are to be decoded and compared with text, group -1 if the hash is not known.
	serialized []byte
	group      int
	text       string
}

// matches says whether an entry that a reader gave has the key.
func (k *wantedKey) matches(e *backend.Entry) bool {
	if k.any || k.serialized != nil {
		return true
	}
	v, err := e.DecodeKey()
	return err == nil && serializer.Text(v) == k.text
}

// wantedKeys gives the keys that are looked for in a unit that is open. Those
// that cannot be keys of its type are left out.
func (r *stateReader) wantedKeys(u *unit) []wantedKey {
	if len(r.keyTexts) == 0 {
		return []wantedKey{{any: true, group: -1}}
	}
	var list []wantedKey
	header := u.keys.Header()
	for _, text := range r.keyTexts {
		k := wantedKey{group: -1, text: text}
		if header != nil && header.Key != nil {
			var err error
			k.serialized, err = serializer.ParseKey(header.Key, text)
			if err != nil && !errors.Is(err, serializer.ErrUnsupported) {
				err = fmt.Errorf("operator %s: %w", operatorLabel(u.op), err)
				r.keyErr.CompareAndSwap(nil, &err)
				continue
			}
			if code, err := serializer.NewHasher(header.Key).Hash(k.serialized); k.serialized != nil && err == nil {
				k.group = keygroup.ForHash(code, int(u.op.MaxParallelism))
			}
		}
		r.keyFits.Store(true)
		list = append(list, k)
	}
	return list
}

// keyError is why no key that is looked for can be one of any operator; nil if one can.
func (r *stateReader) keyError() error {
	if err := r.keyErr.Load(); err != nil && !r.keyFits.Load() {
		return *err
	}
	return nil
}
