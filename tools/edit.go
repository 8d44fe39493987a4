package tools

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

// Edit is one change to the content of a snapshot. Operator says where; of the other fields exactly one is set. As JSON it is what a file of
// edits holds.
type Edit struct {
	// Operator by id, uid (also of metadata that has only its hash) or name.
	Operator string `json:"operator"`

	// DropOperator leaves the operator out.
	DropOperator bool `json:"dropOperator,omitempty"`
	// RenameOperator gives the operator another uid, and with it another id.
	RenameOperator *OperatorRename `json:"renameOperator,omitempty"`
	// DropStates leaves states out, by name; "*" stands for any characters, "?" for one. KeepStates leaves all others out, also
	// timers (whose names begin with _timer_state/) and operator state.
	DropStates []string `json:"dropStates,omitempty"`
	KeepStates []string `json:"keepStates,omitempty"`
	// RenameState gives a state another name.
	RenameState *StateRename `json:"renameState,omitempty"`
	// DropEntries leaves entries of keyed state and timers out.
	DropEntries *EntryFilter `json:"dropEntries,omitempty"`
	// Set sets a value of keyed state or of a broadcast map.
	Set *ValueSetting `json:"set,omitempty"`
	// Kafka sets or shifts the offset of a Kafka source in one partition.
	Kafka *KafkaSetting `json:"kafka,omitempty"`
}

// OperatorRename is an operator's new name: a uid, or an id for a job that sets only the hash (setUidHash).
type OperatorRename struct {
	UID string `json:"uid,omitempty"`
	ID  string `json:"id,omitempty"`
}

// StateRename is an old and a new name.
type StateRename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// EntryFilter says which entries are meant: those that fit all fields that are set. At least one must be, besides States.
type EntryFilter struct {
	// States by name, with "*" and "?"; none means all.
	States []string `json:"states,omitempty"`
	// Keys and Namespaces are JSON as a dump prints it; an entry fits if it has one of them.
	Keys       []json.RawMessage `json:"keys,omitempty"`
	Namespaces []json.RawMessage `json:"namespaces,omitempty"`
	// KeyGroups such as "0-3,17".
	KeyGroups string `json:"keyGroups,omitempty"`
	// Where is a condition in the language of github.com/expr-lang/expr upon the fields of the line that a dump
	// prints of an entry: value.amount < 5 && key startsWith "x".
	Where string `json:"where,omitempty"`
	// ExpiredAfter is a time to live, such as "24h": fits what was accessed last so long before Now. Of a list, it is the elements that
	// are dropped. Only states with time to live have such entries.
	ExpiredAfter string `json:"expiredAfter,omitempty"`
	// Now is the time for ExpiredAfter; the zero time means when the plan is made.
	Now time.Time `json:"now,omitzero"`
}

// ValueSetting sets the value of a key. Its parts are JSON as a dump prints it.
type ValueSetting struct {
	State string          `json:"state"`
	Key   json.RawMessage `json:"key"`
	// Namespace is left out for a state without namespaces, UserKey for one that is no map.
	Namespace json.RawMessage `json:"namespace,omitempty"`
	UserKey   json.RawMessage `json:"userKey,omitempty"`
	Value     json.RawMessage `json:"value"`
	// LastAccess is that of a value with time to live; the zero time means when the plan is made.
	LastAccess time.Time `json:"lastAccess,omitzero"`
}

// KafkaSetting says where a Kafka source goes on. Exactly one of Offset, Special and Shift is set.
type KafkaSetting struct {
	// Topic and Partition; no Partition means all of the topic.
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition,omitempty"`
	// Offset is the next one to read, Special is "earliest", "latest" or "committed", Shift is how much further.
	Offset  *int64 `json:"offset,omitempty"`
	Special string `json:"special,omitempty"`
	Shift   int64  `json:"shift,omitempty"`
}

// EditsFile is what a file of edits holds.
type EditsFile struct {
	Edits []Edit `json:"edits"`
}

// ReadEdits reads a file of edits. A field that is not known is an error.
func ReadEdits(r io.Reader) ([]Edit, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var f EditsFile
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("edits: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("edits: something follows the end")
	}
	for i := range f.Edits {
		if err := f.Edits[i].Check(); err != nil {
			return nil, fmt.Errorf("edits[%d]: %w", i, err)
		}
	}
	return f.Edits, nil
}

