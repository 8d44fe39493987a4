package storage

import (
	"os"
	"strings"
	"testing"
)

// TestFlinkPaths compares Clean and Join with what Flink's own Path class printed.
func TestFlinkPaths(t *testing.T) {
	data, err := os.ReadFile("testdata/flink-paths.tsv")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(`\\`, `\`, `\t`, "\t").Replace
	n := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case f[0] == "join":
			n++
			if got := Join(f[1], f[2]); got != f[3] {
				t.Errorf("Join(%q, %q) = %q, Flink says %q", f[1], f[2], got, f[3])
			}
		case strings.HasPrefix(f[1], "!"), f[0] == "/a:b/c":
			// Flink refuses what is no URI, and reads "/a:b/c" as a drive called "a",
			// although it is a path of every other system.
		default:
			n++
			if got := Clean(plain(f[0])); got != plain(f[1]) {
				t.Errorf("Clean(%q) = %q, Flink says %q", plain(f[0]), got, plain(f[1]))
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d vectors", n)
	}
}
