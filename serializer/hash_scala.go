package serializer

import (
	"strings"

	"github.com/drey-state/drey/keygroup"
)

// scalaClass is the class of a case class's values.
func scalaClass(outer Body) string {
	switch b := outer.(type) {
	case ClassName:
		return string(b)
	case CaseClass:
		return b.Class
	}
	return ""
}

// caseClass is the hashCode that Scala gives to tuples and case classes.
func (b hashBuilder) caseClass(s *Snapshot) (hash, error) {
	c := s.composite(-1)
	if c == nil {
		return nil, noHash(s, "its snapshot is not whole")
	}
	if len(c.Nested) == 0 {
		return nil, noHash(s, "Scala hashes a case class without fields by its name")
	}
	fields, err := b.each(c.Nested, b.scala)
	if err != nil {
		return nil, err
	}
	if class := scalaClass(c.Outer); !strings.HasPrefix(class, "scala.Tuple") {
		b.h.assume("that the case class has the hashCode that Scala gives it")
	}
	return func(in *Input) (int32, bool) {
		var scratch [8]int32
		hashes := scratch[:0]
		for _, f := range fields {
			h, _ := f(in)
			hashes = append(hashes, h)
		}
		return keygroup.ScalaHash(hashes...), false
	}, nil
}

// scalaOption is the hashCode of an Option: of None, that of its name.
func (b hashBuilder) scalaOption(c *Composite) (hash, error) {
	value, err := b.scala(c.Nested[0])
	if err != nil {
		return nil, err
	}
	none := keygroup.StringHash("None")
	return func(in *Input) (int32, bool) {
		if !in.Bool() {
			return none, false
		}
		h, _ := value(in)
		return keygroup.ScalaHash(h), false
	}, nil
}

// scalaEither is the hashCode of an Either, whose sides hash as case classes.
func (b hashBuilder) scalaEither(c *Composite) (hash, error) {
	parts, err := b.each(c.Nested, b.scala)
	if err != nil {
		return nil, err
	}
	return func(in *Input) (int32, bool) {
		side := parts[1]
		if in.Bool() {
			side = parts[0]
		}
		h, _ := side(in)
		return keygroup.ScalaHash(h), false
	}, nil
}

// scala is what a value counts in a case class: numbers that are equal count the same.
func (b hashBuilder) scala(s *Snapshot) (hash, error) {
	if s = s.Modern(); s == nil {
		return b.plain(nil)
	}
	switch s.Class {
	case base + "LongSerializer$LongSerializerSnapshot":
		return func(in *Input) (int32, bool) { return keygroup.ScalaLong(in.I64()), false }, nil
	case base + "FloatSerializer$FloatSerializerSnapshot":
		return func(in *Input) (int32, bool) { return keygroup.ScalaFloat(in.F32()), false }, nil
	case base + "DoubleSerializer$DoubleSerializerSnapshot":
		b.h.assume("that the job runs on Scala 2.12")
		return func(in *Input) (int32, bool) { return keygroup.ScalaDouble(in.F64()), false }, nil
	}
	return b.plain(s)
}
