package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// randomCases are the cases of `gen-random`.
const randomCases = 6

// TestRandom lets Flink take snapshots of every kind of jobs whose state is
// random, and compares all that drey reads from them with what the jobs held;
// drey verify --deep finds nothing wrong.
// DREY_SEED repeats a run.
func TestRandom(t *testing.T) {
	seed := cmp.Or(os.Getenv("DREY_SEED"), strconv.FormatInt(time.Now().UnixNano()%1_000_000, 10))
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Logf("DREY_SEED=%s", seed)
			dir := t.TempDir()
			out := v.run(t, nil, "gen-random", seed, dir)
			if n := strings.Count("\n"+out, "\nOK "); n != randomCases {
				t.Fatalf("Flink wrote %d of %d cases:\n%s", n, randomCases, tail(out))
			}
			files, err := filepath.Glob(filepath.Join(dir, string(v), "random-*", "truth.json"))
			if err != nil {
				t.Fatal(err)
			}
			snapshots, entries := 0, 0
			verify := []string{"verify", "--deep"}
			for _, file := range files {
				var truth randomTruth
				decode(t, read(t, file), &truth)
				for _, s := range truth.Snapshots {
					verify = append(verify, filepath.Join(filepath.Dir(file), s.Dir))
					name := truth.Case + "/" + filepath.Base(s.Dir)
					t.Run(name, func(t *testing.T) {
						n := compareRandom(t, filepath.Join(filepath.Dir(file), s.Dir), s)
						snapshots++
						entries += n
						t.Logf("%s, max parallelism %s: %d entries", s.Command, s.Config["pipeline.max-parallelism"], n)
					})
				}
			}
			drey(t, nil, verify...)
			t.Logf("Flink %s: %d snapshots, %d entries", v, snapshots, entries)
			if snapshots < 20 || entries < 20_000 {
				t.Errorf("%d snapshots, %d entries are too few", snapshots, entries)
			}
		})
	}
}

// randomTruth is what Dice.java says of a case.
type randomTruth struct {
	Case      string
	Snapshots []randomSnapshot
}

type randomSnapshot struct {
	Dir, Command string
	Config       map[string]string
	Operators    map[string]struct {
		OperatorID string
		States     map[string]struct {
			Kind    string
			KeyType string
			TTL     bool
			Entries map[string]any
		}
	}
}

// decode reads JSON and keeps numbers as they are.
func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// randomState is a state as it was read: values, in the form of the truth, by key.
type randomState struct {
	kind    string
	ttl     bool
	entries map[string]any
}

// compareRandom compares a snapshot with its truth and gives the number of entries.
func compareRandom(t *testing.T, dir string, want randomSnapshot) (n int) {
	ctx := context.Background()
	fsys := storage.NewLocal(storage.LocalOptions{})
	s, err := tools.Open(ctx, fsys, filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]*randomState{} // by operator id and state
	for i := range s.Operators {
		got[s.Operators[i].ID.String()] = map[string]*randomState{}
	}
	for e, err := range tools.Entries(ctx, fsys, s, tools.EntryOptions{}) {
		if err != nil {
			t.Error(err)
			continue
		}
		n++
		r := randomReader{t, got[e.Operator.ID.String()]}
		if e.Keyed != nil {
			r.keyed(e.Keyed)
		} else {
			r.element(e.Element)
		}
	}
	for uid, op := range want.Operators {
		states := got[op.OperatorID]
		delete(got, op.OperatorID)
		if uid == "src" {
			continue // its elements are by subtask; other tests know them
		}
		for name, w := range op.States {
			g := states[name]
			delete(states, name)
			if g == nil {
				if len(w.Entries) > 0 {
					t.Errorf("%s: no state %q", uid, name)
				}
				continue
			}
			if g.kind != w.Kind || g.ttl != w.TTL {
				t.Errorf("%s, %q: %s with time to live %v; want %s, %v", uid, name, g.kind, g.ttl, w.Kind, w.TTL)
			}
			compareEntries(t, uid+", "+strconv.Quote(name), g, w.Entries, w.KeyType != "String")
		}
		for name, g := range states {
			t.Errorf("%s: state %q with %d entries is not in the truth", uid, name, len(g.entries))
		}
	}
	for id, states := range got {
		if len(states) > 0 {
			t.Errorf("operator %s is not in the truth", id)
		}
	}
	return n
}

