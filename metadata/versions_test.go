package metadata

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVersions refuses what can't be read, and says why.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		version int32
		says    string
	}{
		{0, "offset 4: version: version 0 is written by Flink 1.1, and only Flink 1.1 to 1.3 reads it: restore it there and take a new savepoint"},
		{7, "offset 4: version: version 7 is newer than this drey, which reads versions 1 to 6 (Flink 1.2 to 2.3): nothing after the header was decoded; use a newer drey"},
		{99, "offset 4: version: version 99 is newer than this drey, which reads versions 1 to 6 (Flink 1.2 to 2.3): nothing after the header was decoded; use a newer drey"},
		{-1, "offset 4: version: version -1: no Flink release writes it; the file is damaged"},
	} {
		data := binary.BigEndian.AppendUint32([]byte("\x49\x60\x67\x2d"), uint32(c.version))
		data = append(data, make([]byte, 100)...)
		s, err := DecodePartial(data)
		if s != nil || !errors.Is(err, ErrVersion) || err.Error() != c.says {
			t.Errorf("version %d: %v, %v\nwant %s", c.version, s, err, c.says)
		}
		if _, err := Encode(&Snapshot{Version: Version(c.version)}); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d is encoded: %v", c.version, err)
		}
	}
	// Version 1 is read; so the text for those that can't is in what reads it.
	s, _ := decode(t, "testdata/1.2.1/v1-0059._metadata")
	if s.Version != Version1 || s.Version.Writers() != "1.2" || s.Version.Readers() != "1.2 to 1.10" {
		t.Errorf("version %d, written by %s, read by %s", s.Version, s.Version.Writers(), s.Version.Readers())
	}
	_, err := Decode([]byte("PK\x03\x04\x00\x00\x00\x06"))
	if !errors.Is(err, ErrMagic) || err.Error() != "offset 0: magic: 0x504b0304 instead of 0x4960672d: not a _metadata file" {
		t.Errorf("wrong magic: %v", err)
	}
}

// TestVersionOf checks that each release's files have the version and
// dialect that the release is said to write.
func TestVersionOf(t *testing.T) {
	versions := map[string][]Version{ // the synthetic ones were also written in versions that the release can still write
		"1.2.1": {1}, "1.3.3": {2}, "1.8.3": {2}, "1.11.6": {3}, "1.12.7": {3}, "1.14.6": {3}, "1.15.4": {3},
		"1.17.2": {3, 4}, "1.20.5": {3, 4}, "2.3.0": {3, 4, 5, 6},
	}
	seen := map[Version]bool{}
	dialects := map[Dialect]bool{}
	for _, file := range testdata(t) {
		s, _ := decode(t, file)
		release := strings.Split(file, "/")[1]
		if !slices.Contains(versions[release], s.Version) {
			t.Errorf("%s: version %d", file, s.Version)
		}
		seen[s.Version] = true
		dialects[s.Dialect] = true
		if d := map[string]Dialect{"1.11.6": Dialect111, "1.14.6": Dialect114}[release]; s.Dialect != d && s.Dialect != DialectStandard {
			t.Errorf("%s: dialect %s", file, s.Dialect)
		}
	}
	if len(seen) != 6 || len(dialects) != 3 {
		t.Errorf("testdata has versions %v and dialects %v", seen, dialects)
	}
}

// allProperties is what Flink's class serializes to, by name.
func allProperties(t *testing.T) map[string]Properties {
	all := map[string]Properties{}
	for line := range strings.Lines(string(read(t, "testdata/properties.txt"))) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" {
			continue
		}
		p, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = p
	}
	return all
}

