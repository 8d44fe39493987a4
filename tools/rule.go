package tools

import (
	"fmt"
	"strings"

	"github.com/drey-state/drey/storage"
)

// Rule maps the paths at and below From to the same places at and below To.
type Rule struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// ParseRule reads FROM=TO. An equals sign in a path is told from the one
// between the paths by the latter being followed by a scheme or a slash.
func ParseRule(s string) (Rule, error) {
	var cuts []int
	for i := range len(s) {
		if s[i] != '=' || i == 0 {
			continue
		}
		rest := s[i+1:]
		if scheme, _, _ := storage.Split(rest); scheme != "" || strings.HasPrefix(rest, "/") || drivePath(rest) {
			cuts = append(cuts, i)
		}
	}
	switch len(cuts) {
	case 1:
		return Rule{storage.Clean(s[:cuts[0]]), storage.Clean(s[cuts[0]+1:])}, nil
	case 0:
		return Rule{}, fmt.Errorf("%q is not FROM=TO with two absolute paths or URIs", s)
	}
	return Rule{}, fmt.Errorf("%q can be read as FROM=TO in %d ways; choose directories without an equals sign before a slash", s, len(cuts))
}

// drivePath says that s is an absolute path of Windows.
func drivePath(s string) bool {
	return len(s) > 2 && s[1] == ':' && (s[2] == '/' || s[2] == '\\')
}

// apply maps uri by the rule with the longest From that holds it.
func apply(rules []Rule, uri string) (string, bool) {
	best, rest := -1, ""
	for i, r := range rules {
		if rel, ok := storage.Rel(r.From, uri); ok && (best < 0 || len(rel) < len(rest)) {
			best, rest = i, rel
		}
	}
	if best < 0 {
		return "", false
	}
	if rest == "" {
		return rules[best].To, true
	}
	return storage.Join(rules[best].To, rest), true
}

// contradiction is the error of two rules that send one place to two.
func contradiction(rules []Rule) error {
	for i, r := range rules {
		for _, other := range rules[:i] {
			if storage.Key(r.From) == storage.Key(other.From) && storage.Key(r.To) != storage.Key(other.To) {
				return fmt.Errorf("two rules for %s: %s and %s: %w", r.From, other.To, r.To, ErrRefused)
			}
		}
	}
	return nil
}
