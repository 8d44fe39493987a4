package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/drey-state/drey/storage"
)

// mostPins is the largest file of pins, in bytes.
const mostPins = 256 << 20

// Pin is a snapshot, a directory or a file of which nothing is deleted.
type Pin struct {
	Path string
	// From says for messages where the pin was written, such as a file and a line; it may be empty.
	From string
}

func (p Pin) String() string {
	if p.From == "" {
		return p.Path
	}
	return fmt.Sprintf("%s (%s)", p.Path, p.From)
}

// ReadPins reads absolute paths or URIs to keep: one in a line, where an empty line and one that begins with # say
// nothing, or a JSON array of texts. A line that is neither, such as one of YAML, is an error, as a pin that is not understood protects
// nothing. name is what to call the file in messages.
func ReadPins(r io.Reader, name string) ([]Pin, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostPins+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > mostPins {
		return nil, fmt.Errorf("%s: more than %d bytes", name, mostPins)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '[' {
		return pinsInList(trimmed, name)
	}
	var pins []Pin
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	n := 1
	for ; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		p := Pin{line, fmt.Sprintf("%s, line %d", name, n)}
		if !isPath(line) {
			return nil, notAPath(p)
		}
		pins = append(pins, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
	}
	return pins, nil
}

func pinsInList(data []byte, name string) ([]Pin, error) {
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: not a JSON list of texts: %w", name, err)
	}
	var pins []Pin
	for i, path := range list {
		p := Pin{path, fmt.Sprintf("%s, element %d", name, i+1)}
		if !isPath(path) {
			return nil, notAPath(p)
		}
		pins = append(pins, p)
	}
	return pins, nil
}

func notAPath(p Pin) error {
	return fmt.Errorf("%s: %q is no absolute path and no URI with one", p.From, p.Path)
}

// isPath says that a text is the absolute path or URI of something in a store.
func isPath(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\ufffd' }) {
		return false
	}
	scheme, _, path := storage.Split(text)
	return drivePath(text) || len(path) > 1 && path[0] == '/' && !strings.ContainsFunc(scheme, func(r rune) bool {
		return (r|0x20 < 'a' || 'z' < r|0x20) && (r < '0' || '9' < r) && r != '+' && r != '-' && r != '.'
	})
}

// findPins gives the directories to look at for snapshots that are pinned and not below the roots. A pin of which nothing
// is to be seen is an error that unwraps to [ErrRefused]: it would protect nothing.
func findPins(ctx context.Context, fsys storage.FS, roots []string, pins []Pin, aliases []Rule) ([]string, error) {
	key := func(uri string) string {
		if to, ok := apply(aliases, uri); ok {
			uri = to
		}
		return storage.Key(uri)
	}
	var dirs, wrong []string
	for _, p := range pins {
		uri, inside := storage.Clean(p.Path), false
		for _, root := range roots {
			rest, ok := storage.Rel(key(root), key(uri))
			if inside = ok; ok {
				uri = storage.Join(root, rest) // in the spelling of the listing
				break
			}
		}
		if to, ok := apply(aliases, uri); ok && !inside {
			uri = to
		}
		info, err := fsys.Stat(ctx, uri)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, storage.ErrScheme):
			wrong = append(wrong, fmt.Sprintf("%s: nothing is there", p))
		case err != nil:
			return nil, fmt.Errorf("pin %s: %w", p, err)
		case inside:
		case info.Dir:
			dirs = append(dirs, uri)
		case isMetadataName(storage.Base(uri)):
			dirs = append(dirs, storage.Dir(uri))
		default:
			wrong = append(wrong, fmt.Sprintf("%s: a file outside of the roots, which protects nothing", p))
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("pins: %s: %w", listSome(wrong), ErrRefused)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}
