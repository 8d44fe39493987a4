package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/drey-state/drey/storage"
)

// mostPins is the largest file of pins, in bytes.
const mostPins = 256 << 20

// ReadPins reads paths to keep: one in a line, where an empty line and one that begins with # say nothing; or
// JSON, as from `kubectl get -o json`, of which every text counts that has a scheme or begins with a slash.
func ReadPins(r io.Reader) ([]string, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostPins+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostPins {
		return nil, fmt.Errorf("more than %d bytes", mostPins)
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return pinsInJSON(trimmed)
	}
	var pins []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			pins = append(pins, line)
		}
	}
	return pins, nil
}

func pinsInJSON(data []byte) ([]string, error) {
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	var pins []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(v[name])
			}
		case string:
			_, _, path := storage.Split(v)
			if strings.HasPrefix(path, "/") && len(path) > 1 && !strings.ContainsAny(v, "\n\t") {
				pins = append(pins, v)
			}
		}
	}
	walk(doc)
	return pins, nil
}
