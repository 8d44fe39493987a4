package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// fixtureFS finds the files of a fixture, which its snapshots name by the
// places where Flink wrote them.
type fixtureFS struct {
	storage.FS
	// dir is the local directory of the fixture, writtenAt where Flink had it.
	dir, writtenAt string
}

func newFixtureFS(dir, writtenAt string) fixtureFS {
	return fixtureFS{
		FS:        storage.NewLocal(storage.LocalOptions{}),
		dir:       filepath.ToSlash(dir),
		writtenAt: storage.Clean("file:" + strings.TrimPrefix(writtenAt, "file://")),
	}
}

func (f fixtureFS) local(uri string) string {
	if storage.Scheme(uri) == "s3" {
		_, bucket, path := storage.Split(uri)
		return "file:" + f.dir + "/s3/" + bucket + path
	}
	if rel, ok := storage.Rel(f.writtenAt, uri); ok {
		return storage.Join("file:"+f.dir, rel)
	}
	return uri
}

func (f fixtureFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	return f.FS.Open(ctx, f.local(uri))
}

func (f fixtureFS) Stat(ctx context.Context, uri string) (storage.Info, error) {
	return f.FS.Stat(ctx, f.local(uri))
}

// content is all that a snapshot holds, decoded.
type content struct {
	operators map[string]*operatorContent // by id
	// channels is the number of handles with data in flight.
	channels, entries int
	// lines are those that a dump must have, with how often.
	lines map[string]int
	// missing are errors about files that are not there, errs all others.
	missing, errs []error
}

type operatorContent struct {
	meta   *metadata.Operator
	keyed  map[string]*keyedContent
	states map[string]*stateContent
	// rawKeyed and rawOperator are the bytes of raw state by key group, and by partition.
	rawKeyed    map[int][]byte
	rawOperator [][]byte
	coordinator []byte
}

// keyedContent is one keyed state over all subtasks.
type keyedContent struct {
	typ     backend.Type
	ttl     bool
	entries []keyedEntry
}

type keyedEntry struct {
	key, namespace, userKey, value any
	timestamp                      int64
	group, subtask                 int
}

// stateContent is one operator state over all subtasks.
type stateContent struct {
	mode metadata.Mode
	// lists are the elements of each subtask, maps the entries of a broadcast state.
	lists map[int][]any
	maps  map[int]serializer.Map
}

func (c *content) fail(where string, err error) {
	err = fmt.Errorf("%s: %w", where, err)
	if errors.Is(err, fs.ErrNotExist) {
		c.missing = append(c.missing, err)
		return
	}
	c.errs = append(c.errs, err)
}

// readContent decodes a snapshot as a whole, and demands that its dump is the same.
func readContent(ctx context.Context, fsys storage.FS, uri string) (*content, error) {
	s, err := Open(ctx, fsys, uri)
	if err != nil {
		return nil, err
	}
	c := decodeContent(ctx, fsys, s)
	if len(c.errs)+len(c.missing) == 0 {
		if err := c.checkDump(ctx, fsys, s); err != nil {
			c.errs = append(c.errs, err)
		}
	}
	return c, nil
}

// decodeContent decodes all that a snapshot holds.
func decodeContent(ctx context.Context, fsys storage.FS, s *Snapshot) *content {
	c := &content{operators: map[string]*operatorContent{}, lines: map[string]int{}}
	files := backend.Files{FS: fsys, Dir: s.Dir}
	for i := range s.Operators {
		o := &s.Operators[i]
		into := &operatorContent{meta: o, keyed: map[string]*keyedContent{}, states: map[string]*stateContent{}, rawKeyed: map[int][]byte{}}
		c.operators[o.ID.String()] = into
		if o.Coordinator != nil {
			state, err := readStream(ctx, files, o.Coordinator)
			if err != nil {
				c.fail("coordinator", err)
			}
			into.coordinator = state
		}
		for _, sub := range o.Subtasks {
			if sub.State != nil {
				c.readSubtask(ctx, files, o, into, int(sub.Index), sub.State)
			}
		}
	}
	return c
}

func readStream(ctx context.Context, files backend.Files, stream metadata.Stream) ([]byte, error) {
	o, err := files.Open(ctx, stream)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	data := make([]byte, o.Size())
	if n, err := o.ReadAt(data, 0); n < len(data) {
		return nil, err
	}
	return data, nil
}

func (c *content) readSubtask(ctx context.Context, files backend.Files, o *metadata.Operator, into *operatorContent, subtask int, s *metadata.SubtaskState) {
	where := fmt.Sprintf("operator %s, subtask %d", operatorName(o), subtask)
	c.channels += len(s.InputChannels) + len(s.OutputChannels)
	for _, h := range s.ManagedOperator {
		if h != nil {
			c.readOperator(ctx, files, where, into, subtask, h, false)
		}
	}
	for _, h := range s.RawOperator {
		if h != nil {
			c.readOperator(ctx, files, where, into, subtask, h, true)
		}
	}
	for _, h := range s.Legacy {
		if h == nil {
			continue
		}
		r, err := backend.OpenLegacy(ctx, files, h, backend.Options{})
		c.readElements(ctx, where, into, subtask, r, err, false)
	}
	if s.ManagedKeyed != nil {
		c.readKeyed(ctx, files, where, into, subtask, s.ManagedKeyed, false)
	}
	if s.RawKeyed != nil {
		c.readKeyed(ctx, files, where, into, subtask, s.RawKeyed, true)
	}
}

