package backend_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/javaio"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

const public = "../../shared/fixtures/public"

// needPublic skips a test where Flink's own fixtures are missing.
func needPublic(t *testing.T) {
	if _, err := os.Stat(public); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatalf("DREY_INTEROP=1, but: %v", err)
		}
		t.Skipf("no fixtures of Flink: %v", err)
	}
}

// handles are the state of one subtask.
type handles struct {
	managedOperator, rawOperator []*metadata.OperatorState
	managedKeyed, rawKeyed       []metadata.Keyed
	legacy                       []metadata.Stream
	maxParallelism               int
	dir                          string
}

// savepoint gives the handles of a _metadata file.
func savepoint(t *testing.T, path string) []handles {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var all []handles
	for i := range s.Operators {
		o := &s.Operators[i]
		for j := range o.Subtasks {
			state := o.Subtasks[j].State
			if state == nil {
				continue
			}
			h := handles{
				managedOperator: state.ManagedOperator, rawOperator: state.RawOperator, legacy: state.Legacy,
				maxParallelism: int(o.MaxParallelism), dir: dir,
			}
			if state.ManagedKeyed != nil {
				h.managedKeyed = append(h.managedKeyed, state.ManagedKeyed)
			}
			if state.RawKeyed != nil {
				h.rawKeyed = append(h.rawKeyed, state.RawKeyed)
			}
			all = append(all, h)
		}
	}
	return all
}

