package tools

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// lines encodes entries of one operator's subtask as JSON objects without
// allocating for each. One goroutine may use it at a time.
type lines struct {
	head   []byte // the start that all lines share
	states map[any][]byte
	last   any    // the state whose start is
	start  []byte // the start of lines of that state
	err    error  // why a part could not be decoded, of the last line
}

func newLines(o *metadata.Operator, subtask int) *lines {
	b := []byte(`{"operator":`)
	b = appendString(b, operatorLabel(o))
	b = append(b, `,"operatorId":"`...)
	b = hex.AppendEncode(b, o.ID[:])
	b = append(b, `","subtask":`...)
	b = strconv.AppendInt(b, int64(subtask), 10)
	b = append(b, `,"state":`...)
	return &lines{head: b, states: map[any][]byte{}}
}

// opaqueReason gives why a part of the JSON could not be decoded, if one could
// not: a value of an unknown type is no error, but is shown as bytes.
func opaqueReason(line []byte) (reason string, ok bool) {
	const raw, class = `@raw":"0x`, `"@class":"`
	i := bytes.Index(line, []byte(raw)) // in text the quotation mark would be escaped
	if i < 0 {
		return "", false
	}
	if j := bytes.LastIndex(line[:i], []byte(class)); j >= 0 {
		name := line[j+len(class):]
		if k := bytes.IndexByte(name, '"'); k > 0 {
			return "of " + string(name[:k]), true
		}
	}
	return "of an unknown type", true
}

// begin appends what all lines of a state start with.
func (l *lines) begin(dst []byte, state any, name, field, kind string) []byte {
	if l.last != state {
		start := l.states[state]
		if start == nil {
			start = appendString(append(start, l.head...), name)
			start = append(append(append(start, `,"`...), field...), `":`...)
			start = appendString(start, kind)
			l.states[state] = start
		}
		l.last, l.start = state, start
	}
	l.err = nil
	return append(dst, l.start...)
}

// add notes the first error of a line.
func (l *lines) add(dst []byte, err error) []byte {
	if err != nil && l.err == nil {
		l.err = err
	}
	return dst
}

// keyed appends an entry of keyed state.
func (l *lines) keyed(dst []byte, e *backend.Entry) []byte {
	s := e.State
	dst = l.begin(dst, s, s.Meta.Name, "type", string(s.Type))
	dst = append(dst, `,"keyGroup":`...)
	dst = strconv.AppendInt(dst, int64(e.KeyGroup), 10)
	dst = append(dst, `,"key":`...)
	dst = l.add(e.AppendKeyJSON(dst))
	if !e.Unsplit && !noNamespaces(s) {
		dst = append(dst, `,"namespace":`...)
		dst = l.add(e.AppendNamespaceJSON(dst))
	}
	switch {
	case s.Type == backend.TypeTimers:
		dst = append(dst, `,"timestamp":`...)
		dst = strconv.AppendInt(dst, e.Timestamp, 10)
		dst = appendTime(dst, "time", e.Timestamp)
		return append(dst, '}')
	case s.Type == backend.TypeMap && !e.Unsplit:
		dst = append(dst, `,"userKey":`...)
		dst = l.add(e.AppendUserKeyJSON(dst))
	}
	dst = append(dst, `,"value":`...)
	from := len(dst)
	dst = l.add(e.AppendValueJSON(dst))
	if s.TTL {
		dst = unwrapTTL(dst, from)
	}
	return append(dst, '}')
}

// unwrapTTL turns "value":{"value":V,"lastAccess":T}, of which the object
// begins at from, into "value":V,"lastAccess":T.
func unwrapTTL(dst []byte, from int) []byte {
	const wrapped = `{"value":`
	if len(dst) < from+len(wrapped) || string(dst[from:from+len(wrapped)]) != wrapped {
		return dst // a list, a null or what could not be decoded
	}
	return append(dst[:from], dst[from+len(wrapped):len(dst)-1]...)
}

// element appends an element of operator state.
func (l *lines) element(dst []byte, e *backend.OperatorEntry) []byte {
	dst = l.begin(dst, e.State, e.State.Name, "mode", e.State.Mode.String())
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(e.Index), 10)
	if e.Key != nil {
		dst = append(dst, `,"key":`...)
		dst = l.add(e.AppendKeyJSON(dst))
	}
	dst = append(dst, `,"value":`...)
	dst = l.add(e.AppendValueJSON(dst))
	if k, ok := kafkaElement(e); ok {
		dst = append(dst, `,"kafka":`...)
		dst = k.appendJSON(dst)
	}
	return append(dst, '}')
}

// noNamespaces says that a state has no namespaces: the length of
// VoidNamespace is 0 to Flink, and of no other namespace that is in use.
func noNamespaces(s *backend.State) bool { return s.Namespace.Len() == 0 }

// appendTime appends a field with a time in milliseconds since 1970 as text,
// if that is in the years that have one.
func appendTime(dst []byte, name string, ms int64) []byte {
	const (
		first = -62167219200000 // 0000-01-01
		last  = 253402300799999 // 9999-12-31
	)
	if ms < first || ms > last {
		return dst
	}
	layout := "2006-01-02T15:04:05Z"
	if ms%1000 != 0 {
		layout = "2006-01-02T15:04:05.000Z"
	}
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	return append(time.UnixMilli(ms).UTC().AppendFormat(dst, layout), '"')
}

// appendString appends text as JSON; it is not for hot paths.
func appendString(dst []byte, s string) []byte { return serializer.AppendJSON(dst, s) }

// undecoded counts values that could not be decoded, by reason.
type undecoded struct {
	total   int64
	reasons map[string]int64
}

// mostReasons is how many reasons are told apart, as some name offsets.
const mostReasons = 50

func (u *undecoded) add(err error) {
	text := err.Error()
	var at *serializer.Error
	if errors.As(err, &at) && at.Err != nil {
		text = at.Err.Error()
	}
	u.addText(text, 1)
}

func (u *undecoded) addText(text string, n int64) {
	u.total += n
	if u.reasons == nil {
		u.reasons = map[string]int64{}
	}
	if _, ok := u.reasons[text]; !ok && len(u.reasons) >= mostReasons {
		text = "other reasons"
	}
	u.reasons[text] += n
}

func (u *undecoded) merge(o *undecoded) {
	for text, n := range o.reasons {
		u.addText(text, n)
	}
}
