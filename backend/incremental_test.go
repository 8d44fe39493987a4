package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// patched is a store in which some objects have other bytes, or none.
type patched struct {
	storage.FS
	patches map[string][]byte // by the end of the URI; nil: there is no such object
}

func (p patched) Open(ctx context.Context, uri string) (storage.Object, error) {
	data, ok := p.patches[storage.Base(uri)]
	switch {
	case !ok:
		return p.FS.Open(ctx, uri)
	case data == nil:
		return nil, fmt.Errorf("open %s: %w", uri, fs.ErrNotExist)
	}
	return inline(data), nil
}

// rocksFixture is the checkpoint in testdata.
func rocksFixture(t testing.TB) (Files, []*metadata.Incremental) {
	t.Helper()
	dir, err := filepath.Abs("testdata/2.3.0/ck-rocksdb-incr-list")
	if err != nil {
		t.Fatal(err)
	}
	chk := filepath.Join(dir, "ckpt", "f2899b63582b388fbff74481ca13dae9", "chk-2")
	data, err := os.ReadFile(filepath.Join(chk, "_metadata"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	var handles []*metadata.Incremental
	for _, h := range (fixture{snapshot: s}).keyed() {
		handles = append(handles, h.handle.(*metadata.Incremental))
	}
	if len(handles) != 2 {
		t.Fatalf("%d handles", len(handles))
	}
	return Files{FS: moved{storage.NewLocal(storage.LocalOptions{}), dir}, Dir: "file:" + chk}, handles
}

// rocksMeta is the header in the meta file of a handle.
func rocksMeta(t testing.TB, files Files, h *metadata.Incremental) *KeyedHeader {
	t.Helper()
	obj, err := files.Open(context.Background(), h.Meta)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	r, err := obj.Reader(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	in := serializer.NewInput(data)
	head := ReadKeyedHeader(in)
	if in.Err() != nil || !in.AtEnd() || !bytes.Equal(headerBytes(t, head), data) {
		t.Fatal(in.Err())
	}
	return head
}

func openRocks(t testing.TB, files Files, h *metadata.Incremental) *KeyedReader {
	t.Helper()
	r, err := OpenKeyed(context.Background(), files, h, Options{MaxParallelism: 128})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRocksDB compares lists with what the job held.
func TestRocksDB(t *testing.T) {
	data, err := os.ReadFile("testdata/2.3.0/ck-rocksdb-incr-list/truth.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]map[string][]any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	got = map[string]map[string][]any{}
	files, handles := rocksFixture(t)
	for _, h := range handles {
		r := openRocks(t, files, h)
		for e, err := range r.Entries(context.Background(), Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.State.Type == TypeTimers {
				continue
			}
			key, err := e.DecodeKey()
			if err != nil {
				t.Fatal(err)
			}
			text, err := e.AppendValueJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			var list []any
			if err := json.Unmarshal(text, &list); err != nil {
				t.Fatal(err)
			}
			name := e.State.Meta.Name
			if got[name] == nil {
				got[name] = map[string][]any{}
			}
			got[name][key.(string)] = list
		}
	}
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("got %s\nwant %s", g, w)
	}
}

// TestRocksDBRange: after another parallelism the files hold more key groups than the handle has.
func TestRocksDBRange(t *testing.T) {
	files, handles := rocksFixture(t)
	h := *handles[0]
	whole := raws(t, openRocks(t, files, &h), Filter{})
	var half []string
	for _, part := range []metadata.KeyGroupRange{{Start: 0, Count: 20}, {Start: 20, Count: 44}} {
		h.KeyGroups = part
		half = append(half, raws(t, openRocks(t, files, &h), Filter{})...)
	}
	slices.Sort(half)
	if len(whole) == 0 || !slices.Equal(half, whole) {
		t.Errorf("%d entries of two ranges, %d of one", len(half), len(whole))
	}
	h.KeyGroups = metadata.KeyGroupRange{Start: 0, Count: 200}
	if _, err := OpenKeyed(context.Background(), files, &h, Options{MaxParallelism: 128}); !errors.Is(err, serializer.ErrCorrupt) {
		t.Error(err)
	}
}

// TestRocksDBHeader: the header and the column families do not fit.
func TestRocksDBHeader(t *testing.T) {
	files, handles := rocksFixture(t)
	h := *handles[0]
	whole := raws(t, openRocks(t, files, &h), Filter{})
	head := rocksMeta(t, files, &h)
	meta := func(data []byte) *KeyedReader {
		h.Meta = &metadata.ByteStream{Name: "meta", Data: data}
		return openRocks(t, files, &h)
	}

	// A state that only the header has.
	more := *head
	more.States = append(slices.Clone(head.States), keyValue("more", TypeValue, simple(longClass), simple(voidNamespace)))
	var lost *LostError
	for _, err := range meta(headerBytes(t, &more)).Entries(context.Background(), Filter{}) {
		if err != nil && (!errors.As(err, &lost) || lost.State != "more") {
			t.Error(err)
		}
	}
	if lost == nil {
		t.Error("a state without a column family is no error")
	}

	// A state that only the database has, and one behind a serializer that is
	// not known: there are keys and values.
	less := *head
	less.States = head.States[:1]
	broken := headerBytes(t, head)
	i := bytes.Index(broken, []byte("StringSerializer$")) // of the keys
	j := i + 1 + bytes.Index(broken[i+1:], []byte("ListSerializerSnapshot"))
	broken[j] = 'X'
	broken[bytes.Index(broken, []byte(head.States[0].Name))-3]++ // the number of states, so that no end fits
	for name, data := range map[string][]byte{"less": headerBytes(t, &less), "broken": broken} {
		r := meta(data)
		if (r.HeaderErr() != nil) != (name == "broken") {
			t.Errorf("%s: %v", name, r.HeaderErr())
		}
		n, joined := 0, 0
		for e, err := range r.Entries(context.Background(), Filter{}) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			n++
			if !e.Joined {
				continue
			}
			joined++
			key, err1 := e.DecodeKey()
			namespace, err2 := e.DecodeNamespace()
			value, err3 := e.DecodeValue()
			if s, _ := key.(string); !strings.HasPrefix(s, "key-") || errors.Join(err1, err2, err3) != nil {
				t.Errorf("%s: %v %v %v %v", name, key, namespace, value, errors.Join(err1, err2, err3))
			}
			if text, err := e.AppendNamespaceJSON(nil); err != nil || string(text) != string(serializer.AppendJSON(nil, namespace)) {
				t.Errorf("%s: %s %v", name, text, err)
			}
		}
		if n != len(whole) || joined == 0 {
			t.Errorf("%s: %d entries, %d with a joined key, want %d", name, n, joined, len(whole))
		}
	}

	// Bytes behind the header, and a header that is cut.
	for _, data := range [][]byte{append(headerBytes(t, head), 0), headerBytes(t, head)[:100], nil} {
		h.Meta = &metadata.ByteStream{Name: "meta", Data: data}
		if _, err := OpenKeyed(context.Background(), files, &h, Options{MaxParallelism: 128}); err == nil || !strings.HasPrefix(err.Error(), "meta: ") {
			t.Error(err)
		}
	}
}

// TestRocksDBDamage: a table that is damaged or missing is a loss of its
// state only; one that the store does not give ends the sequence.
func TestRocksDBDamage(t *testing.T) {
	files, handles := rocksFixture(t)
	h := handles[0]
	whole := raws(t, openRocks(t, files, h), Filter{})
	var table string
	for _, f := range h.Shared {
		if f, ok := f.Stream.(*metadata.File); ok {
			table = storage.Base(f.Path.String())
		}
	}
	obj, err := files.FS.Open(context.Background(), "file:"+filepath.Join(files.FS.(moved).caseDir, "ckpt", "f2899b63582b388fbff74481ca13dae9", "shared", table))
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	data := make([]byte, obj.Size())
	if _, err := obj.ReadAt(data, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	data[20] ^= 0x10
	for want, patch := range map[error][]byte{rocksdb.ErrChecksum: data, fs.ErrNotExist: nil} {
		damaged := Files{FS: patched{files.FS, map[string][]byte{table: patch}}, Dir: files.Dir}
		n, lost := 0, 0
		for _, err := range openRocks(t, damaged, h).Entries(context.Background(), Filter{}) {
			var l *LostError
			switch {
			case err == nil:
				n++
			case errors.As(err, &l) && l.State != "" && errors.Is(err, want):
				lost++
			default:
				t.Error(err)
			}
		}
		if n == 0 || n >= len(whole) || lost != 1 {
			t.Errorf("%v: %d entries of %d, %d losses", want, n, len(whole), lost)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := openRocks(t, files, h)
	for e, err := range r.Entries(ctx, Filter{}) {
		var l *LostError
		if e != nil || !errors.Is(err, context.Canceled) || errors.As(err, &l) {
			t.Error(e, err)
		}
	}
}