// ParseEdit reads one edit from its JSON.
func ParseEdit(text string) (Edit, error) {
	list, err := ReadEdits(strings.NewReader(`{"edits":[` + text + `]}`))
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("edits: %d instead of one", len(list))
	}
	if err != nil {
		return Edit{}, err
	}
	return list[0], nil
}

// Check says what is wrong with an edit.
func (e *Edit) Check() error {
	n := 0
	for _, set := range []bool{
		e.DropOperator, e.RenameOperator != nil, len(e.DropStates) > 0, len(e.KeepStates) > 0, e.RenameState != nil, e.DropEntries != nil, e.Set != nil, e.Kafka != nil,
	} {
		if set {
			n++
		}
	}
	switch {
	case e.Operator == "":
		return errors.New("operator: name one by its id, uid or name")
	case n != 1:
		return fmt.Errorf("%d changes in one edit: it must be one of dropOperator, renameOperator, dropStates, keepStates, renameState, dropEntries, set and kafka", n)
	case e.RenameOperator != nil:
		_, _, err := e.RenameOperator.id()
		return err
	case e.RenameState != nil && (e.RenameState.From == "" || e.RenameState.To == ""):
		return errors.New("renameState: from and to must be set")
	case e.DropEntries != nil:
		_, err := newEntryMatcher(e.DropEntries, time.Time{})
		return err
	case e.Set != nil:
		if e.Set.State == "" || e.Set.Key == nil || e.Set.Value == nil {
			return errors.New("set: state, key and value must be set")
		}
	case e.Kafka != nil:
		return e.Kafka.check()
	}
	return nil
}

func (k *KafkaSetting) check() error {
	n := 0
	for _, set := range []bool{k.Offset != nil, k.Special != "", k.Shift != 0} {
		if set {
			n++
		}
	}
	if k.Topic == "" || n != 1 {
		return errors.New("kafka: topic and one of offset, special and shift must be set")
	}
	if k.Special != "" && !slices.Contains([]string{"earliest", "latest", "committed"}, k.Special) {
		return fmt.Errorf("kafka: special %q: it must be earliest, latest or committed", k.Special)
	}
	if k.Offset != nil && *k.Offset < 0 {
		return fmt.Errorf("kafka: offset %d: it must not be negative", *k.Offset)
	}
	return nil
}

// id gives the id and the uid of the operator.
func (r *OperatorRename) id() (id metadata.OperatorID, uid metadata.Text, err error) {
	switch {
	case (r.UID == "") == (r.ID == ""):
		return id, "", errors.New("renameOperator: one of uid and id must be set")
	case r.UID != "":
		uid, err = metadata.NewText(r.UID)
		return metadata.UIDHash(r.UID), uid, err
	}
	raw, err := hex.DecodeString(r.ID)
	if err != nil || len(raw) != len(id) {
		return id, "", fmt.Errorf("renameOperator: id %q: 32 hex digits are expected", r.ID)
	}
	copy(id[:], raw)
	return id, "", nil
}

// String says in a line what the edit does.
func (e *Edit) String() string {
	where := func(f *EntryFilter) string {
		var parts []string
		add := func(name, text string) {
			if text != "" {
				parts = append(parts, name+" "+text)
			}
		}
		add("states", strings.Join(f.States, ", "))
		add("keys", joinRaw(f.Keys))
		add("namespaces", joinRaw(f.Namespaces))
		add("key groups", f.KeyGroups)
		add("where", f.Where)
		add("not accessed for", f.ExpiredAfter)
		return strings.Join(parts, "; ")
	}
	switch {
	case e.DropOperator:
		return "drop it"
	case e.RenameOperator != nil && e.RenameOperator.UID != "":
		return fmt.Sprintf("give it the uid %q", e.RenameOperator.UID)
	case e.RenameOperator != nil:
		return "give it the id " + e.RenameOperator.ID
	case len(e.DropStates) > 0:
		return "drop states " + strings.Join(e.DropStates, ", ")
	case len(e.KeepStates) > 0:
		return "drop all states but " + strings.Join(e.KeepStates, ", ")
	case e.RenameState != nil:
		return fmt.Sprintf("rename state %q to %q", e.RenameState.From, e.RenameState.To)
	case e.DropEntries != nil:
		return "drop entries: " + where(e.DropEntries)
	case e.Set != nil:
		text := fmt.Sprintf("in state %q, key %s", e.Set.State, e.Set.Key)
		if e.Set.Namespace != nil {
			text += fmt.Sprintf(", namespace %s", e.Set.Namespace)
		}
		if e.Set.UserKey != nil {
			text += fmt.Sprintf(", user key %s", e.Set.UserKey)
		}
		return text + fmt.Sprintf(": set %s", e.Set.Value)
	case e.Kafka != nil:
		of := "all partitions"
		if e.Kafka.Partition != nil {
			of = fmt.Sprintf("partition %d", *e.Kafka.Partition)
		}
		switch {
		case e.Kafka.Offset != nil:
			return fmt.Sprintf("Kafka topic %s, %s: go on at offset %d", e.Kafka.Topic, of, *e.Kafka.Offset)
		case e.Kafka.Special != "":
			return fmt.Sprintf("Kafka topic %s, %s: go on at the %s offset", e.Kafka.Topic, of, e.Kafka.Special)
		}
		return fmt.Sprintf("Kafka topic %s, %s: shift the offset by %+d", e.Kafka.Topic, of, e.Kafka.Shift)
	}
	return "nothing"
}