// compareEntries compares the entries of a state, whose keys in the truth are JSON or text.
func compareEntries(t *testing.T, where string, got *randomState, want map[string]any, jsonKeys bool) {
	t.Helper()
	bad := 0
	report := func(key, format string, args ...any) {
		if bad++; bad <= 3 {
			t.Errorf("%s: key %.200s: %s", where, key, fmt.Sprintf(format, args...))
		}
	}
	if jsonKeys {
		want = jsonNames(t, want)
	}
	for key, w := range want {
		g, ok := got.entries[key]
		if !ok {
			report(key, "missing; want %.300s", canonical(w))
			continue
		}
		if got.kind == "operator-list" || got.kind == "operator-union" {
			g, w = map[string]any{"map": g}, map[string]any{"map": w} // the order is that of the subtasks
		}
		if g, w := canonical(g), canonical(w); g != w {
			report(key, "%.300s\nwant %.300s", g, w)
		}
	}
	for key, g := range got.entries {
		if _, ok := want[key]; !ok {
			report(key, "unexpected: %.300s", canonical(g))
		}
	}
	if bad > 3 {
		t.Errorf("%s: %d of %d keys differ", where, bad, len(want))
	}
}

// jsonNames brings keys that are JSON to the form of canonical.
func jsonNames(t *testing.T, entries map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range entries {
		key, namespace, has := strings.Cut(name, "@")
		if key != "" { // not a list's
			var k any
			decode(t, []byte(key), &k)
			key = canonical(k)
		}
		if has {
			key += "@" + namespace
		}
		out[key] = v
	}
	return out
}

// randomReader collects the state of an operator.
type randomReader struct {
	t      *testing.T
	states map[string]*randomState
}

func (r randomReader) state(name, kind string, ttl bool) *randomState {
	s := r.states[name]
	if s == nil {
		s = &randomState{kind: kind, ttl: ttl, entries: map[string]any{}}
		r.states[name] = s
	}
	return s
}

func (r randomReader) element(e *backend.OperatorEntry) {
	kinds := map[metadata.Mode]string{metadata.ModeSplit: "operator-list", metadata.ModeUnion: "operator-union", metadata.ModeBroadcast: "operator-broadcast"}
	s := r.state(e.State.Name, kinds[e.State.Mode], false)
	v := r.show(e.DecodeValue())
	if e.State.Mode == metadata.ModeBroadcast {
		s.entries[name(r.show(e.DecodeKey()))] = v
		return
	}
	list, _ := s.entries[""].([]any)
	s.entries[""] = append(list, v)
}

func (r randomReader) keyed(e *backend.Entry) {
	s := r.state(e.State.Meta.Name, strings.ToLower(string(e.State.Type)), e.State.TTL)
	key := name(r.show(e.DecodeKey()))
	namespace, err := e.DecodeNamespace()
	if w, ok := namespace.(serializer.Window); ok && err == nil {
		key += fmt.Sprintf("@%d..%d", w.Start, w.End)
	} else if namespace != serializer.Unit("VoidNamespace") || err != nil {
		r.t.Errorf("namespace %v, %v", namespace, err)
	}
	switch e.State.Type {
	case backend.TypeTimers:
		list, _ := s.entries[key].([]any)
		list = append(list, json.Number(strconv.FormatInt(e.Timestamp, 10)))
		slices.SortFunc(list, func(a, b any) int { return cmp.Compare(a.(json.Number), b.(json.Number)) })
		s.entries[key] = list
	case backend.TypeMap:
		m, _ := s.entries[key].(map[string]any)
		pairs, _ := m["map"].([]any)
		s.entries[key] = map[string]any{"map": append(pairs, []any{r.show(e.DecodeUserKey()), r.show(e.DecodeValue())})}
	default:
		if _, ok := s.entries[key]; ok {
			r.t.Errorf("state %q: key %s is there twice", e.State.Meta.Name, key)
		}
		s.entries[key] = r.show(e.DecodeValue())
	}
}

