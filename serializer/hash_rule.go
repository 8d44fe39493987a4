package serializer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HashRule says how the hashCode method of a class of POJOs computes. The fields stand in the order in which it
// takes them, which bytes can't tell: Flink writes fields by name.
type HashRule struct {
	Kind   HashKind
	Fields []HashField
}

// HashKind is how the hash codes of fields become one.
type HashKind string

const (
	// HashObjects is h = 31h + field, from 1: Objects.hash, Arrays.hashCode, and what Eclipse generates.
	HashObjects HashKind = "objects"
	// HashRecord is h = 31h + field, from 0: records as OpenJDK has them, data classes of Kotlin, and what IntelliJ
	// IDEA generates without Objects.hash.
	HashRecord HashKind = "record"
	// HashLombok is h = 59h + field, from 1, of the @EqualsAndHashCode, @Data and @Value of Lombok 1.18. An object
	// that is null counts 43, a boolean 79 or 97, an array by its content, 0 if it is null.
	HashLombok HashKind = "lombok"
	// HashOne is the hash code of the only field.
	HashOne HashKind = "field"
)

// HashField is a field that hashCode takes.
type HashField struct {
	Name string
	// As is what it counts, where its type leaves that open; "" is its hashCode, 0 for null.
	As HashAs
}

// HashAs is what a field counts in a [HashRule].
type HashAs string

const (
	// HashPrimitive is a boolean. [HashLombok] tells it from a Boolean, and needs one or the other.
	HashPrimitive HashAs = "boolean"
	// HashBoxed is a Boolean.
	HashBoxed HashAs = "Boolean"
	// HashBit is a boolean as 1 or 0, as IntelliJ IDEA and older Kotlin have it.
	HashBit HashAs = "bit"
	// HashArray is an array by content (Arrays.hashCode, Arrays.deepHashCode), as IDEs and Kotlin have it.
	HashArray HashAs = "array"
	// HashName is an enum by the name of its constant: its hashCode is its address.
	HashName HashAs = "name"
)

// HashRules are rules by the binary name of the class ("com.example.Jobs$Key"); "*" is for all without one of their own.
type HashRules map[string]HashRule

// ErrHashRule says that a text is no rule.
var ErrHashRule = errors.New("not a hash rule")

// ParseHashRule reads what [HashRule.String] writes: KIND(FIELD,...), a field as NAME or NAME:AS, such as
// "objects(id,name)" or "lombok(id,paid:boolean)". KIND alone is for classes of one field.
func ParseHashRule(text string) (HashRule, error) {
	kind, list, bracket := strings.Cut(text, "(")
	r := HashRule{Kind: HashKind(kind)}
	closed := !bracket
	if bracket {
		list, closed = strings.CutSuffix(list, ")")
		for field := range strings.SplitSeq(list, ",") {
			name, as, _ := strings.Cut(strings.TrimSpace(field), ":")
			r.Fields = append(r.Fields, HashField{Name: name, As: HashAs(as)})
		}
	}
	err := r.check()
	if !closed {
		err = errors.New("no closing bracket")
	}
	if err != nil {
		return HashRule{}, fmt.Errorf("%w: %q: %w: write objects, record, lombok or field, and the fields in the order in which hashCode takes them, such as objects(id,name)",
			ErrHashRule, text, err)
	}
	return r, nil
}

// check says what is wrong with a rule.
func (r HashRule) check() error {
	if !slices.Contains([]HashKind{HashObjects, HashRecord, HashLombok, HashOne}, r.Kind) {
		return fmt.Errorf("there is no kind %q", r.Kind)
	}
	seen := map[string]bool{}
	for _, f := range r.Fields {
		switch {
		case f.Name == "" || strings.ContainsAny(f.Name, " (),:="):
			return fmt.Errorf("%q is no name of a field", f.Name)
		case !slices.Contains([]HashAs{"", HashPrimitive, HashBoxed, HashBit, HashArray, HashName}, f.As):
			return fmt.Errorf("field %s as %q: there are boolean, Boolean, bit, array and name", f.Name, f.As)
		case seen[f.Name]:
			return fmt.Errorf("field %s twice", f.Name)
		}
		seen[f.Name] = true
	}
	if r.Kind == HashOne && len(r.Fields) > 1 {
		return fmt.Errorf("%d fields instead of one", len(r.Fields))
	}
	return nil
}

// String gives the text that [ParseHashRule] reads.
func (r HashRule) String() string {
	if len(r.Fields) == 0 {
		return string(r.Kind)
	}
	names := make([]string, len(r.Fields))
	for i, f := range r.Fields {
		if names[i] = f.Name; f.As != "" {
			names[i] += ":" + string(f.As)
		}
	}
	return string(r.Kind) + "(" + strings.Join(names, ",") + ")"
}

// Set adds a rule from CLASS=RULE, see [ParseHashRule]; the map must not be nil. With String it makes the map a flag
// that can be given several times. A class that has another rule already is an error.
func (r HashRules) Set(text string) error {
	class, rule, ok := strings.Cut(text, "=")
	if class = strings.TrimSpace(class); !ok || class == "" {
		return fmt.Errorf("%w: %q: write CLASS=RULE, such as com.example.Key=objects(id,name)", ErrHashRule, text)
	}
	parsed, err := ParseHashRule(strings.TrimSpace(rule))
	if err != nil {
		return err
	}
	if other, ok := r[class]; ok && other.String() != parsed.String() {
		return fmt.Errorf("%w: %s has two: %s and %s", ErrHashRule, class, other, parsed)
	}
	r[class] = parsed
	return nil
}

// String lists the rules as [HashRules.Set] reads them, by class.
func (r HashRules) String() string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(r)) {
		list = append(list, class+"="+r[class].String())
	}
	return strings.Join(list, " ")
}

// of gives the rule of a class.
func (r HashRules) of(class string) (HashRule, bool) {
	rule, ok := r[class]
	if !ok {
		rule, ok = r["*"]
	}
	return rule, ok
}
