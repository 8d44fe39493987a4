package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// StateProblem is state that could not be read, while the rest was. It is an error.
type StateProblem struct {
	Operator metadata.OperatorID `json:"operator"`
	Name     string              `json:"name,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Subtask  int                 `json:"subtask"`
	// Role is what the state is to the subtask, such as "managed keyed state".
	Role string `json:"role"`
	// File is the file or the name of inline data, "" where the state is in
	// several files; then the text names the one.
	File string `json:"file,omitempty"`
	// Offset in the file, or in the table that the text names, in bytes; -1 if it is not known.
	Offset int64  `json:"offset"`
	State  string `json:"state,omitempty"`
	// KeyGroups that it is about, "" if that is not known.
	KeyGroups string `json:"keyGroups,omitempty"`
	// Lost is how many entries could not be read, -1 if that is not known.
	Lost int64 `json:"lost"`
	// Times is how often the same was met in one handle.
	Times int `json:"times"`
	// Text says what is wrong.
	Text string `json:"text"`
	// Undecided says that it need not be damage: the store did not give the
	// bytes, or what they are is not known here.
	Undecided bool `json:"undecided,omitempty"`

	err error
}

// Error implements error.
func (p *StateProblem) Error() string {
	var b strings.Builder
	label := p.Operator.String()
	if p.UID != "" {
		label = p.UID
	} else if p.Name != "" {
		label = p.Name
	}
	fmt.Fprintf(&b, "operator %s", label)
	if p.Subtask >= 0 {
		fmt.Fprintf(&b, ", subtask %d", p.Subtask)
	}
	fmt.Fprintf(&b, ", %s", p.Role)
	if p.State != "" {
		fmt.Fprintf(&b, " %q", p.State)
	}
	if p.KeyGroups != "" {
		fmt.Fprintf(&b, ", key groups %s", p.KeyGroups)
	}
	if p.File != "" && !strings.Contains(p.Text, p.File) {
		fmt.Fprintf(&b, ": %s", p.File)
	}
	fmt.Fprintf(&b, ": %s", p.Text)
	if p.Lost > 0 {
		fmt.Fprintf(&b, " (entries lost: %d)", p.Lost)
	}
	if p.Times > 1 {
		fmt.Fprintf(&b, " (%d times)", p.Times)
	}
	return b.String()
}

// Unwrap gives the cause.
func (p *StateProblem) Unwrap() error { return p.err }

// newProblem describes an error of a unit; groups is "" if it is not about any.
func newProblem(u *unit, groups string, err error) *StateProblem {
	p := &StateProblem{
		Operator: u.op.ID, Name: u.op.Name.String(), UID: u.op.UID.String(), Subtask: u.subtask,
		Role: u.role.String(), File: u.file, Offset: -1, KeyGroups: groups, Lost: -1, Times: 1, Text: err.Error(), err: err,
	}
	var lost *backend.LostError
	if errors.As(err, &lost) {
		p.State, p.Lost = lost.State, lost.Entries
		if lost.KeyGroup >= 0 {
			p.KeyGroups = fmt.Sprint(lost.KeyGroup)
		}
		if lost.Err != nil {
			p.Text = lost.Err.Error()
		}
	}
	var at *serializer.Error
	var inTable *rocksdb.Error
	switch {
	case errors.As(err, &inTable):
		p.Offset = inTable.Offset
	case errors.As(err, &at):
		p.Offset = at.Offset
	}
	p.Undecided = undecided(err)
	return p
}

// undecided says that an error is one of the store, or of something that is
// not supported: neither says that bytes are damaged.
func undecided(err error) bool {
	var path *fs.PathError
	return errors.Is(err, serializer.ErrUnsupported) || errors.Is(err, backend.ErrPebble) || errors.Is(err, rocksdb.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
}

// problemList gathers problems; those of one unit with the same text become one.
type problemList struct {
	list []*StateProblem
	seen map[problemKey]*StateProblem
}

type problemKey struct {
	u           *unit
	state, text string
}

// mostDistinct is how many problems are told apart; further ones are counted by handle.
const mostDistinct = 1000

// add takes a problem in and says whether it is a new one.
func (l *problemList) add(u *unit, p *StateProblem) bool {
	k := problemKey{u, p.State, p.Text}
	var group *keyGroupError
	switch {
	case errors.As(p.err, &group):
		k.text = "" // one example is enough
	case len(l.list) >= mostDistinct && l.seen[k] == nil:
		k = problemKey{u, "", ""}
		p.State, p.Text, p.Offset = "", "further problems", -1
	}
	if old := l.seen[k]; old != nil {
		old.Times++
		if old.Lost >= 0 && p.Lost >= 0 {
			old.Lost += p.Lost
		}
		old.KeyGroups = joinGroups(old.KeyGroups, p.KeyGroups)
		return false
	}
	if l.seen == nil {
		l.seen = map[problemKey]*StateProblem{}
	}
	l.seen[k] = p
	l.list = append(l.list, p)
	return true
}

// keyGroupError says that a key is in a key group that it does not hash to.
type keyGroupError struct {
	key   []byte // as JSON
	group int    // that it belongs to
}

func (e *keyGroupError) Error() string {
	return fmt.Sprintf("keys of other key groups, such as key %s of key group %d", e.key, e.group)
}

// groupText names a range of key groups.
func groupText(r keygroup.Range) string {
	if r.Len() == 1 {
		return fmt.Sprint(r.Start)
	}
	return r.String()
}

// joinGroups adds to a list of key groups, up to a length that can be read.
func joinGroups(a, b string) string {
	const most = 60
	switch {
	case a == "" || b == "" || a == b || strings.HasSuffix(a, ", "+b) || strings.HasSuffix(a, " ..."):
		return a
	case len(a) > most:
		return a + " ..."
	}
	return a + ", " + b
}