func (c *content) readOperator(ctx context.Context, files backend.Files, where string, into *operatorContent, subtask int, h *metadata.OperatorState, raw bool) {
	r, err := backend.OpenOperator(ctx, files, h, backend.Options{Raw: raw})
	c.readElements(ctx, where, into, subtask, r, err, raw)
}

// readElements reads what was opened, or not.
func (c *content) readElements(ctx context.Context, where string, into *operatorContent, subtask int, r *backend.OperatorReader, err error, raw bool) {
	if err != nil {
		c.fail(where+": operator state", err)
		return
	}
	defer r.Close()
	for _, s := range r.States() {
		if into.states[s.Name] == nil && !raw {
			into.states[s.Name] = &stateContent{mode: s.Mode, lists: map[int][]any{}, maps: map[int]serializer.Map{}}
		}
	}
	for e, err := range r.Entries(ctx, nil) {
		if err != nil {
			c.fail(where+": operator state", err)
			continue
		}
		c.entries++
		at := fmt.Sprintf("%s: state %q, element %d", where, e.State.Name, e.Index)
		key := c.decode(at+": key", e.DecodeKey, e.AppendKeyJSON)
		value := c.decode(at, e.DecodeValue, e.AppendValueJSON)
		c.lines[elementLine(into.meta.ID.String(), subtask, e, key, value)]++
		if raw {
			into.rawOperator = append(into.rawOperator, bytes.Clone(e.Value))
			continue
		}
		to := into.states[e.State.Name]
		if to == nil || to.mode != e.State.Mode {
			c.fail(at, errors.New("a state that was not announced, or in another mode"))
			continue
		}
		if to.mode == metadata.ModeBroadcast {
			to.maps[subtask] = append(to.maps[subtask], serializer.MapEntry{Key: key, Value: value})
		} else {
			to.lists[subtask] = append(to.lists[subtask], value)
		}
	}
}

// decode decodes a part of an entry, and demands that its JSON, which is made
// on a faster way, is that of the value.
func (c *content) decode(where string, decode func() (any, error), appendJSON func([]byte) ([]byte, error)) any {
	v, err := decode()
	if err != nil && !unsupported(err) {
		c.fail(where, err)
	}
	text, err := appendJSON(nil)
	if err != nil && !unsupported(err) {
		c.fail(where+" as JSON", err)
	}
	if want := serializer.AppendJSON(nil, v); !bytes.Equal(text, want) || !json.Valid(text) {
		c.fail(where, fmt.Errorf("%w: the JSON is %s, that of the value %s", errDiffers, text, want))
	}
	return v
}

// errDiffers says that two ways to the same thing lead to different ones.
var errDiffers = errors.New("differs")

// unsupported says that an error only tells what an [serializer.Opaque] value tells too.
func unsupported(err error) bool { return errors.Is(err, serializer.ErrUnsupported) }

func (c *content) readKeyed(ctx context.Context, files backend.Files, where string, into *operatorContent, subtask int, h metadata.Keyed, raw bool) {
	r, err := backend.OpenKeyed(ctx, files, h, backend.Options{MaxParallelism: int(into.meta.MaxParallelism), Raw: raw})
	if err != nil {
		c.fail(where+": keyed state", err)
		return
	}
	defer r.Close()
	groups, own := r.KeyGroups(), keygroup.RangeOf(subtask, int(into.meta.MaxParallelism), int(into.meta.Parallelism))
	if groups != own {
		c.fail(where, fmt.Errorf("key groups %v of the handle, %v of the subtask", groups, own))
	}
	for _, s := range r.States() {
		if into.keyed[s.Meta.Name] == nil && s.Type != backend.TypeUnknown {
			into.keyed[s.Meta.Name] = &keyedContent{typ: s.Type, ttl: s.TTL}
		}
	}
	for e, err := range r.Entries(ctx, backend.Filter{}) {
		if err != nil {
			c.fail(where+": keyed state", err)
			continue
		}
		c.entries++
		if e.KeyGroup < groups.Start || e.KeyGroup > groups.End {
			c.fail(where, fmt.Errorf("key group %d is not in the range %v of the handle", e.KeyGroup, groups))
		}
		d := c.decodeEntry(where, subtask, e)
		c.lines[keyedLine(into.meta.ID.String(), e, &d)]++
		if raw && r.Format() == "raw" {
			into.rawKeyed[e.KeyGroup] = append(into.rawKeyed[e.KeyGroup], e.Value...)
			continue
		}
		to := into.keyed[e.State.Meta.Name]
		if to == nil {
			to = &keyedContent{typ: e.State.Type, ttl: e.State.TTL}
			into.keyed[e.State.Meta.Name] = to
		}
		to.entries = append(to.entries, d)
	}
}

// decodeEntry decodes an entry of keyed state.
func (c *content) decodeEntry(where string, subtask int, e *backend.Entry) keyedEntry {
	at := fmt.Sprintf("%s: state %q, key group %d, key %x", where, e.State.Meta.Name, e.KeyGroup, e.Key)
	return keyedEntry{
		key:       c.decode(at+": key", e.DecodeKey, e.AppendKeyJSON),
		namespace: c.decode(at+": namespace", e.DecodeNamespace, e.AppendNamespaceJSON),
		userKey:   c.decode(at+": user key", e.DecodeUserKey, e.AppendUserKeyJSON),
		value:     c.decode(at+": value", e.DecodeValue, e.AppendValueJSON),
		timestamp: e.Timestamp, group: e.KeyGroup, subtask: subtask,
	}
}
