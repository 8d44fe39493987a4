package serializer

const scala = "org.apache.flink.api.scala.typeutils."

// ScalaEnum is the body of ScalaEnumSerializerSnapshot: a value is the ID of a constant.
type ScalaEnum struct {
	Class     string
	Constants []ScalaConstant
}

// ScalaConstant is a value of an Enumeration of Scala.
type ScalaConstant struct {
	Name string
	ID   int32
}

func (b *ScalaEnum) write(out *Output, _ int32) {
	out.UTF(b.Class)
	out.I32(int32(len(b.Constants)))
	for _, c := range b.Constants {
		out.UTF(c.Name)
		out.I32(c.ID)
	}
}

func readScalaEnum(in *Input, _ int32) Body {
	b := &ScalaEnum{Class: in.name()}
	for n := in.Length(); n > 0 && in.err == nil; n-- {
		b.Constants = append(b.Constants, ScalaConstant{Name: in.name(), ID: in.I32()})
	}
	return b
}

// scalaFamily knows the serializers of Flink's Scala API, which ended with Flink 1.20.
func scalaFamily(class string) (family, bool) {
	switch class {
	case scala + "ScalaCaseClassSerializerSnapshot", scala + "Tuple2CaseClassSerializerSnapshot":
		return composite(part{
			parts: -1, outer: readCaseClass, name: caseClassName,
			make: func(_ *Composite, p []Serializer) Serializer { return newTuple(p) },
		}), true
	case scala + "ScalaOptionSerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("Option"),
			make: func(_ *Composite, p []Serializer) Serializer { return &option{p[0]} },
		}), true
	case scala + "ScalaEitherSerializerSnapshot":
		return eitherFamily(), true
	case scala + "NothingSerializerSnapshot":
		return simple("Nothing", unknown{class: "scala.Nothing", reason: "it has no values"}), true
	case scala + "ScalaTrySerializerSnapshot":
		return composite(part{ // false means failure, written by Kryo
			parts: 2, name: func(c *Composite) string { return "Try" + arguments(c.Nested[:1]) },
			make: func(_ *Composite, p []Serializer) Serializer { return &try{p[0], p[1]} },
		}), true
	case scala + "TraversableSerializerSnapshot":
		return composite(part{ // the outer body is Scala code that makes the collection
			parts: 1, outer: readClassName, name: generic("Traversable"),
			make: func(_ *Composite, p []Serializer) Serializer { return &flagged{element: p[0]} },
		}), true
	case scala + "UnitSerializer$UnitSerializerSnapshot":
		return simple("Unit", unit("Unit", 1, 1)), true
	case scala + "ScalaEnumSerializerSnapshot":
		return family{
			oldest: 3, newest: 3, read: readScalaEnum,
			make: func(s *Snapshot) Serializer {
				b, ok := s.Body.(*ScalaEnum)
				if !ok {
					return nil
				}
				names, ids := make([]string, len(b.Constants)), make([]int32, len(b.Constants))
				for i, c := range b.Constants {
					names[i], ids[i] = c.Name, c.ID
				}
				return constants(b.Class, names, ids)
			},
			name: func(s *Snapshot) string {
				if b, ok := s.Body.(*ScalaEnum); ok {
					return b.Class
				}
				return shortName(s.Class)
			},
		}, true
	}
	return family{}, false
}

// CaseClass is the outer body of a case class from outer version 3 on.
type CaseClass struct {
	Class     string
	Immutable bool
}

func (b CaseClass) write(out *Output, _ int32) {
	out.UTF(b.Class)
	out.Bool(b.Immutable)
}

func readCaseClass(in *Input, version int32) Body {
	class := in.name()
	if version < 3 {
		return ClassName(class)
	}
	return CaseClass{Class: class, Immutable: in.flag("flag of an immutable class")}
}

func caseClassName(c *Composite) string {
	var class string
	switch b := c.Outer.(type) {
	case ClassName:
		class = string(b)
	case CaseClass:
		class = b.Class
	}
	return class + arguments(c.Nested)
}

// option is a flag that there is a value, and the value.
type option struct{ value Serializer }

func (o *option) Len() int { return -1 }

func (o *option) Skip(in *Input) {
	if in.Bool() {
		o.value.Skip(in)
	}
}

func (o *option) Read(in *Input) any {
	if !in.Bool() {
		return nil
	}
	return o.value.Read(in)
}

func (o *option) encode(w *encoding, v any) error {
	if w.Bool(v != nil); v == nil {
		return nil
	}
	return w.value(o.value, v)
}

// try is a flag of success, and the value or the exception.
type try struct{ value, failure Serializer }

func (t *try) Len() int { return -1 }

func (t *try) Skip(in *Input) {
	if in.Bool() {
		t.value.Skip(in)
	} else {
		t.failure.Skip(in)
	}
}

func (t *try) Read(in *Input) any {
	if in.Bool() {
		return t.value.Read(in)
	}
	v := t.failure.Read(in)
	if in.err != nil {
		return nil
	}
	return record("Failure", "exception", v)
}

func (t *try) encode(w *encoding, v any) error {
	if o, ok := v.(members); ok && len(o) == 1 && o[0].name == "exception" {
		return w.opaque("Try", "a failure is written by Kryo")
	}
	w.Bool(true)
	return w.value(t.value, v)
}