func TestPropertiesInfo(t *testing.T) {
	all := allProperties(t)
	want := map[string]PropertiesInfo{
		"null":                                      {},
		"checkpoint/RETAIN_ON_CANCELLATION":         {Kind: KindCheckpoint, Retention: "retained on cancellation"},
		"checkpoint/RETAIN_ON_FAILURE":              {Kind: KindCheckpoint, Retention: "retained on failure"},
		"checkpoint/NEVER_RETAIN_AFTER_TERMINATION": {Kind: KindCheckpoint, Retention: "never retained"},
		"savepoint/CANONICAL":                       {Kind: KindCanonicalSavepoint, Retention: "kept"},
		"savepoint-not-forced/CANONICAL":            {Kind: KindCanonicalSavepoint, Retention: "kept"},
		"suspend/CANONICAL":                         {Kind: KindCanonicalSavepoint, Retention: "kept", Stop: "suspend"},
		"terminate/CANONICAL":                       {Kind: KindCanonicalSavepoint, Retention: "kept", Stop: "terminate"},
		"savepoint/NATIVE":                          {Kind: KindNativeSavepoint, Retention: "kept"},
		"savepoint-not-forced/NATIVE":               {Kind: KindNativeSavepoint, Retention: "kept"},
		"suspend/NATIVE":                            {Kind: KindNativeSavepoint, Retention: "kept", Stop: "suspend"},
		"terminate/NATIVE":                          {Kind: KindNativeSavepoint, Retention: "kept", Stop: "terminate"},
		"unclaimed/CANONICAL":                       {Kind: KindCanonicalSavepoint, Retention: "kept"},
		"unclaimed/NATIVE":                          {Kind: KindCanonicalSavepoint, Retention: "kept"}, // there is one form
		"full/checkpoint":                           {Kind: KindFullCheckpoint, Retention: "never retained"},
	}
	for name, p := range all {
		if got, ok := p.Info(), len(p) > 0; got != want[name] || !ok {
			t.Errorf("%s: %+v instead of %+v", name, got, want[name])
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d forms", len(all))
	}
	if string(all["null"]) != string(NullProperties) {
		t.Errorf("null is %x", all["null"])
	}
	// What real jobs wrote is among them.
	known := map[string]bool{}
	for _, p := range all {
		known[string(p)] = true
	}
	for _, file := range testdata(t) {
		if s, _ := decode(t, file); s.Version >= Version4 && !known[string(s.Properties)] {
			t.Errorf("%s has other properties", file)
		}
	}
}

// TestFixturesKind compares the kind that the properties tell with the command
// that the snapshot was made by.
func TestFixturesKind(t *testing.T) {
	seen := map[PropertiesInfo]int{}
	for _, file := range fixtures(t) {
		c := caseOf(file)
		if c.dir == "" {
			continue
		}
		s, _ := decode(t, file)
		command := commandOf(t, file)
		var want PropertiesInfo
		switch {
		case strings.HasPrefix(command, "checkpoint"):
			want = PropertiesInfo{Kind: KindCheckpoint, Retention: "retained on cancellation"}
		case strings.Contains(command, "CANONICAL"):
			want = PropertiesInfo{Kind: KindCanonicalSavepoint, Retention: "kept"}
		case strings.Contains(command, "NATIVE"):
			want = PropertiesInfo{Kind: KindNativeSavepoint, Retention: "kept"}
		default:
			t.Fatalf("%s: command %q", file, command)
		}
		if strings.HasPrefix(command, "stop") {
			want.Stop = "suspend"
			if strings.Contains(command, "--drain") {
				want.Stop = "terminate"
			}
		}
		kind := want.Kind
		if s.Version < Version4 {
			want = PropertiesInfo{}
			// Flink 1.13 and later tell canonical savepoints by their handles, of keyed state.
			if kind != KindCanonicalSavepoint || strings.Contains(file, "/1.8.3/") || strings.Contains(file, "/1.12.7/") {
				kind = KindUnknown
			}
		}
		if got := s.Properties.Info(); got != want {
			t.Errorf("%s: %+v instead of %+v", file, got, want)
		}
		if got := s.Kind(); got != kind {
			t.Errorf("%s: %s instead of %s", file, got, kind)
		}
		seen[want]++
	}
	if len(seen) != 6 {
		t.Errorf("kinds of fixtures: %v", seen)
	}
}

// commandOf is how a snapshot of a fixture was made.
func commandOf(t *testing.T, file string) string {
	c := caseOf(file)
	switch c.Kind {
	case "chk":
		return "checkpoint"
	case "sp":
		if strings.HasSuffix(c.dir, "-native") {
			return "savepoint --type NATIVE"
		}
		return "savepoint --type CANONICAL"
	}
	for _, s := range c.Snapshots {
		if strings.HasSuffix(file, "/"+s.Dir+"/_metadata") {
			return s.Command
		}
	}
	t.Errorf("%s: not in truth.json", file)
	return ""
}

// TestPropertiesUnknown are properties that can't be understood: carried.
func TestPropertiesUnknown(t *testing.T) {
	for name, p := range map[string]string{
		"no Java":            "12345678",
		"another version":    "\xac\xed\x00\x06p",
		"a string":           "\xac\xed\x00\x05t\x00\x01a",
		"another class":      "\xac\xed\x00\x05sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00xp",
		"custom data":        "\xac\xed\x00\x05sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00xpw\x01ax",
		"own superclass":     "\xac\xed\x00\x05sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00xq\x00\x7e\x00\x00",
		"reference too far":  "\xac\xed\x00\x05q\x00\x7e\x00\x00",
		"reference too near": "\xac\xed\x00\x05q\x00\x00\x00\x00",
	} {
		s := &Snapshot{Version: Version4, Properties: Properties(p)}
		data, err := Encode(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := checkLaw(t, name, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.Properties.Info(); got.Kind != KindUnknown || got.Retention != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPublicVersions are the two files that only Flink 1.1 to 1.3 reads.
func TestPublicVersions(t *testing.T) {
	n := 0
	for _, file := range fixtures(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint32(data[4:]) == 0 {
			if _, err := Decode(data); !errors.Is(err, ErrVersion) {
				t.Errorf("%s: %v", file, err)
			}
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d files of version 0", n)
	}
}

// TestDialect114HasNoLaterTags puts tags of Flink 1.16 where a file of 1.14
// has a byte of that value: such a file must be refused or come out as it went in.
func TestDialect114HasNoLaterTags(t *testing.T) {
	files, err := filepath.Glob("testdata/1.14.6/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	later := map[byte]byte{byte(TagChangelog): byte(TagChangelogV2), byte(TagChangelogFile): byte(TagChangelogFileV2)}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range data {
			if to, ok := later[b]; ok {
				mutated := bytes.Clone(data)
				mutated[i] = to
				_, _ = checkLaw(t, fmt.Sprintf("%s, byte %d", f, i), mutated)
			}
		}
	}
}

// TestPropertiesOf: the same bytes as Flink's classes write.
func TestPropertiesOf(t *testing.T) {
	all := allProperties(t)
	for name, kind := range map[string]Kind{
		"null": KindUnknown, "savepoint/CANONICAL": KindCanonicalSavepoint, "savepoint/NATIVE": KindNativeSavepoint,
		"checkpoint/RETAIN_ON_CANCELLATION": KindCheckpoint,
	} {
		if got := PropertiesOf(kind); !bytes.Equal(got, all[name]) {
			t.Errorf("%v: %q\nwant %q", kind, got, all[name])
		}
	}
}
