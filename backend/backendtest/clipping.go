package backendtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// countingFS is a store that counts the bytes that are read.
type countingFS struct {
	storage.FS
	n *atomic.Int64
}

type countingObject struct {
	storage.Object
	n *atomic.Int64
}

func (c countingFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	o, err := c.FS.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	return countingObject{o, c.n}, nil
}

func (o countingObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	o.n.Add(int64(n))
	return n, err
}

// testClipping restores a few key groups of a large file, of which the others must not be read.
func testClipping(t *testing.T, open Opener) {
	source := open(t, All, nil)
	v := made[backend.Value[void, []byte]](t)(state.OpenValue(source, value("bytes", serializer.ForBytes())))
	d := rand.New(rand.NewPCG(11, 0))
	groups := keygroup.Range{Start: 60, End: 63}
	want := map[string]string{}
	for i := range 2000 {
		k := fmt.Sprint("key ", i)
		bytes := make([]byte, 4<<10) // that can't be compressed
		for at := 0; at < len(bytes); at += 8 {
			binary.LittleEndian.PutUint64(bytes[at:], d.Uint64())
		}
		must(t, source.SetKey(k))
		must(t, v.Set(bytes))
		if g := keygroup.ForHash(keygroup.StringHash(k), MaxParallelism); g >= groups.Start && g <= groups.End {
			want[k] = string(bytes)
		}
	}
	for _, o := range []backend.SnapshotOptions{{}, {Compress: true}, {Format: backend.FormatFull}, {Format: backend.FormatFull, Compress: true}, {Format: backend.FormatRocksDB}, {Format: backend.FormatIncremental}} {
		fs := countingFS{storage.NewMemory(), new(atomic.Int64)}
		h := save(t, source, fs, inFile, o)
		b := open(t, groups, nil)
		must(t, restore(b, fs, h))
		v := made[backend.Value[void, []byte]](t)(state.OpenValue(b, value("bytes", serializer.ForBytes())))
		equal(t, "number", made[int64](t)(b.Len("bytes")), int64(len(want)))
		for k, w := range want {
			must(t, b.SetKey(k))
			got, ok, err := v.Get()
			if string(got) != w || !ok || err != nil {
				t.Fatalf("%+v: key %q: %d bytes, %v, %v", o, k, len(got), ok, err)
			}
		}
		// 4 of 128 key groups, and what is read ahead. Files of a database are read as a whole.
		if n, all := fs.n.Load(), int64(2000*4<<10); n > all/8 && o.Format != backend.FormatIncremental {
			t.Errorf("%+v: %d bytes of %d were read", o, n, all)
		}
		must(t, b.Close())
	}
}
