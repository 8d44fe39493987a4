package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// MetadataName is the name of the file that makes a directory a snapshot.
const MetadataName = metadata.FileName

// maxMetadata is the largest _metadata file that is read, in bytes. Flink
// itself can't hold one of this size in a byte array.
const maxMetadata = math.MaxInt32

// Snapshot is a snapshot that was opened for reading.
type Snapshot struct {
	*metadata.Snapshot
	// URI names the metadata file, Dir the directory that holds it.
	URI, Dir string
	// Chosen says how the snapshot was found if the user named something
	// else, such as a job directory; "" if not.
	Chosen string
	// Data is the content of the metadata file. It must not be changed.
	Data []byte
}

// Locate finds the metadata file that arg means: a directory that holds
// _metadata, the metadata file itself under any name, or the directory of a
// job, which means its complete checkpoint with the highest number. chosen is
// a sentence about the choice in the last case, else "". Any other thing is
// an error that says what it is.
func Locate(ctx context.Context, fsys storage.FS, arg string) (uri, chosen string, err error) {
	arg = storage.Clean(arg)
	info, err := fsys.Stat(ctx, arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", notThere(ctx, fsys, arg, err)
	case errors.Is(err, fs.ErrPermission):
		return "", "", fmt.Errorf("%s: not readable: %w", arg, err)
	case err != nil:
		return "", "", err
	case !info.Dir:
		return arg, "", nil
	}
	meta := storage.Join(arg, MetadataName)
	switch info, err := fsys.Stat(ctx, meta); {
	case err == nil && !info.Dir:
		return meta, "", nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	}
	return locateBelow(ctx, fsys, arg)
}

// notThere explains a path that does not exist, with the entropy marker in mind.
func notThere(ctx context.Context, fsys storage.FS, arg string, err error) error {
	if other, ok := withoutMarker(arg); ok {
		if _, e := fsys.Stat(ctx, other); e == nil {
			return &worded{fmt.Sprintf("%s: does not exist, but %s does: Flink leaves the entropy marker out of the path of metadata", arg, other), err}
		}
	}
	if storage.Scheme(arg) != "file" {
		// A store has more to say, such as that there is no such bucket.
		return &worded{arg + ": does not exist: " + bareCause(err, arg), err}
	}
	return &worded{arg + ": does not exist", err}
}

// markerPattern is what entropy markers look like; the key is the user's
// choice, and the documentation's "_entropy_" is what people choose.
var markerPattern = regexp.MustCompile(`/_[a-zA-Z]*entropy[a-zA-Z]*_(/|$)`)

// withoutMarker gives the path that Flink uses for metadata where uri holds
// a literal entropy marker.
func withoutMarker(uri string) (string, bool) {
	loc := markerPattern.FindStringIndex(uri)
	if loc == nil {
		return "", false
	}
	return storage.Clean(uri[:loc[0]] + "/" + uri[loc[1]:]), true
}

// children is what lies directly in a directory.
type children struct {
	checkpoints []checkpointDir // highest number first
	savepoints  []string
	jobs        []string // directories named like a job id
	states      []string // shared, taskowned
	files, dirs int
}

type checkpointDir struct {
	uri string
	id  int64
}

var (
	jobIDPattern     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	savepointPattern = regexp.MustCompile(`^savepoint-[0-9a-f]{6}-[0-9a-f]{12}$`)
)

func readChildren(ctx context.Context, fsys storage.FS, dir string) (c children, err error) {
	for info, err := range fsys.ReadDir(ctx, dir) {
		if err != nil {
			return c, err
		}
		if !info.Dir {
			c.files++
			continue
		}
		c.dirs++
		name := storage.Base(info.URI)
		if id, ok := incremental.CheckpointNumber(name); ok {
			c.checkpoints = append(c.checkpoints, checkpointDir{info.URI, id})
		} else if savepointPattern.MatchString(name) {
			c.savepoints = append(c.savepoints, info.URI)
		} else if jobIDPattern.MatchString(name) {
			c.jobs = append(c.jobs, info.URI)
		} else if name == "shared" || name == "taskowned" {
			c.states = append(c.states, info.URI)
		}
	}
	slices.SortFunc(c.checkpoints, func(a, b checkpointDir) int {
		switch {
		case a.id > b.id:
			return -1
		case a.id < b.id:
			return 1
		}
		return strings.Compare(a.uri, b.uri)
	})
	sort.Strings(c.savepoints)
	sort.Strings(c.jobs)
	return c, nil
}

// locateBelow finds what a directory without _metadata means.
func locateBelow(ctx context.Context, fsys storage.FS, dir string) (uri, chosen string, err error) {
	c, err := readChildren(ctx, fsys, dir)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", dir, err)
	}
	for i, chk := range c.checkpoints {
		meta := storage.Join(chk.uri, MetadataName)
		_, err := fsys.Stat(ctx, meta)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		chosen = fmt.Sprintf("%s is a job's directory; taking its newest complete checkpoint, %s", dir, storage.Base(chk.uri))
		if i > 0 {
			chosen += fmt.Sprintf(" (%d with a higher number have no %s)", i, MetadataName)
		}
		return meta, chosen, nil
	}
	fail := func(format string, args ...any) (string, string, error) {
		return "", "", fmt.Errorf("%s: %s: %w", dir, fmt.Sprintf(format, args...), ErrNoSnapshot)
	}
	name := storage.Base(dir)
	switch _, isCheckpoint := incremental.CheckpointNumber(name); {
	case len(c.checkpoints) > 0:
		return fail("a job's directory with %d checkpoints, none of which has a %s", len(c.checkpoints), MetadataName)
	case len(c.savepoints) > 0:
		return fail("holds savepoints; name one of them: %s", listSome(c.savepoints))
	case len(c.jobs) > 0:
		return fail("holds the directories of jobs; name one of them, or a checkpoint in it: %s", listSome(c.jobs))
	case name == "shared" || name == "taskowned":
		return fail("holds state files that checkpoints share; name a checkpoint beside it, such as %s", storage.Join(storage.Dir(dir), "chk-N"))
	case c.files == 0 && c.dirs == 0:
		return fail("is empty")
	case isCheckpoint:
		return fail("a checkpoint without %s: it is in progress, failed or being deleted", MetadataName)
	case len(c.states) > 0:
		return fail("a job's directory without any checkpoint")
	}
	if other, ok := withoutMarker(dir); ok {
		return fail("has no %s; the path holds an entropy marker, without which Flink would look in %s", MetadataName, other)
	}
	return fail("has no %s (%d files, %d directories); name the directory of a snapshot, or its metadata file", MetadataName, c.files, c.dirs)
}

