package serializer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drey-state/drey/keygroup"
)

// ErrNoHash says that the hash code of a key does not follow from its bytes.
var ErrNoHash = errors.New("the hash code of the key is not known")

// Hasher computes the hashCode of the Java objects that serialized keys stand
// for, which decides their key group ([keygroup.ForHash]). One goroutine may use it at a time.
type Hasher struct {
	of      hash
	err     error
	assumes string
	in      Input
}

// hash reads a value and gives its hash code; null has none.
type hash func(in *Input) (code int32, null bool)

// NewHasher makes the hasher of keys that the serializer of this snapshot
// wrote. It always gives one; see [Hasher.Err].
func NewHasher(s *Snapshot) *Hasher { return NewHasherBy(s, nil) }

// NewHasherBy is [NewHasher] with rules for the hash codes of POJOs, which are only as right as the rules are:
// compare the key groups that follow from them with those in which the keys are. Those of a subclass have the rule
// of the subclass. Rules for other classes than those of the keys are passed over.
func NewHasherBy(s *Snapshot, rules HashRules) *Hasher {
	h := new(Hasher)
	b := hashBuilder{h, rules}
	s = s.Modern()
	switch {
	case s != nil && isRowData(s.Class):
		h.of = rowDataHash // as the key itself, not in a tuple, a row is binary
	case s != nil && s.Class == pojoSnapshot:
		h.of, h.err = b.pojo(s, true)
	default:
		h.of, h.err = b.plain(s)
	}
	return h
}

// Err says why the hash codes of these keys cannot be known, and unwraps to
// [ErrNoHash]; nil if they are. They are unknown for classes
// with code of their own (POJOs without a rule, Avro, Kryo, subclasses of tuples), for enums and
// arrays, which Java hashes by address, and for rows in snapshots of Flink 1.11 to
// 1.13, which hash in three ways and don't say which.
func (h *Hasher) Err() error { return h.err }

// Assumes is what the hash codes take for granted although the bytes do not
// tell; "" if nothing.
func (h *Hasher) Assumes() string { return h.assumes }

// Hash gives the hash code of a serialized key. It is an error if the key is
// null, is not as its serializer writes it, or if [Hasher.Err] is one.
func (h *Hasher) Hash(key []byte) (int32, error) {
	if h.err != nil {
		return 0, h.err
	}
	h.in.Reset(key)
	code, null := h.of(&h.in)
	switch {
	case h.in.err != nil:
		return 0, h.in.err
	case null:
		return 0, fmt.Errorf("a null key: %w", ErrNoHash)
	case !h.in.AtEnd():
		h.in.Failf("key", "%d bytes after its end", h.in.Remaining())
		return 0, h.in.err
	}
	return code, nil
}

// assume adds to what the hash codes take for granted.
func (h *Hasher) assume(what string) {
	switch {
	case h.assumes == "":
		h.assumes = what
	case !strings.Contains(h.assumes, what):
		h.assumes += " and " + what
	}
}

// hashBuilder makes the hash of a type.
type hashBuilder struct {
	h     *Hasher
	rules HashRules
}

// noHash is the error of a type.
func noHash(s *Snapshot, why string) error {
	return fmt.Errorf("%s: %w: %s", s, ErrNoHash, why)
}

// composite gives the parts of a composite, nil if it does not have so many; n is -1 for any number.
func (s *Snapshot) composite(n int) *Composite {
	c, _ := s.Body.(*Composite)
	if c == nil || n >= 0 && len(c.Nested) != n {
		return nil
	}
	return c
}

// plain is Object.hashCode of the values.
func (b hashBuilder) plain(s *Snapshot) (hash, error) {
	if s = s.plain(); s == nil {
		return nil, fmt.Errorf("no serializer: %w", ErrNoHash)
	}
	if f := basicHash(s.Class); f != nil {
		return f, nil
	}
	switch s.Class {
	case pojoSnapshot:
		return b.pojo(s, false)
	case javaRuntime + "RowSerializer$RowSerializerSnapshot":
		return b.row(s)
	case javaRuntime + "NullableSerializer$NullableSerializerSnapshot":
		return b.nullable(s, b.plain)
	case base + "ListSerializerSnapshot", runtimeState + "ArrayListSerializerSnapshot":
		if c := s.composite(1); c != nil {
			return b.list(c.Nested[0], b.plain, false)
		}
	case base + "SetSerializerSnapshot":
		if c := s.composite(1); c != nil {
			return b.set(c)
		}
	case base + "MapSerializerSnapshot":
		if c := s.composite(2); c != nil {
			return b.mapping(c, b.plain, 0)
		}
	case javaRuntime + "TupleSerializerSnapshot":
		return b.tuple(s)
	case javaRuntime + "JavaEitherSerializerSnapshot":
		if c := s.composite(2); c != nil {
			return b.either(c)
		}
	case scala + "ScalaCaseClassSerializerSnapshot", scala + "Tuple2CaseClassSerializerSnapshot":
		return b.caseClass(s)
	case scala + "ScalaOptionSerializerSnapshot":
		if c := s.composite(1); c != nil {
			return b.scalaOption(c)
		}
	case scala + "ScalaEitherSerializerSnapshot":
		if c := s.composite(2); c != nil {
			return b.scalaEither(c)
		}
	case base + "EnumSerializer$EnumSerializerSnapshot":
		return nil, noHash(s, "Java hashes an enum by its address")
	case base + "GenericArraySerializerSnapshot":
		return nil, noHash(s, "Java hashes an array by its address")
	}
	if elementHash(s.Class) != nil {
		return nil, noHash(s, "Java hashes an array by its address")
	}
	return nil, noHash(s, "its class has a hashCode of its own")
}

