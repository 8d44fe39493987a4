package tools

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/drey-state/drey/metadata"
)

// decodeError is a [metadata.Error] in words.
type decodeError struct {
	err *metadata.Error
}

// Error implements error.
func (e *decodeError) Error() string {
	return fmt.Sprintf("%v, at offset %d while reading %s (%s)", e.err.Err, e.err.Offset, fieldWords(e.err.Field), e.err.Field)
}

// Unwrap gives the metadata error.
func (e *decodeError) Unwrap() error { return e.err }

// inWords makes a decoding error readable; others stay as they are.
func inWords(err error) error {
	var e *metadata.Error
	if !errors.As(err, &e) {
		return err
	}
	return &decodeError{e}
}

var (
	indexed = regexp.MustCompile(`^(\w*)\[(\d+)\]$`)
	// elements are what the elements of lists are called.
	elements = map[string]string{
		"masterStates": "master state", "operators": "operator", "subtasks": "subtask", "shared": "shared file", "private": "private file",
		"inputChannels": "input channel", "outputChannels": "output channel", "streams": "changelog file", "changes": "change",
		"managedOperator": "managed operator state", "rawOperator": "raw operator state", "states": "state", "base": "base handle",
		"delta": "delta handle", "legacy": "legacy state", "": "element",
	}
	// fieldNames are fields whose names are no words.
	fieldNames = map[string]string{
		"managedKeyed": "managed keyed state", "rawKeyed": "raw keyed state", "managedOperator": "managed operator state",
		"rawOperator": "raw operator state", "masterStates": "number of master states", "operators": "number of operators",
		"subtasks": "number of subtasks", "shared": "number of shared files", "private": "number of private files",
		"delegate": "stream", "meta": "meta file", "magic": "magic number",
	}
)

// fieldWords says in words where a field is: "operator 3 → subtask 1 → managed
// keyed state → shared file 17 → path". Numbers count from 0, in file order.
func fieldWords(field string) string {
	if field == "" {
		return "the header"
	}
	var words []string
	for part := range strings.SplitSeq(field, ".") {
		if m := indexed.FindStringSubmatch(part); m != nil {
			name, ok := elements[m[1]]
			if !ok {
				name = spaced(m[1])
			}
			words = append(words, name+" "+m[2])
			continue
		}
		if name, ok := fieldNames[part]; ok {
			words = append(words, name)
			continue
		}
		words = append(words, spaced(part))
	}
	return strings.Join(words, " → ")
}

// spaced puts spaces into a name in camel case.
func spaced(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(r)
	}
	s := b.String()
	if strings.HasSuffix(s, " ID") {
		return strings.ToLower(s[:len(s)-2]) + "id"
	}
	return strings.ToLower(s)
}
