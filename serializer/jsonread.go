package serializer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// members are those of a JSON object, in their order.
type members []member

type member struct {
	name  string
	value any
}

// missing stands for a member that an object has not.
var missing any = struct{ missing bool }{true}

// maxJSONDepth bounds how deep arrays and objects are nested.
const maxJSONDepth = 10_000

// parseJSON gives nil, bool, string, json.Number, []any or [members]. Other than package encoding/json
// it keeps lone surrogates, as their three bytes, and the order of members, of which no two may have the same name.
func parseJSON(text string) (any, error) {
	p := jsonParser{text: text}
	v, err := p.value(0)
	if err == nil {
		if p.space(); p.pos < len(text) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("JSON, byte %d: %w", p.pos, err)
	}
	return v, nil
}

type jsonParser struct {
	text string
	pos  int
}

func (p *jsonParser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// next gives the next byte, which is not white space; 0 at the end.
func (p *jsonParser) next() byte {
	if p.space(); p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *jsonParser) unexpected(want string) error {
	if p.pos >= len(p.text) {
		return fmt.Errorf("it ends where there should be %s", want)
	}
	return fmt.Errorf("%q where there should be %s", p.text[p.pos], want)
}

// expect moves past a byte.
func (p *jsonParser) expect(c byte, want string) error {
	if p.next() != c {
		return p.unexpected(want)
	}
	p.pos++
	return nil
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxJSONDepth)
	}
	switch c := p.next(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.quoted()
	case c == '-' || digit(c):
		return p.number()
	}
	for _, word := range [...]struct {
		text  string
		value any
	}{{"null", nil}, {"true", true}, {"false", false}} {
		if end := p.pos + len(word.text); end <= len(p.text) && p.text[p.pos:end] == word.text {
			p.pos = end
			return word.value, nil
		}
	}
	return nil, p.unexpected("a value")
}

func (p *jsonParser) array(depth int) (any, error) {
	p.pos++
	list := []any{}
	if p.next() == ']' {
		p.pos++
		return list, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if p.next() == ']' {
			p.pos++
			return list, nil
		}
		if err := p.expect(',', "a comma or ]"); err != nil {
			return nil, err
		}
	}
}

func (p *jsonParser) object(depth int) (any, error) {
	p.pos++
	all := members{}
	if p.next() == '}' {
		p.pos++
		return all, nil
	}
	for {
		if p.next() != '"' {
			return nil, p.unexpected("a name")
		}
		name, err := p.quoted()
		if err != nil {
			return nil, err
		}
		if err := p.expect(':', "a colon"); err != nil {
			return nil, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		all = append(all, member{name, v})
		if p.next() == '}' {
			p.pos++
			return all, all.distinct()
		}
		if err := p.expect(',', "a comma or }"); err != nil {
			return nil, err
		}
	}
}

// fewMembers is up to how many members are compared with each other instead of being put into a map.
const fewMembers = 16

// distinct fails if two members have the same name.
func (m members) distinct() error {
	if len(m) <= fewMembers {
		for i := range m {
			for j := range i {
				if m[i].name == m[j].name {
					return fmt.Errorf("%q comes twice", m[i].name)
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(m))
	for i := range m {
		seen[m[i].name] = struct{}{}
		if len(seen) == i {
			return fmt.Errorf("%q comes twice", m[i].name)
		}
	}
	return nil
}

// named gives the values of the members with these names, in their order; [missing] for those that are not there. Others fail.
func (m members) named(names []string) ([]any, error) {
	values := make([]any, len(names))
	for i := range values {
		values[i] = missing
	}
	var places map[string]int
	next := 0
	for _, member := range m {
		if next >= len(names) || names[next] != member.name {
			if places == nil {
				places = make(map[string]int, len(names))
				for i, name := range names {
					places[name] = i
				}
			}
			at, ok := places[member.name]
			if !ok {
				return nil, fmt.Errorf("there is no field %q", member.name)
			}
			next = at
		}
		values[next] = member.value
		next++
	}
	return values, nil
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// digits moves past digits, of which there must be one.
func (p *jsonParser) digits() error {
	if p.pos >= len(p.text) || !digit(p.text[p.pos]) {
		return p.unexpected("a digit")
	}
	for p.pos < len(p.text) && digit(p.text[p.pos]) {
		p.pos++
	}
	return nil
}

// at says that one of the bytes is next.
func (p *jsonParser) at(a, b byte) bool {
	return p.pos < len(p.text) && (p.text[p.pos] == a || p.text[p.pos] == b)
}

func (p *jsonParser) number() (any, error) {
	start := p.pos
	if p.at('-', '-') {
		p.pos++
	}
	if p.at('0', '0') {
		p.pos++
	} else if err := p.digits(); err != nil {
		return nil, err
	}
	if p.at('.', '.') {
		p.pos++
		if err := p.digits(); err != nil {
			return nil, err
		}
	}
	if p.at('e', 'E') {
		p.pos++
		if p.at('+', '-') {
			p.pos++
		}
		if err := p.digits(); err != nil {
			return nil, err
		}
	}
	return json.Number(p.text[start:p.pos]), nil
}

// quoted reads a string.
func (p *jsonParser) quoted() (string, error) {
	p.pos++
	start := p.pos
	var text []byte // before start, if there were escapes
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '"':
			s := p.text[start:p.pos]
			if p.pos++; text != nil {
				s = string(append(text, s...))
			}
			return s, nil
		case c == '\\':
			text = append(text, p.text[start:p.pos]...)
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			text = appendCharacter(text, r)
			start = p.pos
		case c < ' ':
			return "", p.unexpected("no control character")
		case c < utf8.RuneSelf:
			p.pos++
		default:
			r, n := utf8.DecodeRuneInString(p.text[p.pos:])
			if r == utf8.RuneError && n == 1 {
				return "", errors.New("not UTF-8")
			}
			p.pos += n
		}
	}
	return "", p.unexpected("a quote")
}

// escape reads what begins with a backslash: a character, for which two surrogates are taken together.
func (p *jsonParser) escape() (rune, error) {
	if p.pos++; p.pos >= len(p.text) {
		return 0, p.unexpected("an escape")
	}
	c := p.text[p.pos]
	if c == 'u' {
		p.pos++
		high, err := p.hex()
		if err != nil || high < 0xD800 || high >= 0xDC00 || p.pos+1 >= len(p.text) || p.text[p.pos:p.pos+2] != `\u` {
			return high, err
		}
		before := p.pos
		p.pos += 2
		low, err := p.hex()
		if err != nil {
			return 0, err
		}
		if low < 0xDC00 || low >= 0xE000 {
			p.pos = before
			return high, nil
		}
		return (high-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	for i := range len(from) {
		if from[i] == c {
			p.pos++
			return rune(to[i]), nil
		}
	}
	return 0, p.unexpected("an escape")
}

// hex reads four hexadecimal digits.
func (p *jsonParser) hex() (rune, error) {
	end := p.pos + 4
	if end > len(p.text) {
		return 0, errors.New("it ends within an escape")
	}
	v, err := strconv.ParseUint(p.text[p.pos:end], 16, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is no escape", `\u`+p.text[p.pos:end])
	}
	p.pos = end
	return rune(v), nil
}