// each makes the hashes of parts.
func (b hashBuilder) each(parts []*Snapshot, of func(*Snapshot) (hash, error)) ([]hash, error) {
	hashes := make([]hash, len(parts))
	for i, p := range parts {
		var err error
		if hashes[i], err = of(p); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

func (b hashBuilder) nullable(s *Snapshot, of func(*Snapshot) (hash, error)) (hash, error) {
	c := s.composite(1)
	if c == nil {
		return nil, noHash(s, "its snapshot is not whole")
	}
	padding, _ := c.Outer.(Number)
	value, err := of(c.Nested[0])
	if err != nil {
		return nil, err
	}
	return func(in *Input) (int32, bool) {
		if in.Bool() {
			in.Skip(int64(padding))
			return 0, true
		}
		return value(in)
	}, nil
}

// list is a list or, with flags before the elements that say that there is one, an array.
func (b hashBuilder) list(element *Snapshot, of func(*Snapshot) (hash, error), flags bool) (hash, error) {
	f, err := of(element)
	if err != nil {
		return nil, err
	}
	return listHash(f, flags), nil
}

func listHash(element hash, flags bool) hash {
	return func(in *Input) (int32, bool) {
		h := int32(1)
		for n := in.Length(); n > 0; n-- {
			start := in.Offset()
			var e int32
			if !flags || in.Bool() {
				e, _ = element(in)
			}
			if h = 31*h + e; !in.element(start) {
				break
			}
		}
		return h, false
	}
}

func (b hashBuilder) set(c *Composite) (hash, error) {
	element, err := b.plain(c.Nested[0])
	if err != nil {
		return nil, err
	}
	return func(in *Input) (int32, bool) {
		var h int32
		for n := in.Length(); n > 0 && in.err == nil; n-- {
			if !in.Bool() {
				e, _ := element(in)
				h += e
			}
		}
		return h, false
	}, nil
}

// mapping is a map; first is what the sum over its entries begins with.
func (b hashBuilder) mapping(c *Composite, of func(*Snapshot) (hash, error), first int32) (hash, error) {
	parts, err := b.each(c.Nested, of)
	if err != nil {
		return nil, err
	}
	return func(in *Input) (int32, bool) {
		h := first
		for n := in.Length(); n > 0 && in.err == nil; n-- {
			k, _ := parts[0](in)
			var v int32
			if null := in.Bool(); !null {
				v, _ = parts[1](in)
			}
			h += keygroup.EntryHash(k, v)
		}
		return h, false
	}, nil
}

func (b hashBuilder) tuple(s *Snapshot) (hash, error) {
	c := s.composite(-1)
	if c == nil {
		return nil, noHash(s, "its snapshot is not whole")
	}
	if class, _ := c.Outer.(ClassName); string(class) != tupleClass(len(c.Nested)) {
		return nil, noHash(s, "a subclass of a tuple may have a hashCode of its own")
	}
	fields, err := b.each(c.Nested, b.plain)
	if err != nil {
		return nil, err
	}
	return func(in *Input) (int32, bool) {
		var h int32
		for _, f := range fields {
			e, _ := f(in)
			h = 31*h + e
		}
		return h, false
	}, nil
}

// tupleClass is the name of Flink's class of a tuple of n fields.
func tupleClass(n int) string { return fmt.Sprintf("org.apache.flink.api.java.tuple.Tuple%d", n) }

func (b hashBuilder) either(c *Composite) (hash, error) {
	parts, err := b.each(c.Nested, b.plain)
	if err != nil {
		return nil, err
	}
	return func(in *Input) (int32, bool) {
		side := parts[1]
		if in.Bool() {
			side = parts[0]
		}
		code, _ := side(in)
		return code, false
	}, nil
}

// isRowData says that a class is the snapshot of a serializer of keys of Table jobs.
func isRowData(class string) bool {
	const runtime = "org.apache.flink.table.runtime.typeutils."
	return class == runtime+"RowDataSerializer$RowDataSerializerSnapshot" ||
		class == runtime+"BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot"
}

func rowDataHash(in *Input) (int32, bool) {
	off := in.Offset()
	row := in.Bytes32()
	code, ok := keygroup.RowDataHash(row)
	if !ok {
		in.FailAt(off, "row", fmt.Errorf("%w: %d bytes", ErrCorrupt, len(row)))
	}
	return code, false
}

func bigIntegerHash(in *Input) (int32, bool) {
	v := readBigInteger(in)
	if v == nil {
		return 0, true
	}
	return keygroup.BigIntHash(v), false
}

func bigDecimalHash(in *Input) (int32, bool) {
	v := readBigInteger(in)
	if v == nil {
		return 0, true
	}
	return keygroup.DecimalHash(v, in.I32()), false
}
