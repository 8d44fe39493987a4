package pebble_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// The hook of states is called once for each, opened or restored, and filters have the keys of those only that want it.
func TestConfigureState(t *testing.T) {
	var asked []string
	open := func() *pebble.Backend[string] {
		b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
			MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Dir: filepath.Join(t.TempDir(), "db"),
			ConfigureState: func(name string, o *pebble.StateOptions) {
				asked = append(asked, name)
				o.NoFilter = strings.HasPrefix(name, "without")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	value := func(b *pebble.Backend[string], name string) backend.Value[struct{}, int64] {
		v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: name, Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	b := open()
	names := []string{"without 2", "with", "without 1"}
	var states []backend.Value[struct{}, int64]
	for _, name := range names {
		states = append(states, value(b, name))
	}
	const keys = 500
	for i := range keys {
		if err := b.SetKey(fmt.Sprint("key", i)); err != nil {
			t.Fatal(err)
		}
		for n, v := range states {
			if err := v.Set(int64(n*keys + i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	for n, v := range states {
		before := b.DB().Metrics()
		if before.Levels[0].TablesCount == 0 {
			t.Fatal("nothing is in the level that has filters")
		}
		for i := range 2 * keys {
			key, there := fmt.Sprint("key", i), i < keys
			if !there {
				key = fmt.Sprint("key", i-keys, "none")
			}
			if err := b.SetKey(key); err != nil {
				t.Fatal(err)
			}
			got, ok, err := v.Get()
			if err != nil || ok != there || ok && got != int64(n*keys+i) {
				t.Fatalf("%s of %s: %d, %t, %v", key, names[n], got, ok, err)
			}
		}
		spared := b.DB().Metrics().Filter.Hits - before.Filter.Hits
		if with := names[n] == "with"; with && spared < keys*9/10 || !with && spared != 0 {
			t.Errorf("%s: filters spared %d reads of %d", names[n], spared, keys)
		}
	}
	if !slices.Equal(asked, names) {
		t.Errorf("asked for %q", asked)
	}

	s, err := b.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Write(t.Context(), backend.Target{InlineBelow: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	asked = nil
	again := open()
	if err := again.Restore(t.Context(), backend.Files{}, backend.Handles{Managed: []metadata.Keyed{h}}); err != nil {
		t.Fatal(err)
	}
	value(again, "with")
	value(again, "new")
	slices.Sort(asked)
	if want := []string{"new", "with", "without 1", "without 2"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// Options of a database that can't be are refused with what can be, and leave the memory as it was.
func TestTuningRefused(t *testing.T) {
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 8 << 20, Backends: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	o := pebble.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Memory: memory, Dir: filepath.Join(t.TempDir(), "db")}
	for _, c := range []struct {
		tuning pebble.Tuning
		want   string
	}{
		{pebble.Tuning{Profile: 4}, "profile 4: there is none of this number"},
		{pebble.Tuning{BlockSize: -1}, "block size: -1 is not from 1024 to 16777216"},
		{pebble.Tuning{BlockSize: math.MaxInt}, "block size"},
		{pebble.Tuning{IndexBlock: 1}, "index block: 1 is not from 1024"},
		{pebble.Tuning{BloomBits: 65}, "bits per key of bloom filters: 65 is not"},
		{pebble.Tuning{Compression: []pebble.Compression{9}}, "compression 9"},
		{pebble.Tuning{LevelBase: -1}, "level base: -1"},
		{pebble.Tuning{FileSize: -1}, "file size: -1"},
		{pebble.Tuning{Threads: -1}, "threads: -1"},
		{pebble.Tuning{WriteBuffer: 1}, "write buffer: 1 is not from 65536 to 2147483648"},
		{pebble.Tuning{WriteBuffers: 1}, "write buffers: 1 is not from 2 to 1024"},
		{pebble.Tuning{WriteBuffers: 100}, "100 write buffers in 4194304 bytes, at most 67108864 each: one must have 65536"},
	} {
		o.Tuning = c.tuning
		if b, err := pebble.Open(serializer.ForString(), o); err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.tuning, err)
		}
	}
	o.Tuning = pebble.Tuning{BloomBits: -1, WriteBuffers: 60}
	b, err := pebble.Open(serializer.ForString(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