// show is Dice.show for what drey decodes.
func (r randomReader) show(v any, err error) any {
	if err != nil {
		r.t.Errorf("%v", err)
		return "error: " + err.Error()
	}
	return show(v)
}

func show(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case int8, int16, int32, int64:
		return json.Number(fmt.Sprint(v))
	case string:
		return showText(v)
	case float32:
		return fmt.Sprintf("float:%x", math.Float32bits(v))
	case float64:
		return fmt.Sprintf("double:%x", math.Float64bits(v))
	case serializer.Char:
		return fmt.Sprintf("char:%d", v)
	case *big.Int:
		return "int:" + v.String()
	case serializer.Decimal:
		return fmt.Sprintf("decimal:%s/%d", v.Unscaled, v.Scale)
	case serializer.Instant:
		return fmt.Sprintf("instant:%d/%d", v.Second, v.Nano)
	case serializer.Date:
		return "date:" + showDate(v)
	case serializer.Time:
		return "time:" + showTime(v)
	case serializer.DateTime:
		return "datetime:" + showDate(v.Date) + "/" + showTime(v.Time)
	case []byte:
		return "bytes:" + hex.EncodeToString(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = show(v[i])
		}
		return list
	case serializer.Map:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = []any{show(e.Key), show(e.Value)}
		}
		return map[string]any{"map": list}
	case serializer.Either:
		if v.Left {
			return map[string]any{"left": show(v.Value)}
		}
		return map[string]any{"right": show(v.Value)}
	case serializer.TTL:
		if v.LastAccess < 1_600_000_000_000 || v.LastAccess > 4_000_000_000_000 {
			return fmt.Sprintf("error: last access at %d", v.LastAccess)
		}
		return show(v.Value)
	case *serializer.Record:
		return showRecord(v)
	}
	return fmt.Sprintf("error: %T %v", v, v)
}

func showRecord(r *serializer.Record) any {
	if r.Class == "" {
		list := make([]any, len(r.Fields))
		for i, f := range r.Fields {
			list[i] = show(f.Value)
		}
		return map[string]any{"row": r.Kind, "fields": list}
	}
	m := map[string]any{}
	for _, f := range r.Fields {
		m[f.Name] = show(f.Value)
	}
	return m
}

func showDate(d serializer.Date) string { return fmt.Sprintf("%d/%d/%d", d.Year, d.Month, d.Day) }

func showTime(t serializer.Time) string {
	return fmt.Sprintf("%d/%d/%d/%d", t.Hour, t.Minute, t.Second, t.Nano)
}

// showText is Dice.text. A lone surrogate is three bytes here, which are no UTF-8.
func showText(s string) string {
	if !strings.Contains(s, ":") && strings.ToValidUTF8(s, "") == s {
		return s
	}
	var b strings.Builder
	b.WriteString("utf16:")
	for len(s) > 0 {
		if len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 {
			fmt.Fprintf(&b, "%04x", uint16(0xD000)|uint16(s[1]&0x3F)<<6|uint16(s[2]&0x3F))
			s = s[3:]
			continue
		}
		r := []rune(s[:min(len(s), 4)])[0]
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "%04x", u)
		}
		s = s[len(string(r)):]
	}
	return b.String()
}

// name is Dice.name: a key as the name of a JSON field.
func name(shown any) string {
	if s, ok := shown.(string); ok && !strings.HasPrefix(s, "double:") {
		return s
	}
	return canonical(shown)
}

// canonical is JSON that is the same for equal values: the entries of a map are sorted.
func canonical(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(sorted(v)); err != nil {
		return "error: " + err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func sorted(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = sorted(v[i])
		}
		return list
	case map[string]any:
		m := maps.Clone(v)
		for k := range m {
			m[k] = sorted(m[k])
		}
		if list, ok := m["map"].([]any); ok && len(m) == 1 {
			slices.SortFunc(list, func(a, b any) int { return cmp.Compare(canonical(a), canonical(b)) })
		}
		return m
	}
	return v
}
