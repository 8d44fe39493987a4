package tools

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strconv"
)

// jsonWriter writes indented JSON piece by piece. Errors stay in the
// bufio.Writer until it is flushed. A name is "" in a list and at the top.
type jsonWriter struct {
	w     *bufio.Writer
	depth int
	some  bool // something precedes in the object or list
	text  bytes.Buffer
	enc   *json.Encoder
}

func (j *jsonWriter) indent() {
	j.w.WriteByte('\n')
	for range j.depth {
		j.w.WriteString("  ")
	}
}

// begin writes what comes before a value.
func (j *jsonWriter) begin(name string) {
	if j.some {
		j.w.WriteByte(',')
	}
	if j.depth > 0 {
		j.indent()
	}
	j.some = true
	if name != "" {
		j.quote(name)
		j.w.WriteString(": ")
	}
}

func (j *jsonWriter) quote(s string) {
	if j.enc == nil {
		j.enc = json.NewEncoder(&j.text)
		j.enc.SetEscapeHTML(false)
	}
	j.text.Reset()
	_ = j.enc.Encode(s) // a string into memory can't fail
	j.w.Write(bytes.TrimSuffix(j.text.Bytes(), []byte("\n")))
}

// open begins an object or a list.
func (j *jsonWriter) open(name string, bracket byte) {
	j.begin(name)
	j.w.WriteByte(bracket)
	j.depth++
	j.some = false
}

func (j *jsonWriter) close(bracket byte) {
	j.depth--
	if j.some {
		j.indent()
	}
	j.w.WriteByte(bracket)
	j.some = true
}

// end ends the document.
func (j *jsonWriter) end() { j.w.WriteByte('\n') }

func (j *jsonWriter) str(name, value string) {
	j.begin(name)
	j.quote(value)
}

func (j *jsonWriter) int(name string, value int64) {
	j.begin(name)
	j.w.WriteString(strconv.FormatInt(value, 10))
}

func (j *jsonWriter) bool(name string, value bool) {
	j.begin(name)
	j.w.WriteString(strconv.FormatBool(value))
}

func (j *jsonWriter) null(name string) {
	j.begin(name)
	j.w.WriteString("null")
}

// offsets writes a list of offsets on one line.
func (j *jsonWriter) offsets(values []int64) {
	j.begin("offsets")
	j.w.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			j.w.WriteString(", ")
		}
		j.w.WriteString(strconv.FormatInt(v, 10))
	}
	j.w.WriteByte(']')
}