// listSome lists names, but not more than a screen can take.
func listSome(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Open finds the snapshot that arg means, as [Locate] does, and decodes it.
func Open(ctx context.Context, fsys storage.FS, arg string) (*Snapshot, error) {
	s, err := OpenPartial(ctx, fsys, arg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenPartial is Open for looking at a damaged file: with an error it may
// also give a snapshot that holds what came before the error; see [metadata.DecodePartial].
func OpenPartial(ctx context.Context, fsys storage.FS, arg string) (*Snapshot, error) {
	uri, chosen, err := Locate(ctx, fsys, arg)
	if err != nil {
		return nil, err
	}
	data, err := storage.ReadAll(ctx, fsys, uri, maxMetadata)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{URI: uri, Dir: storage.Dir(uri), Chosen: chosen, Data: data}
	m, err := metadata.DecodePartial(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", uri, explain(data, err))
	}
	if m == nil {
		return nil, err
	}
	s.Snapshot = m
	return s, err
}

// explain adds to a decoding error what the file seems to be instead, and what to do.
func explain(data []byte, err error) error {
	words := inWords(err)
	if len(data) == 0 {
		return fmt.Errorf("the file is empty: the write was interrupted, or the store lost it: %w", words)
	}
	switch {
	case errors.Is(err, metadata.ErrMagic) || errors.Is(err, metadata.ErrTruncated) && len(data) < 8:
		if guess := guessContent(data); guess != "" {
			return fmt.Errorf("%w: looks like %s", words, guess)
		}
	case errors.Is(err, metadata.ErrTruncated):
		return fmt.Errorf("%w; the file was cut: copy it again, or use another snapshot", words)
	case !errors.Is(err, metadata.ErrVersion):
		return fmt.Errorf("%w; the file is damaged: copy it again, or use another snapshot", words)
	}
	return words
}

// guessContent says what a file that is not a _metadata file seems to be.
func guessContent(data []byte) string {
	const (
		blockBasedTable = 0x88e241b785f4cff7
		plainBlockTable = 0xdb4775248b80fb57
	)
	trimmed := bytes.TrimSpace(data[:min(len(data), 512)])
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return "gzip data; unpack it first"
	case bytes.HasPrefix(trimmed, []byte("<")):
		return "an HTML or XML page, perhaps the error page of a store"
	case bytes.HasPrefix(trimmed, []byte("{")):
		return "JSON"
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return "a zip or jar file"
	case bytes.HasPrefix(data, []byte("\xac\xed\x00\x05")):
		return "Java-serialized objects"
	case bytes.HasPrefix(data, []byte("OPTIONS")), bytes.HasPrefix(data, []byte("# This is a RocksDB option file")):
		return "a RocksDB OPTIONS file"
	case bytes.HasPrefix(data, []byte("MANIFEST-")):
		return "a RocksDB CURRENT file"
	}
	if len(data) >= 8 {
		switch binary.LittleEndian.Uint64(data[len(data)-8:]) {
		case blockBasedTable, plainBlockTable:
			return "a RocksDB table (SST file): a state file of a snapshot, not its metadata"
		}
	}
	if len(data) >= 4 && binary.BigEndian.Uint32(data) < 256 {
		return "a state file of a snapshot (key groups or operator state), not its metadata"
	}
	return ""
}

// actual is the URI of the file that a reference means where the snapshot
// lies in dir and nothing was moved.
func actual(dir string, r metadata.Ref) string {
	if r.Kind == metadata.RefRelative {
		return storage.Join(dir, r.Path)
	}
	return r.Path
}

// describe names a reference as messages do: what it is, of whom, where.
func describe(r metadata.Ref) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operator %s", operatorName(r.Operator))
	if r.Subtask >= 0 {
		fmt.Fprintf(&b, ", subtask %d", r.Subtask)
	}
	fmt.Fprintf(&b, ", %s", r.Role)
	if !r.KeyGroups.Empty() {
		fmt.Fprintf(&b, " (key groups %s)", r.KeyGroups)
	}
	if r.Part != metadata.PartState {
		fmt.Fprintf(&b, ", %s", r.Part)
	}
	if r.LocalName != "" {
		fmt.Fprintf(&b, " %s", r.LocalName)
	}
	return b.String()
}

// operatorName is the operator's id with its uid or name where the file has one.
func operatorName(o *metadata.Operator) string {
	switch {
	case o.UID != "":
		return fmt.Sprintf("%s (uid %q)", o.ID, o.UID)
	case o.Name != "":
		return fmt.Sprintf("%s (%q)", o.ID, o.Name)
	}
	return o.ID.String()
}
