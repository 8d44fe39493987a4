package tools

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drey-state/drey/serializer"
)

// matcher compares what drey decoded with what a truth file says, and counts
// what can be compared in part only.
type matcher struct {
	diffs []string
	// opaque is the number of values that have no text here but their class, by class.
	opaque map[string]int
	// cut is the number of records that end at such a value.
	cut int
}

// maxDiffs is how many differences are told of one snapshot.
const maxDiffs = 12

func (m *matcher) diff(path, format string, args ...any) {
	if len(m.diffs) == maxDiffs {
		m.diffs = append(m.diffs, "and more")
	}
	if len(m.diffs) < maxDiffs {
		m.diffs = append(m.diffs, path+": "+fmt.Sprintf(format, args...))
	}
}

// match compares a value. want is JSON with json.Number for numbers.
func (m *matcher) match(path string, n notation, want, got any) {
	if w, ok := want.(map[string]any); ok && w["class"] == "org.apache.flink.cep.nfa.DeweyNumber" {
		want = w["deweyNumber"] // the number is a list and nothing else
	}
	switch g := got.(type) {
	case nil:
		if want == "raw:0x00" {
			return // Flink's NullSerializer, which the truth has in the bytes of a raw value
		}
	case serializer.Opaque:
		m.matchOpaque(path, want, g)
		return
	case *serializer.Record:
		m.matchRecord(path, n, want, g)
		return
	case []any:
		if _, text := want.(string); text {
			got = javaString(g)
			break
		}
		w, ok := want.([]any)
		if ok && len(g) > 0 && len(g) < len(w) && takesRest(g[len(g)-1]) {
			// The elements after it are in its bytes.
			m.cut++
			w = w[:len(g)]
		}
		if !ok || len(w) != len(g) {
			m.diff(path, "want %s, got %s", canon(want), canon(n.tree(got)))
			return
		}
		for i := range w {
			m.match(fmt.Sprintf("%s[%d]", path, i), n, w[i], g[i])
		}
		return
	case serializer.Map:
		m.matchMap(path, n, want, g)
		return
	case serializer.Either:
		if _, text := want.(string); text {
			got = javaString(g)
			break
		}
		w, ok := want.(map[string]any)
		if inner, has := w[side(g)]; ok && has && len(w) == 1 {
			m.match(path+"."+side(g), n, inner, g.Value)
			return
		}
	case serializer.TTL:
		w, ok := want.(map[string]any)
		if inner, has := w["value"]; ok && has && len(w) == 2 {
			m.match(path+".lastAccess", n, w["lastAccess"], g.LastAccess)
			m.match(path+".value", n, inner, g.Value)
			return
		}
	case []byte:
		switch w := want.(type) {
		case string:
			// One truth prints hex with 0x before it, the other without.
			if w == hex.EncodeToString(g) {
				return
			}
		case []any:
			// Avro prints fixed as numbers.
			list := make([]any, len(g))
			for i, b := range g {
				list[i] = int8(b)
			}
			got = list
		}
	case serializer.Date:
		// Avro prints dates as days since 1970.
		if day, ok := want.(json.Number); ok {
			if d, err := day.Int64(); err == nil && civil(d) == g {
				return
			}
		}
	}
	if tree := n.tree(got); canon(want) != canon(tree) {
		m.diff(path, "want %s, got %s", canon(want), canon(tree))
	}
}

// takesRest says that a value may hold the bytes of what follows.
func takesRest(v any) bool {
	switch v := v.(type) {
	case serializer.Opaque:
		return true
	case *serializer.Record:
		return v.Cut || len(v.Fields) > 0 && takesRest(v.Fields[len(v.Fields)-1].Value)
	}
	return false
}

// matchOpaque compares bytes where the truth has them. Elsewhere it has text
// that only the class could make of them: then the bytes must be there.
func (m *matcher) matchOpaque(path string, want any, got serializer.Opaque) {
	if s, ok := want.(string); ok {
		if raw, ok := strings.CutPrefix(s, "raw:0x"); ok {
			if raw != hex.EncodeToString(got.Raw) {
				m.diff(path, "want %s, got %x", s, got.Raw)
			}
			return
		}
	}
	if got.Class == "" || len(got.Raw) == 0 || got.Reason == "" {
		m.diff(path, "a value that can't be decoded lacks its class, bytes or reason: %+v", got)
	}
	if want == nil {
		m.diff(path, "want null, got %s of %d bytes", got.Class, len(got.Raw))
	}
	m.opaque[got.Class]++
}

