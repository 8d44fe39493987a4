package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// dumpLine is a line that DumpState writes.
type dumpLine struct {
	OperatorID string          `json:"operatorId"`
	Subtask    int             `json:"subtask"`
	State      string          `json:"state"`
	Type       string          `json:"type"`
	Mode       string          `json:"mode"`
	KeyGroup   int             `json:"keyGroup"`
	Index      int             `json:"index"`
	Key        json.RawMessage `json:"key"`
	Namespace  json.RawMessage `json:"namespace"`
	UserKey    json.RawMessage `json:"userKey"`
	Value      json.RawMessage `json:"value"`
	LastAccess time.Time       `json:"lastAccess"`
	Timestamp  int64           `json:"timestamp"`
}

// text is a line without regard to how its fields are laid out.
func (l *dumpLine) text() string {
	return fmt.Sprintf("%s %d %s %s%s %d %d: %s | %s | %s | %d = %s, %d", l.OperatorID, l.Subtask, l.State, l.Type, l.Mode,
		l.KeyGroup, l.Index, l.Key, l.Namespace, l.UserKey, l.Timestamp, l.Value, l.LastAccess.UnixMilli())
}

// keyedLine is the line that an entry must give.
func keyedLine(operator string, e *backend.Entry, d *keyedEntry) string {
	l := dumpLine{OperatorID: operator, Subtask: d.subtask, State: e.State.Meta.Name, Type: string(e.State.Type), KeyGroup: d.group, Key: serializer.AppendJSON(nil, d.key)}
	if !e.Unsplit && !noNamespaces(e.State) {
		l.Namespace = serializer.AppendJSON(nil, d.namespace)
	}
	switch {
	case e.State.Type == backend.TypeTimers:
		l.Timestamp = d.timestamp
		return l.text()
	case e.State.Type == backend.TypeMap && !e.Unsplit:
		l.UserKey = serializer.AppendJSON(nil, d.userKey)
	}
	value := d.value
	if ttl, ok := value.(serializer.TTL); ok {
		value, l.LastAccess = ttl.Value, time.UnixMilli(ttl.LastAccess)
	}
	l.Value = serializer.AppendJSON(nil, value)
	return l.text()
}

// elementLine is the line that an element of operator state must give.
func elementLine(operator string, subtask int, e *backend.OperatorEntry, key, value any) string {
	l := dumpLine{OperatorID: operator, Subtask: subtask, State: e.State.Name, Mode: e.State.Mode.String(), Index: e.Index, Value: serializer.AppendJSON(nil, value)}
	if e.Key != nil {
		l.Key = serializer.AppendJSON(nil, key)
	}
	return l.text()
}

// checkDump demands that the dump of a snapshot is what was decoded, line by line.
func (c *content) checkDump(ctx context.Context, fsys storage.FS, s *Snapshot) error {
	var out bytes.Buffer
	d, err := DumpState(ctx, fsys, s, &out, DumpStateOptions{EntryOptions: EntryOptions{Jobs: 1}})
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	for _, p := range d.Problems {
		return fmt.Errorf("dump: %w", p)
	}
	left := len(c.lines)
	for text := range strings.Lines(out.String()) {
		var l dumpLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return fmt.Errorf("dump: %s: %w", text, err)
		}
		n := c.lines[l.text()]
		switch n {
		case 0:
			return fmt.Errorf("dump: unexpected line %s", text)
		case 1:
			left--
		}
		c.lines[l.text()] = n - 1
	}
	if left > 0 {
		return errors.New("dump: lines are missing")
	}
	return nil
}