func joinRaw(list []json.RawMessage) string {
	var texts []string
	for _, r := range list {
		texts = append(texts, string(r))
	}
	return strings.Join(texts, ", ")
}

// EditResult is what came of an edit.
type EditResult struct {
	Edit
	// Matches is how many operators, states, entries or partitions it was about.
	Matches int64 `json:"matches"`
}

// plannedEdit is an [Edit] of a plan, with what it means there.
type plannedEdit struct {
	Edit
	ops     []*metadata.Operator
	matcher *entryMatcher
	matches atomic.Int64
	mu      sync.Mutex
	seen    map[string]bool // what was counted once
}

// once counts something that may be met several times.
func (e *plannedEdit) once(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.seen[what] {
		if e.seen == nil {
			e.seen = map[string]bool{}
		}
		e.seen[what] = true
		e.matches.Add(1)
	}
}

// forOperators gives the edits of each operator of a snapshot, in their order.
func forOperators(m *metadata.Snapshot, edits []Edit, now time.Time) ([]*plannedEdit, map[*metadata.Operator][]*plannedEdit, error) {
	var all []*plannedEdit
	of := map[*metadata.Operator][]*plannedEdit{}
	for i := range edits {
		fail := func(err error) error { return fmt.Errorf("edits[%d]: %w", i, err) }
		e := &plannedEdit{Edit: edits[i]}
		if err := e.Check(); err != nil {
			return nil, nil, fail(err)
		}
		ops, err := (&Selection{Operators: []string{e.Operator}}).operators(m)
		if err != nil {
			return nil, nil, fail(err)
		}
		if e.DropEntries != nil {
			if e.matcher, err = newEntryMatcher(e.DropEntries, now); err != nil {
				return nil, nil, fail(err)
			}
		}
		e.ops = ops
		all = append(all, e)
		for _, op := range ops {
			of[op] = append(of[op], e)
		}
	}
	return all, of, nil
}

// parseGroups is [ParseKeyGroups], nil for no text.
func parseGroups(text string) ([]keygroup.Range, error) {
	if text == "" {
		return nil, nil
	}
	return ParseKeyGroups(text)
}

// matchesName says whether one of the patterns fits a state's name.
func matchesName(patterns []string, name string) bool {
	return (&Selection{States: patterns}).states().match(name)
}

// withoutState says that the edits leave a state out, and otherwise under which name it goes on.
func withoutState(edits []*plannedEdit, name string) string {
	to := name
	for _, e := range edits {
		switch {
		case len(e.DropStates) > 0 && matchesName(e.DropStates, name), len(e.KeepStates) > 0 && !matchesName(e.KeepStates, name):
			e.once(name)
			return ""
		case e.RenameState != nil && e.RenameState.From == name:
			e.once(name)
			to = e.RenameState.To
		}
	}
	return to
}

// changesStates says whether some edit is about states as wholes.
func changesStates(edits []*plannedEdit) bool {
	return slices.ContainsFunc(edits, func(e *plannedEdit) bool { return len(e.DropStates)+len(e.KeepStates) > 0 || e.RenameState != nil })
}
