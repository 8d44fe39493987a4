package tools

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

// Selection says which state an operation works on; the zero value is all.
type Selection struct {
	// Operators by id, uid (also of metadata that has only its hash) or name.
	Operators []string
	// States by name; "*" stands for any characters, "?" for one.
	States []string
	// Keys as text: a string as it is, everything else as JSON. Operator
	// state has no key, so that it is left out.
	Keys []string
	// KeyGroups that are wanted. Operator state is left out.
	KeyGroups []keygroup.Range
}

// keyedOnly says that only keyed state can be meant.
func (s *Selection) keyedOnly() bool { return len(s.Keys)+len(s.KeyGroups) > 0 }

// operators gives the operators that are selected, in the order of the
// metadata. A name that fits none or several is an error that lists them.
func (s *Selection) operators(m *metadata.Snapshot) ([]*metadata.Operator, error) {
	wanted := map[*metadata.Operator]bool{}
	for _, arg := range s.Operators {
		found := matchOperators(m, arg)
		switch len(found) {
		case 1:
			wanted[found[0]] = true
		case 0:
			return nil, fmt.Errorf("no operator has the id, uid or name %q; there are %s", arg, listOperators(m.Operators))
		default:
			var names []string
			for _, o := range found {
				names = append(names, operatorName(o))
			}
			return nil, fmt.Errorf("%q names %d operators; name one by its id: %s", arg, len(found), listSome(names))
		}
	}
	var list []*metadata.Operator
	for i := range m.Operators {
		if o := &m.Operators[i]; len(s.Operators) == 0 || wanted[o] {
			list = append(list, o)
		}
	}
	return list, nil
}

// matchOperators gives the operators that arg means: those of the id; if
// there are none, of the uid or its hash; if there are none, of the name.
func matchOperators(m *metadata.Snapshot, arg string) []*metadata.Operator {
	hash := metadata.UIDHash(arg)
	var id metadata.OperatorID
	raw, err := hex.DecodeString(arg)
	isID := err == nil && len(raw) == len(id)
	copy(id[:], raw)
	for _, match := range []func(*metadata.Operator) bool{
		func(o *metadata.Operator) bool { return isID && o.ID == id },
		func(o *metadata.Operator) bool { return o.UID != "" && o.UID.String() == arg || o.ID == hash },
		func(o *metadata.Operator) bool { return o.Name != "" && o.Name.String() == arg },
	} {
		var found []*metadata.Operator
		for i := range m.Operators {
			if o := &m.Operators[i]; match(o) {
				found = append(found, o)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func listOperators(list []metadata.Operator) string {
	if len(list) == 0 {
		return "none"
	}
	var names []string
	for i := range list {
		names = append(names, operatorName(&list[i]))
	}
	return listSome(names)
}

// operatorLabel is what names an operator shortest: its uid, name or id.
func operatorLabel(o *metadata.Operator) string {
	switch {
	case o.UID != "":
		return o.UID.String()
	case o.Name != "":
		return o.Name.String()
	}
	return o.ID.String()
}

// stateMatcher says whether a state's name is selected.
type stateMatcher struct {
	exact    map[string]bool
	patterns []*regexp.Regexp
}

// states gives a matcher, nil for all.
func (s *Selection) states() *stateMatcher {
	if len(s.States) == 0 {
		return nil
	}
	m := &stateMatcher{exact: map[string]bool{}}
	for _, name := range s.States {
		m.exact[name] = true
		if strings.ContainsAny(name, "*?") {
			text := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(name))
			m.patterns = append(m.patterns, regexp.MustCompile("(?s)^"+text+"$"))
		}
	}
	return m
}

func (m *stateMatcher) match(name string) bool {
	return m == nil || m.exact[name] || slices.ContainsFunc(m.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// ParseKeyGroups reads a list of key groups and ranges of them, such as "0-3,17".
func ParseKeyGroups(text string) ([]keygroup.Range, error) {
	var list []keygroup.Range
	for field := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(field), "-")
		if !isRange {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 15)
		if err != nil {
			return nil, fmt.Errorf("%q is no key group: a number from 0 to %d, or a range of them", field, keygroup.UpperBound-1)
		}
		b, err := strconv.ParseUint(last, 10, 15)
		if err != nil || b < a {
			return nil, fmt.Errorf("%q is no range of key groups", field)
		}
		list = append(list, keygroup.Range{Start: int(a), End: int(b)})
	}
	return list, nil
}

// intersectAll cuts a range with each of a list of ranges, which is nil for
// all, and gives the result sorted and without overlaps.
func intersectAll(r keygroup.Range, wanted []keygroup.Range) []keygroup.Range {
	if wanted == nil {
		wanted = []keygroup.Range{r}
	}
	var list []keygroup.Range
	for _, w := range wanted {
		if w = r.Intersect(w); !w.Empty() {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b keygroup.Range) int { return a.Start - b.Start })
	merged := list[:0]
	for _, w := range list {
		if n := len(merged); n > 0 && w.Start <= merged[n-1].End+1 {
			merged[n-1].End = max(merged[n-1].End, w.End)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}
