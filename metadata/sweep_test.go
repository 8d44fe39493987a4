package metadata

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixtures lists every _metadata file of the shared fixtures, or skips.
func fixtures(t testing.TB) []string {
	root := filepath.Join("..", "..", "shared", "fixtures")
	if _, err := os.Stat(root); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal("the shared fixtures are missing")
		}
		t.Skip("needs the shared fixtures beside the checkout")
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.Type().IsRegular() && (strings.HasPrefix(name, "_metadata") || strings.HasSuffix(name, "._metadata")) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestFixturesRoundTrip checks the law on every file that real Flink wrote.
func TestFixturesRoundTrip(t *testing.T) {
	files := fixtures(t)
	refused := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Decode(data)
		if err != nil {
			if errors.Is(err, ErrVersion) && bytes.Equal(data[4:8], []byte{0, 0, 0, 0}) {
				refused++
				continue
			}
			t.Errorf("%s: %v", f, err)
			continue
		}
		out, err := Encode(s)
		if err != nil {
			t.Errorf("%s: encode: %v", f, err)
		} else if !bytes.Equal(out, data) {
			t.Errorf("%s: encode gives other bytes", f)
		}
	}
	t.Logf("%d files, %d of them refused for version 0", len(files), refused)
}
