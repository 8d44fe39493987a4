package backendtest

import (
	"context"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// RunLarge tests the limits as they are, near 2^31 bytes, where DREY_LARGE=1 says that there is memory for it.
// [RunLimits] does the same with small limits.
func RunLarge(t *testing.T, l Limits) {
	if os.Getenv("DREY_LARGE") != "1" {
		t.Skip("it takes 16 GiB of memory; DREY_LARGE=1 runs it")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	local := storage.NewLocal(storage.LocalOptions{})
	write := func(t *testing.T, b backend.Keyed[string], into string, o backend.SnapshotOptions) (metadata.Keyed, error) {
		t.Helper()
		s := made[backend.Snapshot](t)(b.Snapshot(1, o))
		return s.Write(t.Context(), backend.Target{FS: local, Dir: into})
	}
	open := func(t *testing.T) *bulky { return openBulky(t, l.Open(t, 0)) }
	t.Run("value", func(t *testing.T) {
		w := open(t)
		const size = backend.MaxSize - 4
		sum := setLarge(t, w, size)
		debug.FreeOSMemory()
		checkLarge(t, w, size, sum)
		must(t, w.value.Clear())
		debug.FreeOSMemory()
		err := w.value.Set(make([]byte, size+1))
		if l.AtOnce {
			tooLarge(t, err, "value")
			return
		}
		must(t, err)
		_, err = write(t, w.b, filepath.ToSlash(t.TempDir()), backend.SnapshotOptions{})
		tooLarge(t, err, "value")
	})
	t.Run("restored value", func(t *testing.T) {
		w, into := open(t), filepath.ToSlash(t.TempDir())
		const size = 1 << 30
		sum := setLarge(t, w, size)
		h := made[metadata.Keyed](t)(write(t, w.b, into, backend.SnapshotOptions{Compress: true}))
		must(t, w.b.Close())
		debug.FreeOSMemory()
		b := l.Open(t, 0)
		must(t, b.Restore(context.Background(), backend.Files{FS: local, Dir: into}, backend.Handles{Managed: []metadata.Keyed{h}}))
		checkLarge(t, openBulky(t, b), size, sum)
	})
	t.Run("list", func(t *testing.T) {
		w, into := open(t), filepath.ToSlash(t.TempDir())
		element := strings.Repeat("x", 600<<20)
		for range 4 {
			must(t, w.list.Add(element))
		}
		list, err := w.list.Get()
		if l.AtOnce {
			tooLarge(t, err, "list")
		} else if err != nil || len(list) != 4 {
			t.Fatalf("%d elements, %v", len(list), err)
		}
		_, err = write(t, w.b, into, backend.SnapshotOptions{})
		tooLarge(t, err, "list")
		if left, _ := filepath.Glob(filepath.Join(into, "*")); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
		must(t, w.list.Clear())
		must(t, w.list.Add("y"))
		_, err = write(t, w.b, into, backend.SnapshotOptions{})
		must(t, err)
	})
	if !l.AtOnce {
		return // for a heap it is the same as with values
	}
	t.Run("key", func(t *testing.T) {
		w := open(t)
		most := l.Key(backend.MaxSize)
		key := strings.Repeat("k", most+1)
		must(t, w.b.SetKey(key[:most/4]))
		must(t, w.value.Set([]byte("v")))
		v, ok, err := w.value.Get()
		if string(v) != "v" || !ok || err != nil {
			t.Fatalf("%d bytes, %v, %v", len(v), ok, err)
		}
		must(t, w.value.Clear())
		if err := w.b.SetKey(key); err == nil {
			t.Error("a key that is too large was taken")
		}
	})
}

// setLarge sets a value of so many bytes, and gives its checksum.
func setLarge(t *testing.T, w *bulky, size int) uint32 {
	t.Helper()
	v := make([]byte, size)
	for i := 0; i < len(v); i += 4096 {
		v[i] = byte(i >> 12)
	}
	must(t, w.value.Set(v))
	return crc32.ChecksumIEEE(v)
}

func checkLarge(t *testing.T, w *bulky, size int, sum uint32) {
	t.Helper()
	v, ok, err := w.value.Get()
	if !ok || err != nil || len(v) != size || crc32.ChecksumIEEE(v) != sum {
		t.Fatalf("%d bytes, %v, %v", len(v), ok, err)
	}
}
