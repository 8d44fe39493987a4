package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// entryMatcher finds the entries that an [EntryFilter] means. It may be used concurrently.
type entryMatcher struct {
	filter *EntryFilter
	states *stateMatcher
	groups []keygroup.Range
	where  *vm.Program
	// expired is up to which last access a value has expired, in milliseconds since 1970; ttl says that it counts.
	expired int64
	ttl     bool

	mu    sync.Mutex
	parts map[*backend.State]*wantedParts
	lines sync.Pool // of *lines, of the operator of the edit
}

// wantedParts are the keys and namespaces that are looked for, as a state's serializers write them.
type wantedParts struct{ keys, namespaces [][]byte }

func newEntryMatcher(f *EntryFilter, now time.Time) (*entryMatcher, error) {
	m := &entryMatcher{filter: f, states: (&Selection{States: f.States}).states(), parts: map[*backend.State]*wantedParts{}}
	var err error
	if m.groups, err = parseGroups(f.KeyGroups); err != nil {
		return nil, fmt.Errorf("dropEntries: keyGroups: %w", err)
	}
	if f.Where != "" {
		if m.where, err = expr.Compile(f.Where, expr.AsBool(), expr.Env(lineFields)); err != nil {
			return nil, fmt.Errorf("dropEntries: where: %w", err)
		}
	}
	if f.ExpiredAfter != "" {
		after, err := time.ParseDuration(f.ExpiredAfter)
		if err != nil || after <= 0 {
			return nil, fmt.Errorf("dropEntries: expiredAfter %q: a duration such as 24h is expected", f.ExpiredAfter)
		}
		if !f.Now.IsZero() {
			now = f.Now
		}
		m.expired, m.ttl = now.Add(-after).UnixMilli(), true
	}
	if m.groups == nil && m.where == nil && !m.ttl && len(f.Keys) == 0 && len(f.Namespaces) == 0 {
		return nil, errors.New("dropEntries: one of keys, namespaces, keyGroups, where and expiredAfter must be set; dropStates leaves whole states out")
	}
	return m, nil
}

// of gives what the state's serializers write for the keys and namespaces.
func (m *entryMatcher) of(s *backend.State) (*wantedParts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.parts[s]; w != nil {
		return w, nil
	}
	w := &wantedParts{}
	for _, k := range m.filter.Keys {
		b, err := s.EncodeKeyJSON(k)
		if err != nil {
			return nil, fmt.Errorf("dropEntries: %w", err)
		}
		w.keys = append(w.keys, b)
	}
	for _, n := range m.filter.Namespaces {
		b, err := s.EncodeNamespaceJSON(n)
		if err != nil {
			return nil, fmt.Errorf("dropEntries: %w", err)
		}
		w.namespaces = append(w.namespaces, b)
	}
	m.parts[s] = w
	return w, nil
}

// drops says whether an entry is to be left out. Of a list, expired elements may be left out instead, which changes e.Value; removed is how many.
func (m *entryMatcher) drops(op *metadata.Operator, e *backend.Entry) (drop bool, removed int64, err error) {
	if !m.states.match(e.State.Meta.Name) || m.groups != nil && !slices.ContainsFunc(m.groups, func(r keygroup.Range) bool { return r.Start <= e.KeyGroup && e.KeyGroup <= r.End }) {
		return false, 0, nil
	}
	if m.ttl && !e.State.TTL {
		return false, 0, nil
	}
	if len(m.filter.Keys)+len(m.filter.Namespaces) > 0 {
		if e.Unsplit || e.Joined && len(m.filter.Namespaces) > 0 {
			return false, 0, fmt.Errorf("state %q: a key that can't be told from what follows it: %w", e.State.Meta.Name, serializer.ErrUnsupported)
		}
		w, err := m.of(e.State)
		if err != nil {
			return false, 0, err
		}
		is := func(b []byte) func([]byte) bool { return func(o []byte) bool { return bytes.Equal(b, o) } }
		if w.keys != nil && !slices.ContainsFunc(w.keys, is(e.Key)) || w.namespaces != nil && !slices.ContainsFunc(w.namespaces, is(e.Namespace)) {
			return false, 0, nil
		}
	}
	if m.where != nil {
		fits, err := m.holds(op, e)
		if err != nil || !fits {
			return false, 0, err
		}
	}
	if m.ttl {
		return m.expire(e)
	}
	return true, 1, nil
}

