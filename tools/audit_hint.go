package tools

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drey-state/drey/storage"
)

// AliasHint says that files which snapshots name below one place lie below another, where
// no snapshot is known to use them: the store has two names, or the tree was moved.
type AliasHint struct {
	// Rule is what AuditOptions.Aliases lacks.
	Rule
	// Files is how many were found so, of those that were compared.
	Files int `json:"files"`
}

// mostCompared bounds how many missing files are looked for under other names.
const mostCompared = 100000

// hint finds files by their names, which Flink makes up at random, that
// snapshots name at one place and that lie at another.
func (a *audit) hint() {
	missing := map[string]string{} // name to directory
	for id := range a.registry.Limit() {
		if a.found[id] != 0 || len(missing) >= mostCompared {
			continue
		}
		if f := a.registry.File(id); f.Uses > 0 && !f.Directory && uuidPattern.MatchString(storage.Base(f.URI)) {
			missing[storage.Base(f.URI)] = storage.Dir(f.URI)
		}
	}
	rules := map[Rule]int{}
	for i := range a.held.list {
		f := &a.held.list[i]
		if dir, ok := missing[string(a.held.name(f))]; ok {
			rules[differing(dir, a.registry.Key(a.held.dirs[f.dir]))]++
		}
	}
	a.report.Hints = []AliasHint{}
	for r, n := range rules {
		a.report.Hints = append(a.report.Hints, AliasHint{r, n})
	}
	slices.SortFunc(a.report.Hints, func(x, y AliasHint) int {
		return cmp.Or(y.Files-x.Files, strings.Compare(x.From, y.From), strings.Compare(x.To, y.To))
	})
}

// differing cuts what two directories have in common off their ends.
func differing(from, to string) Rule {
	for {
		a, b := storage.Dir(from), storage.Dir(to)
		if storage.Base(from) != storage.Base(to) || a == from || b == to {
			return Rule{from, to}
		}
		from, to = a, b
	}
}
