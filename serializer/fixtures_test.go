package serializer_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// shared gives a directory of the shared fixtures, which are not part of the repository.
func shared(t testing.TB, dir string) string {
	t.Helper()
	dir = filepath.Join("..", "..", "shared", "fixtures", dir)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Skipf("needs the shared fixtures: %v", err)
	}
	return dir
}

// sampleValues are what Flink's tests put into the samples (the setups of its
// TypeSerializerUpgradeTestBase classes).
var sampleValues = map[string]string{
	"flink-runtime--arraylist-serializer":                          `["Apache","Flink"]`,
	"flink-runtime--java-serializer":                               `26`,
	"flink-runtime--ttl-serializer":                                `{"value":"hello Gordon","lastAccess":"1970-01-01T00:00:00.013Z"}`,
	"flink-runtime--void-namespace-serializer":                     `"VoidNamespace"`,
	"flink-streaming-java--buffer-entry-serializer":                `{"hasBeenJoined":false,"element":"hello"}`,
	"flink-streaming-java--global-window-serializer":               `"GlobalWindow"`,
	"flink-streaming-java--stream-element-serializer":              `{"timestamp":123456,"value":"key"}`,
	"flink-streaming-java--time-window-serializer":                 `{"start":12345,"end":67890}`,
	"flink-streaming-java--timer-serializer":                       `{"timestamp":12345,"key":"key","namespace":678}`,
	"flink-streaming-java--two-phase-commit-sink-state-serializer": `{"pendingTransaction":{"transaction":12,"startTime":1523467890},"pendingCommitTransactions":[{"transaction":123,"startTime":1567234890}],"context":"flink"}`,
	"flink-streaming-java--union-serializer-one":                   `{"one":"flink"}`,
	"flink-streaming-java--union-serializer-two":                   `{"two":23456}`,
}

// TestMigrationSamples reads the snapshots and values that every release of
// Flink from 1.11 to 1.19 wrote for its own tests of serializers.
func TestMigrationSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "public/serializer-snapshots"), "*", "*", "serializer-snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	decoded := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, err := os.ReadFile(filepath.Join(filepath.Dir(file), "test-data"))
		if err != nil {
			t.Fatal(err)
		}
		in := serializer.NewInput(raw)
		if version := in.I32(); version != 2 {
			t.Errorf("%s: version %d", file, version)
		}
		s := serializer.ReadSnapshot(in)
		if s == nil || in.Remaining() != 0 {
			t.Errorf("%s: %v, %d bytes left", file, in.Err(), in.Remaining())
			continue
		}
		out := serializer.NewOutput([]byte{0, 0, 0, 2})
		if s.Write(out); out.Err() != nil || !bytes.Equal(out.Bytes(), raw) {
			t.Errorf("%s: written again it is\n%x, not\n%x; %v", file, out.Bytes(), raw, out.Err())
		}
		name := filepath.Base(filepath.Dir(file))
		name = name[:strings.LastIndexByte(name, '-')]
		testValue(t, s, value, sampleValues[name])
		text := serializer.AppendJSON(nil, serializer.Of(s).Read(serializer.NewInput(value)))
		if bytes.Contains(text, []byte(`"@raw"`)) {
			t.Errorf("%s: opaque: %s", file, text)
		}
		decoded++
	}
	t.Logf("%d of %d decoded", decoded, len(files))
}

// TestFixtureSnapshots reads every snapshot that stands anywhere in the
// fixtures and writes it again.
func TestFixtureSnapshots(t *testing.T) {
	// What is not a snapshot by itself: before 1.7 a serializer as a Java
	// object belongs to it; the rest are Java objects of Flink 1.1, and a class of Flink's tests.
	other := regexp.MustCompile(`ConfigSnapshot$|\.state\.memory\.|\.RocksDBStateBackend\$|TypeSerializerSnapshotMigrationITCase`)
	read := 0
	err := filepath.WalkDir(shared(t, "."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := 2; ; at++ {
			next := bytes.Index(data[min(at, len(data)):], []byte("org.apache.flink."))
			if next < 0 {
				return nil
			}
			at += next
			rest := data[at:]
			n := int(binary.BigEndian.Uint16(data[at-2:]))
			if n > len(rest) || !bytes.HasSuffix(rest[:n], []byte("Snapshot")) {
				continue
			}
			in := serializer.NewInput(data[at-2:])
			s := serializer.ReadSnapshot(in)
			if s == nil {
				if !other.Match(rest[:n]) {
					t.Errorf("%s at %d: %v", path, at-2, in.Err())
				}
				continue
			}
			read++
			var out serializer.Output
			if s.Write(&out); out.Err() != nil || !bytes.HasPrefix(data[at-2:], out.Bytes()) || int64(out.Len()) != in.Offset() {
				t.Errorf("%s at %d: %s is written as %x; %v", path, at-2, s, out.Bytes(), out.Err())
			}
			at += out.Len() - 3 // those that are nested were read
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d snapshots", read)
	if read < 45_000 {
		t.Errorf("only %d snapshots", read)
	}
}