// holds evaluates the condition.
func (m *entryMatcher) holds(op *metadata.Operator, e *backend.Entry) (bool, error) {
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("dropEntries: where: state %q, key group %d: %w", e.State.Meta.Name, e.KeyGroup, err)
	}
	l, _ := m.lines.Get().(*lines)
	if l == nil {
		l = newLines(op, 0)
	}
	defer m.lines.Put(l)
	line := l.keyed(nil, e)
	if l.err != nil {
		return fail(l.err)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var env map[string]any
	if err := d.Decode(&env); err != nil {
		return fail(err)
	}
	delete(env, "subtask") // which one wrote it means nothing for an entry
	for _, part := range []string{"key", "namespace", "userKey", "value"} {
		if incomplete(env[part]) {
			return fail(fmt.Errorf("its %s can't be decoded as a whole, so that no condition can be upon it, of %.300s: %w", part, line, serializer.ErrUnsupported))
		}
	}
	result, err := expr.Run(m.where, numbers(env).(map[string]any))
	if err != nil {
		return fail(fmt.Errorf("%w, of %s", err, line))
	}
	fits, ok := result.(bool)
	if !ok {
		return fail(fmt.Errorf("it gives %v, which is no truth value, of %s", result, line))
	}
	return fits, nil
}

// lineFields are the fields that the line of an entry may have: the name of no other is known to a condition.
var lineFields = types.Map{
	"operator": types.Any, "operatorId": types.Any, "state": types.Any, "type": types.Any, "keyGroup": types.Any,
	"key": types.Any, "namespace": types.Any, "userKey": types.Any, "value": types.Any,
	"lastAccess": types.Any, "timestamp": types.Any, "time": types.Any,
}

// incomplete says that JSON stands for bytes that were not decoded, or for only some of what they hold.
func incomplete(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if _, raw := v["@raw"]; raw || v["@cut"] == true {
			return true
		}
		for _, e := range v {
			if incomplete(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, incomplete)
	}
	return false
}

// numbers turns the numbers of decoded JSON into integers, where they are, and else into floating-point numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64() // what is too large is infinite
		return f
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}

// expire finds out whether an entry has expired, or which elements of a list.
func (m *entryMatcher) expire(e *backend.Entry) (drop bool, removed int64, err error) {
	fail := func(err error) (bool, int64, error) {
		return false, 0, fmt.Errorf("dropEntries: expiredAfter: state %q, key group %d: %w", e.State.Meta.Name, e.KeyGroup, err)
	}
	if e.Null {
		return false, 0, nil
	}
	in := serializer.NewInput(e.Value)
	if e.State.Type != backend.TypeList {
		last := in.I64()
		if err := in.Err(); err != nil {
			return fail(err)
		}
		return last <= m.expired, 1, nil
	}
	var kept []byte
	for at := 0; at < len(e.Value); {
		if at > 0 {
			in.Skip(1) // the comma
			at++
		}
		last := serializer.NewInput(e.Value[at:]).I64()
		e.State.Value.Skip(in)
		if err := in.Err(); err != nil {
			return fail(err)
		}
		if in.Lost() {
			return fail(fmt.Errorf("where an element ends is not known: %w", serializer.ErrUnsupported))
		}
		end := int(in.Offset())
		if last <= m.expired {
			removed++
		} else {
			if kept != nil {
				kept = append(kept, ',')
			}
			kept = append(kept, e.Value[at:end]...)
		}
		at = end
	}
	if removed == 0 {
		return false, 0, nil
	}
	e.Value = kept
	return kept == nil, removed, nil
}
