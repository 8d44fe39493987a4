package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/storage"
)

// AuditStep is something to do after an audit.
type AuditStep struct {
	Why string
	// Command is a command line for a POSIX shell that changes nothing; "" if there is none to run.
	Command string
}

// mostHints is how many aliases a command line gets.
const mostHints = 3

// Next says what to do about what was found, the most urgent first. Where nothing is to do it is empty.
// It may be called concurrently.
func (r *AuditReport) Next() (steps []AuditStep) {
	add := func(command []string, format string, args ...any) {
		for i := range command {
			command[i] = shellWord(command[i])
		}
		steps = append(steps, AuditStep{fmt.Sprintf(format, args...), strings.Join(command, " ")})
	}
	var wrong []string
	for _, f := range r.Unlisted {
		if slices.Contains(r.Roots, f.URI) && (errors.Is(f.Cause, errNothing) || errors.Is(f.Cause, fs.ErrNotExist)) {
			wrong = append(wrong, f.URI)
		}
	}
	if n := len(wrong); n > 0 {
		add(nil, "Check the path of each root that is empty, not there, or a file (%d), or leave it out, and audit again: %s", n, listSome(wrong))
	}
	if n := len(r.Unlisted) - len(wrong); n > 0 {
		add(nil, "Make it possible to list what could not be listed (%d), and audit again: until then gc deletes nothing.", n)
	}
	if n := len(r.Unreadable); n > 0 {
		add(append(r.command("verify"), r.Unreadable[0].URI), "There is metadata that can't be read (%d), and what it uses is not known: gc deletes nothing. See what is wrong with the first:", n)
	}
	if n := len(r.Siblings); n > 0 {
		var up []string
		for _, s := range r.Siblings {
			if dir := storage.Dir(s); !slices.Contains(up, dir) {
				up = append(up, dir)
			}
		}
		add(slices.Concat(r.again("audit"), up, slices.DeleteFunc(slices.Clone(r.Roots), func(root string) bool { return slices.Contains(up, storage.Dir(root)) })),
			"Take into scope what lies beside the roots (%d), as its snapshots may use files below them:", n)
	}
	if len(r.Hints) > 0 {
		command := r.again("audit")
		for _, h := range r.Hints[:min(len(r.Hints), mostHints)] {
			command = append(command, "--alias", h.From+"="+h.To)
		}
		add(append(command, r.Roots...), "Missing files lie under their names at another place. If that is the same place by another name, or where the tree was moved to, say so:")
	} else if i := slices.IndexFunc(r.Snapshots, func(s AuditSnapshot) bool { return s.Missing+s.WrongSize > 0 }); i >= 0 {
		add(append(r.command("repair"), r.Snapshots[i].URI), "Snapshots lack files. Before anything is deleted, look whether those of the first lie elsewhere:")
	}
	if r.Unseen > 0 {
		add(nil, "Make it possible to look at the files that could not be looked at (%d), and audit again.", r.Unseen)
	}
	if n := r.Totals.Unreferenced; n.Files > 0 && r.settled() {
		add(append(append(r.again("gc"), "--plan-out", "plan.json"), r.Roots...),
			"See what can be deleted of what is unreferenced, as a plan that deletes nothing yet; add with --reference what else holds snapshots that may use these files:")
	}
	return steps
}

// settled says that nothing that the audit found raises a doubt about what is unreferenced.
func (r *AuditReport) settled() bool {
	return r.Decided() && len(r.Siblings)+len(r.Hints) == 0 && r.Missing+r.WrongSize+r.Unseen == 0
}

// command begins a command line that reaches the stores as the audit did.
func (r *AuditReport) command(name string) []string {
	return append([]string{"drey", name}, r.audit.o.CommandOptions...)
}

// again begins one that looks at the roots as the audit did.
func (r *AuditReport) again(name string) []string {
	words := r.command(name)
	if grace := r.audit.grace; grace != DefaultGrace {
		words = append(words, "--grace", shortDuration(grace))
	}
	for _, a := range r.audit.o.Aliases {
		words = append(words, "--alias", a.From+"="+a.To)
	}
	return words
}

// shortDuration is 36h rather than 36h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// shellWord quotes a word for a POSIX shell if it has to.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