func (m *matcher) matchMap(path string, n notation, want any, got serializer.Map) {
	w, ok := want.(map[string]any)
	if !ok {
		m.diff(path, "want %s, got %s", canon(want), canon(n.tree(got)))
		return
	}
	wanted := map[string]any{}
	for k, v := range w {
		wanted[normText(k)] = v
	}
	for i, e := range got {
		if key, ok := e.Key.(serializer.Opaque); ok {
			// No text to find it by; that there are as many must do.
			m.matchOpaque(fmt.Sprintf("%s key %d", path, i), "", key)
			if len(w) != len(got) {
				m.diff(path, "want %d entries, got %d", len(w), len(got))
			}
			continue
		}
		k := n.text(e.Key)
		v, ok := wanted[k]
		if !ok {
			m.diff(path, "unexpected key %s in a map of %d (wanted %d)", k, len(got), len(w))
			continue
		}
		delete(wanted, k)
		m.match(path+"{"+k+"}", n, v, e.Value)
	}
	if len(got) > 0 {
		if _, ok := got[0].Key.(serializer.Opaque); ok {
			return
		}
	}
	for k := range wanted {
		m.diff(path, "key %s is missing", k)
	}
}

func (m *matcher) matchRecord(path string, n notation, want any, got *serializer.Record) {
	if s, ok := want.(string); ok {
		if parsed, ok := parseJSON(s); ok {
			want, n.avro = parsed, true
		}
	}
	switch w := want.(type) {
	case []any:
		m.matchRow(path, n, "+I", w, got)
		return
	case map[string]any:
		if fields, ok := w["fields"].([]any); ok && w["rowKind"] != nil && len(w) == 2 {
			m.matchRow(path, n, w["rowKind"], fields, got)
			return
		}
		m.matchObject(path, n, w, got)
		return
	}
	m.diff(path, "want %s, got %s", canon(want), canon(n.tree(got)))
}

func (m *matcher) matchRow(path string, n notation, kind any, fields []any, got *serializer.Record) {
	if got.Kind != kind && !(kind == "+I" && got.Kind == "") {
		m.diff(path, "want kind %v, got %q", kind, got.Kind)
	}
	if !m.whole(got) && len(got.Fields) <= len(fields) {
		fields = fields[:len(got.Fields)]
	}
	if len(fields) != len(got.Fields) {
		m.diff(path, "want %d fields, got %d", len(fields), len(got.Fields))
		return
	}
	for i, f := range got.Fields {
		m.match(fmt.Sprintf("%s[%d]", path, i), n, fields[i], f.Value)
	}
}

func (m *matcher) matchObject(path string, n notation, want map[string]any, got *serializer.Record) {
	class, _ := want["class"].(string)
	if class != "" && got.Class != "" && !sameClass(class, got.Class) {
		m.diff(path, "want class %v, got %s", class, got.Class)
	}
	seen := map[string]bool{"class": true}
	for _, f := range got.Fields {
		w, ok := want[f.Name]
		if !ok {
			m.diff(path, "unexpected field %s = %s", f.Name, canon(n.tree(f.Value)))
			continue
		}
		seen[f.Name] = true
		m.match(path+"."+f.Name, n, w, f.Value)
	}
	if !m.whole(got) {
		return
	}
	for name, w := range want {
		if !seen[name] && !implied(class, name, w) {
			m.diff(path, "field %s is missing", name)
		}
	}
}

// sameClass compares the class in the truth with ours, which has no package
// for Flink's own and, where a schema of Avro names it, dots for dollars.
func sameClass(want, got string) bool {
	if strings.HasPrefix(want, "org.apache.flink.") {
		return simpleName(want) == simpleName(got)
	}
	return strings.ReplaceAll(want, "$", ".") == strings.ReplaceAll(got, "$", ".")
}

// whole says that no field of a record is missing, and counts those of which one is.
func (m *matcher) whole(r *serializer.Record) bool {
	if r.Cut {
		m.cut++
	}
	return !r.Cut
}