// operatorSnapshot reads a file of Flink's test class OperatorSnapshotUtil: lists of
// handles, each as in a _metadata file of version 2 or 3.
func operatorSnapshot(t *testing.T, path string) handles {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(string(data), "\xac\xed\x00\x05") {
		return javaSnapshot(t, data)
	}
	r := handleReader{javaio.NewReader(data)}
	version := r.I32("version")
	r.stream()
	h := handles{dir: filepath.Dir(path), maxParallelism: 1}
	for range r.I32("raw operator") {
		h.rawOperator = append(h.rawOperator, r.operator())
	}
	for range r.I32("managed operator") {
		h.managedOperator = append(h.managedOperator, r.operator())
	}
	for range r.I32("raw keyed") {
		h.rawKeyed = append(h.rawKeyed, r.keyed(&h))
	}
	for range r.I32("managed keyed") {
		h.managedKeyed = append(h.managedKeyed, r.keyed(&h))
	}
	if version >= 3 && r.Remaining() == 8 && (r.I32("input channels") != 0 || r.I32("output channels") != 0) {
		t.Fatal("channel state")
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if r.Remaining() != 0 {
		t.Fatalf("%d bytes left at %d", r.Remaining(), r.Offset())
	}
	return h
}

// javaSnapshot finds the handles in a file of Java objects: keyed state, managed
// and then raw.
func javaSnapshot(t *testing.T, data []byte) handles {
	t.Helper()
	h := handles{maxParallelism: 1}
	var seen []*javaio.Object
	var find func(v javaio.Value)
	find = func(v javaio.Value) {
		o, ok := v.(*javaio.Object)
		if !ok || slices.Contains(seen, o) {
			return
		}
		seen = append(seen, o)
		if o.Class.Name == "org.apache.flink.runtime.state.KeyGroupsStateHandle" {
			if k := javaKeyGroups(o, &h); len(h.managedKeyed) == 0 {
				h.managedKeyed = append(h.managedKeyed, k)
			} else {
				h.rawKeyed = append(h.rawKeyed, k)
			}
		}
		for _, part := range o.Data {
			for _, v := range part.Fields {
				find(v)
			}
			for _, v := range part.Annotations {
				find(v)
			}
		}
	}
	contents, err := javaio.ParseContents(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range contents {
		find(v)
	}
	return h
}

func javaKeyGroups(o *javaio.Object, of *handles) *metadata.KeyGroups {
	offsets := o.Field("groupRangeOffsets").(*javaio.Object)
	h := &metadata.KeyGroups{Form: metadata.KeyGroupsV1}
	h.Start = offsets.Field("keyGroupRange").(*javaio.Object).Int("startKeyGroup")
	longs := offsets.Field("offsets").(*javaio.Array)
	for i := range longs.Len {
		h.Offsets = append(h.Offsets, int64(binary.BigEndian.Uint64(longs.Primitives[8*i:])))
	}
	stream := o.Field("stateHandle").(*javaio.Object)
	h.Delegate = &metadata.ByteStream{
		Name: metadata.Text(stream.Text("handleName")), Data: stream.Field("data").(*javaio.Array).Primitives,
	}
	of.maxParallelism = max(of.maxParallelism, int(h.Start)+len(h.Offsets))
	return h
}

type handleReader struct{ *javaio.Reader }

func (r handleReader) operator() *metadata.OperatorState {
	switch tag := r.U8("tag"); tag {
	case 0:
		return nil
	case 4:
	default:
		r.Fail(r.Offset(), "operator state", fmt.Errorf("tag %d", tag))
	}
	h := new(metadata.OperatorState)
	for n := r.I32("states"); n > 0 && !r.Failed(); n-- {
		h.States = append(h.States, metadata.StateOffsets{
			Name: metadata.Text(r.UTF("name")), Mode: metadata.Mode(r.U8("mode")), Offsets: r.I64s("offsets"),
		})
	}
	h.Delegate = r.stream()
	return h
}

func (r handleReader) keyed(of *handles) metadata.Keyed {
	tag := r.U8("tag")
	if tag == 0 {
		return nil
	}
	if tag != 3 && tag != 12 {
		r.Fail(r.Offset(), "keyed state", fmt.Errorf("tag %d", tag))
		return nil
	}
	h := &metadata.KeyGroups{Form: metadata.KeyGroupsV1}
	h.Start = r.I32("start")
	h.Offsets = r.I64s("offsets")
	h.Delegate = r.stream()
	if tag == 12 {
		h.Form, h.ID = metadata.KeyGroupsV2, metadata.Text(r.UTF("id"))
	}
	of.maxParallelism = max(of.maxParallelism, int(h.Start)+len(h.Offsets))
	return h
}

func (r handleReader) stream() metadata.Stream {
	switch tag := r.U8("tag"); tag {
	case 0:
		return nil
	case 1:
		return &metadata.ByteStream{Name: metadata.Text(r.UTF("name")), Data: r.Bytes("data")}
	default:
		r.Fail(r.Offset(), "stream", fmt.Errorf("tag %d", tag))
		return nil
	}
}

// tally counts what was read, and what was not.
type tally struct {
	files, handles, entries int
	opaque                  map[string]int // by class and reason
	lost                    map[string]int
	headers                 int
}

func (n *tally) value(t *testing.T, v any, err error) {
	n.opaques(v)
	if err != nil && !errors.Is(err, serializer.ErrUnsupported) {
		t.Error(err)
	}
}

// opaques counts the values that are not decoded, wherever they are in v.
func (n *tally) opaques(v any) {
	switch v := v.(type) {
	case serializer.Opaque:
		n.opaque[v.Class+": "+v.Reason]++
	case []any:
		for _, e := range v {
			n.opaques(e)
		}
	case serializer.Map:
		for _, e := range v {
			n.opaques(e.Key)
			n.opaques(e.Value)
		}
	case *serializer.Record:
		for _, f := range v.Fields {
			n.opaques(f.Value)
		}
	case serializer.Either:
		n.opaques(v.Value)
	case serializer.TTL:
		n.opaques(v.Value)
	case serializer.Timer:
		n.opaques(v.Key)
		n.opaques(v.Namespace)
	}
}

// read reads all of a subtask's state.
func (n *tally) read(t *testing.T, h handles) {
	t.Helper()
	ctx := context.Background()
	files := backend.Files{FS: storage.NewLocal(storage.LocalOptions{}), Dir: h.dir}
	for _, k := range h.managedKeyed {
		n.keyed(ctx, t, files, k, backend.Options{MaxParallelism: h.maxParallelism})
	}
	for _, k := range h.rawKeyed {
		n.keyed(ctx, t, files, k, backend.Options{MaxParallelism: h.maxParallelism, Raw: true})
	}
	for _, o := range h.managedOperator {
		n.operator(ctx, t, files, o, backend.Options{})
	}
	for _, o := range h.rawOperator {
		n.operator(ctx, t, files, o, backend.Options{Raw: true})
	}
	for _, s := range h.legacy {
		if s == nil {
			continue
		}
		n.handles++
		r, err := backend.OpenLegacy(ctx, files, s, backend.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		n.elements(ctx, t, r)
	}
}

func (n *tally) keyed(ctx context.Context, t *testing.T, files backend.Files, h metadata.Keyed, o backend.Options) {
	if h == nil {
		return
	}
	n.handles++
	r, err := backend.OpenKeyed(ctx, files, h, o)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	if err := r.HeaderErr(); err != nil && (!errors.Is(err, serializer.ErrUnsupported) || !strings.Contains(err.Error(), `"org.apache.flink.test.`)) {
		t.Error(err)
	}
	if header := r.Header(); header != nil && r.HeaderErr() == nil {
		n.headers++
		if k, ok := h.(*metadata.KeyGroups); ok {
			checkHeader(t, k.Delegate, header)
		}
	}
	for e, err := range r.Entries(ctx, backend.Filter{}) {
		if err != nil {
			n.fail(t, err)
			continue
		}
		n.entries++
		for _, decode := range []func() (any, error){e.DecodeKey, e.DecodeNamespace, e.DecodeUserKey, e.DecodeValue} {
			v, err := decode()
			n.value(t, v, err)
		}
	}
}

func (n *tally) operator(ctx context.Context, t *testing.T, files backend.Files, h *metadata.OperatorState, o backend.Options) {
	if h == nil {
		return
	}
	n.handles++
	r, err := backend.OpenOperator(ctx, files, h, o)
	if err != nil {
		t.Error(err)
		return
	}
	if header := r.Header(); header != nil {
		n.headers++
		checkHeader(t, h.Delegate, header)
	}
	n.elements(ctx, t, r)
}

func (n *tally) elements(ctx context.Context, t *testing.T, r *backend.OperatorReader) {
	defer r.Close()
	for e, err := range r.Entries(ctx, nil) {
		if err != nil {
			n.fail(t, err)
			continue
		}
		n.entries++
		k, err := e.DecodeKey()
		n.value(t, k, err)
		v, err := e.DecodeValue()
		n.value(t, v, err)
	}
}

// fail counts entries of which nothing tells where they end: a value in a
// file of the heap backend that only Kryo or the job's own classes can read.
func (n *tally) fail(t *testing.T, err error) {
	var lost *backend.LostError
	if !errors.As(err, &lost) || !errors.Is(err, serializer.ErrUnsupported) && !strings.Contains(err.Error(), "cannot be found") {
		t.Error(err)
		return
	}
	text := lost.Err.Error()
	n.lost[text[strings.LastIndex(text, ": offset")+1:]]++
}

// checkHeader writes a header and compares with the file.
func checkHeader(t *testing.T, s metadata.Stream, header interface{ Write(*serializer.Output) }) {
	t.Helper()
	b, ok := s.(*metadata.ByteStream)
	if !ok {
		return
	}
	var out serializer.Output
	header.Write(&out)
	if out.Err() != nil {
		t.Error(out.Err())
	} else if !strings.HasPrefix(string(b.Data), string(out.Bytes())) {
		t.Errorf("a header of %d bytes is not written as it was read", out.Len())
	}
}

func newTally() *tally { return &tally{opaque: map[string]int{}, lost: map[string]int{}} }

func (n *tally) add(m *tally) {
	n.files += m.files
	n.handles += m.handles
	n.headers += m.headers
	n.entries += m.entries
	for k, v := range m.opaque {
		n.opaque[k] += v
	}
	for k, v := range m.lost {
		n.lost[k] += v
	}
}

// unknowable are the classes that only the jobs themselves, or Kryo, can read,
// and what else no file tells.
var unknowable = []string{
	"org.apache.flink.streaming.runtime.operators.windowing.NonPojoType", "org.apache.flink.cep.Event",
	"org.apache.flink.test.migration.TypeSerializerSnapshotMigrationITCase$TestSerializer",
	"org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition",
	"org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber",
	`"org.apache.flink.cep.nfa.NFAStateSerializer"`,                    // of builds between Flink 1.5 and 1.6
	"org.apache.flink.cep.nfa.State: it holds itself",                  // states refer to each other
	"change: the serializer of keys or namespaces",                     // a changelog without a base
	"the states behind it cannot be found", ": no serializer is known", // raw state
}

func (n *tally) log(t *testing.T, what string) {
	for _, list := range []map[string]int{n.opaque, n.lost} {
		for k := range list {
			if !slices.ContainsFunc(unknowable, func(s string) bool { return strings.Contains(k, s) }) {
				t.Errorf("%s: not decoded: %s", what, k)
			}
		}
	}
	t.Logf("%s: %d files, %d handles, %d headers, %d entries", what, n.files, n.handles, n.headers, n.entries)
	for _, k := range slices.Sorted(maps.Keys(n.opaque)) {
		t.Logf("  %d not decoded: %s", n.opaque[k], k)
	}
	for _, k := range slices.Sorted(maps.Keys(n.lost)) {
		t.Logf("  %d lost: %s", n.lost[k], k)
	}
}

// Snapshots that Flink 1.2 and later wrote are read to their end.
func TestPublicSavepoints(t *testing.T) {
	needPublic(t)
	all := newTally()
	releases, err := filepath.Glob(filepath.Join(public, "flink-tests", "1.*"))
	if err != nil || len(releases) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, dir := range releases {
		release := filepath.Base(dir)
		if release == "1.1" {
			continue // its _metadata is not understood
		}
		t.Run(release, func(t *testing.T) {
			n := newTally()
			for _, path := range metadataFiles(t, dir) {
				n.files++
				t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
					for _, h := range savepoint(t, path) {
						n.read(t, h)
					}
				})
			}
			n.log(t, "snapshots of "+release)
			all.add(n)
		})
	}
	all.log(t, "snapshots of all releases")
	if all.files < 252 || all.handles < 3366 || all.entries < 11022 {
		t.Error("fewer than there were")
	}
}

// metadataFiles finds the snapshots below a directory.
func metadataFiles(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "_metadata" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("no snapshots in %s: %v", dir, err)
	}
	return paths
}

// Operator snapshots of Flink 1.2 and later are read to their end.
func TestOperatorSnapshots(t *testing.T) {
	needPublic(t)
	paths, err := filepath.Glob(filepath.Join(public, "operator-snapshots", "*", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no snapshots: %v", err)
	}
	all := newTally()
	skipped := 0
	for _, path := range paths {
		release := filepath.Base(filepath.Dir(path))
		if release == "1.1" {
			skipped++ // Java objects of classes that are gone since Flink 1.2
			continue
		}
		all.files++
		t.Run(release+"/"+filepath.Base(path), func(t *testing.T) { all.read(t, operatorSnapshot(t, path)) })
	}
	all.log(t, fmt.Sprintf("operator snapshots (%d of Flink 1.1 passed over)", skipped))
	if all.files < 344 || all.handles < 397 || all.entries < 770 {
		t.Error("fewer than there were")
	}
}
