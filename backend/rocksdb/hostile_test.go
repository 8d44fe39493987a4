package rocksdb

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// long says that DREY_LONG=1 asks for every case instead of a sample of them.
func long() bool { return os.Getenv("DREY_LONG") == "1" }

// maxAllocated bounds what a scan may allocate in all, live or not: some
// multiple of the checkpoint, as rows are kept in hexadecimal.
func maxAllocated(m memory) uint64 {
	n := 0
	for _, data := range m {
		n += len(data)
	}
	return uint64(200*n + 16<<20)
}

// checkDamaged reads a checkpoint of which something was changed: it must
// give an error with a file, or what the whole one gives.
func checkDamaged(t *testing.T, m memory, want map[string][]row, what string, mayDiffer bool) (failed bool) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := m.dump()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > maxAllocated(m) {
		t.Errorf("%s: %d bytes allocated", what, n)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.File == "" {
			t.Errorf("%s: %v is no *Error", what, err)
		} else if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrChecksum) && !errors.Is(err, ErrCorrupt) &&
			!errors.Is(err, ErrUnsupported) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v unwraps to nothing", what, err)
		}
		return true
	}
	if !mayDiffer && !maps.EqualFunc(got, want, slices.Equal[[]row]) {
		t.Errorf("%s: other rows and no error", what)
	}
	return false
}

// damaged visits the checkpoints of testdata with what they hold.
func damaged(t *testing.T, visit func(name string, m memory, want map[string][]row)) {
	for _, dir := range testdata(t) {
		m := load(t, dir)
		want, err := m.dump()
		if err != nil {
			t.Fatal(err)
		}
		visit(dir, m, want)
	}
}

// TestBitFlips flips single bits. Without checksums other rows may come out.
func TestBitFlips(t *testing.T) {
	flips, errs := 0, 0
	damaged(t, func(dir string, m memory, want map[string][]row) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, name := range slices.Sorted(maps.Keys(m)) {
			data := m[name]
			n := 40
			if long() {
				n = 4000
			}
			for range n {
				at := r.IntN(8 * len(data))
				bad := bytes.Clone(data)
				bad[at/8] ^= 1 << (at % 8)
				m[name] = bad
				unsafe := strings.Contains(dir, "crcnone") || !strings.HasPrefix(name, "MANIFEST") && at/8 >= len(data)-53
				flips++
				if checkDamaged(t, m, want, dir+"/"+name, unsafe) {
					errs++
				}
			}
			m[name] = data
		}
	})
	t.Logf("%d flips, %d errors", flips, errs)
}

// TestTruncated cuts each file.
func TestTruncated(t *testing.T) {
	damaged(t, func(dir string, m memory, want map[string][]row) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			data := m[name]
			stride := max(1, len(data)/25)
			if long() {
				stride = max(1, len(data)/2000)
			}
			for n := 0; n < len(data); n += stride {
				m[name] = data[:n]
				// A MANIFEST that ends between two records is sound by itself.
				manifest := strings.HasPrefix(name, "MANIFEST")
				if !checkDamaged(t, m, want, dir+"/"+name, manifest) && !manifest {
					t.Errorf("%s/%s: cut to %d of %d bytes it still passes", dir, name, n, len(data))
				}
			}
			delete(m, name)
			if !checkDamaged(t, m, want, dir+" without "+name, false) {
				t.Errorf("%s: %s is missing, and no error", dir, name)
			}
			m[name] = data
		}
	})
}

// TestManifestCut cuts a MANIFEST everywhere: an error, except between records.
func TestManifestCut(t *testing.T) {
	m := load(t, "testdata/whole/r8-atomic")
	for name, data := range m {
		if !strings.HasPrefix(name, "MANIFEST") {
			continue
		}
		l := &logReader{file: name, r: bytes.NewReader(data), size: int64(len(data))}
		ends := map[int64]bool{}
		for {
			_, _, ok, err := l.next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			ends[l.off] = true
		}
		for n := range len(data) {
			_, err := readManifest(name, bytes.NewReader(data[:n]), int64(n))
			if (err == nil) != ends[int64(n)] {
				t.Errorf("cut to %d: %v", n, err)
			}
			if err != nil && !errors.Is(err, ErrTruncated) {
				t.Errorf("cut to %d: %v is not ErrTruncated", n, err)
			}
		}
	}
}

// TestNoChecksums flips bits behind the checksums: with none in the footer
// the decoders themselves meet what is wrong.
func TestNoChecksums(t *testing.T) {
	damaged(t, func(dir string, m memory, want map[string][]row) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, name := range slices.Sorted(maps.Keys(m)) {
			data := m[name]
			if !strings.HasSuffix(name, ".sst") {
				continue
			}
			n := 200
			if long() {
				n = 20000
			}
			for range n {
				bad := bytes.Clone(data)
				if data[len(data)-1] != 0xdb { // not the legacy footer
					bad[len(bad)-footerSize] = checksumNone
				}
				for range 1 + r.IntN(3) {
					bad[r.IntN(len(bad)-footerSize)] = byte(r.Uint32())
				}
				m[name] = bad
				checkDamaged(t, m, want, dir+"/"+name, true)
			}
			m[name] = data
		}
	})
}
