package tools

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// GCPlanFormat is the number of the format in which plans are saved.
const GCPlanFormat = 1

// WriteTo writes the plan as one JSON document whose last member, "delete", holds the
// entries, one in a line. It takes no more memory than the plan has.
func (p *GCPlan) WriteTo(w io.Writer) (int64, error) {
	counted := &counter{w: w}
	b := bufio.NewWriter(counted)
	head, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return 0, err
	}
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	b.WriteString(",\n  \"delete\": [")
	enc := json.NewEncoder(&withoutNewline{b})
	enc.SetEscapeHTML(false)
	separator, end := "\n    ", "]\n}\n"
	for e, err := range p.Entries() {
		if err != nil {
			return counted.n, err
		}
		b.WriteString(separator)
		if err := enc.Encode(e); err != nil {
			return counted.n, err
		}
		separator, end = ",\n    ", "\n  ]\n}\n"
	}
	b.WriteString(end)
	return counted.n, b.Flush()
}

type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// withoutNewline drops the newline that json.Encoder puts after a value.
type withoutNewline struct{ w io.Writer }

// Write implements io.Writer.
func (t *withoutNewline) Write(p []byte) (int, error) {
	if _, err := t.w.Write(bytes.TrimSuffix(p, []byte("\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadGCPlan reads a plan that was saved. Its entries are read from r as [GCPlan.Entries] goes on. If r can be read again from its
// beginning (io.Seeker), it is read to its end first: GCPlan.Delete is what the entries add up to, also if
// the plan was edited, and one that was cut is an error at once.
func ReadGCPlan(r io.Reader) (*GCPlan, error) {
	again, ok := r.(io.Seeker)
	if ok {
		_, err := again.Seek(0, io.SeekCurrent) // a pipe can't
		ok = err == nil
	}
	if !ok {
		return readGCPlan(r)
	}
	p, err := readGCPlan(r)
	if err != nil {
		return nil, err
	}
	var count AuditCount
	for e, err := range p.Entries() {
		if err != nil {
			return nil, err
		}
		count.add(e.Size)
	}
	if _, err := again.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("the plan can't be read again from its beginning: %w", err)
	}
	if p, err = readGCPlan(r); err != nil {
		return nil, err
	}
	p.Delete = count
	return p, nil
}

func readGCPlan(r io.Reader) (*GCPlan, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	fail := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("not a plan of garbage collection: at byte %d: %w", dec.InputOffset(), err)
	}
	if err := expect(dec, json.Delim('{')); err != nil {
		return nil, fail(err)
	}
	head := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fail(err)
		}
		if name == "delete" {
			if err := expect(dec, json.Delim('[')); err != nil {
				return nil, fail(err)
			}
			return readHead(dec, head, fail)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fail(err)
		}
		key := name.(string) // of an object
		if head[key] != nil {
			return nil, fail(fmt.Errorf("%q is there twice", key))
		}
		head[key] = value
	}
	return nil, fail(errors.New(`there is no member "delete"`))
}

func expect(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%v where %v should be", t, want)
	}
	return err
}

// readHead makes the plan of what comes before the entries.
func readHead(dec *json.Decoder, head map[string]json.RawMessage, fail func(error) error) (*GCPlan, error) {
	data, err := json.Marshal(head)
	if err != nil {
		return nil, fail(err)
	}
	p := &GCPlan{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fail(err)
	}
	switch {
	case head["format"] == nil:
		return nil, fail(errors.New(`no member "format" before the list "delete", which must come last`))
	case p.Format != GCPlanFormat:
		return nil, fmt.Errorf("a plan of format %d; this version of drey knows only format %d", p.Format, GCPlanFormat)
	case p.Operation != "gc" && p.Operation != "dispose":
		return nil, fail(fmt.Errorf("operation %q", p.Operation))
	case len(p.Roots) == 0:
		return nil, fail(errors.New("it has no roots"))
	}
	p.entries = func(yield func(GCEntry, error) bool) {
		for dec.More() {
			var e GCEntry
			if err := dec.Decode(&e); err != nil {
				yield(e, fail(err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		// A plan that was cut is not executed as if it ended there.
		for _, d := range []json.Delim{']', '}'} {
			if err := expect(dec, d); err != nil {
				yield(GCEntry{}, fail(err))
				return
			}
		}
	}
	return p, nil
}
