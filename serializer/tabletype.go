package serializer

import (
	"strconv"
	"strings"

	"github.com/drey-state/drey/internal/javaio"
)

// typeRoot is what decides the layout of a value (LogicalTypeRoot).
type typeRoot uint8

const (
	rootUnknown typeRoot = iota
	rootNull
	rootBoolean
	rootTinyInt
	rootSmallInt
	rootInteger
	rootBigInt
	rootFloat
	rootDouble
	rootDate
	rootTime
	rootTimestamp
	rootTimestampLTZ
	rootYearMonth
	rootDayTime
	rootDecimal
	rootString
	rootBytes
	rootArray
	rootMultiset
	rootMap
	rootRow
	rootRaw
	rootVariant
)

// rootOf knows the roots by their names in Java.
func rootOf(name string) typeRoot {
	switch name {
	case "NULL":
		return rootNull
	case "BOOLEAN":
		return rootBoolean
	case "TINYINT":
		return rootTinyInt
	case "SMALLINT":
		return rootSmallInt
	case "INTEGER":
		return rootInteger
	case "BIGINT":
		return rootBigInt
	case "FLOAT":
		return rootFloat
	case "DOUBLE":
		return rootDouble
	case "DATE":
		return rootDate
	case "TIME_WITHOUT_TIME_ZONE":
		return rootTime
	case "TIMESTAMP_WITHOUT_TIME_ZONE":
		return rootTimestamp
	case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
		return rootTimestampLTZ
	case "INTERVAL_YEAR_MONTH":
		return rootYearMonth
	case "INTERVAL_DAY_TIME":
		return rootDayTime
	case "DECIMAL":
		return rootDecimal
	case "CHAR", "VARCHAR":
		return rootString
	case "BINARY", "VARBINARY", "BITMAP":
		return rootBytes
	case "ARRAY":
		return rootArray
	case "MULTISET":
		return rootMultiset
	case "MAP":
		return rootMap
	case "ROW", "STRUCTURED_TYPE":
		return rootRow
	case "RAW":
		return rootRaw
	case "VARIANT":
		return rootVariant
	}
	return rootUnknown
}

// logicalType is a type of SQL (org.apache.flink.table.types.logical.LogicalType).
type logicalType struct {
	root typeRoot
	// text is the SQL name, for a type without children with its parameters.
	text     string
	nullable bool
	// precision of times and decimals.
	precision, scale int32
	// children are elements, key and value, or fields.
	children []*logicalType
	// names of the fields of a row.
	names []string
	// class of a structured or raw type.
	class string
	// raw reads the content of a raw type; nil if it is not known.
	raw Serializer
}

// String is the type as Flink's asSummaryString, such as "BIGINT NOT NULL".
func (t *logicalType) String() string { return string(t.append(nil)) }

// maxTypeText bounds the text of a type: one that is shared many times has a
// text that grows faster than the bytes that describe it.
const maxTypeText = 1 << 12

func (t *logicalType) append(b []byte) []byte {
	b = append(b, t.text...)
	switch {
	case len(b) > maxTypeText:
		return append(b, "..."...)
	case t.root == rootRow:
		b = append(b, '<')
		if t.class != "" {
			b = append(append(append(b, '\''), t.class...), '\'')
			if len(t.children) > 0 {
				b = append(b, ", "...)
			}
		}
		b = append(t.appendFields(b), '>')
	case t.root == rootMultiset:
		b = append(t.children[0].append(append(b, '<')), '>')
	case len(t.children) > 0:
		b = append(t.appendFields(append(b, '<')), '>')
	}
	if !t.nullable {
		b = append(b, " NOT NULL"...)
	}
	return b
}

// appendFields appends "`a` INT, `b` STRING", or without names "INT, STRING".
func (t *logicalType) appendFields(b []byte) []byte {
	for i, c := range t.children {
		if i > 0 {
			b = append(b, ", "...)
		}
		if len(b) > maxTypeText {
			return append(b, "..."...)
		}
		if i < len(t.names) {
			b = append(b, '`')
			b = append(b, strings.ReplaceAll(t.names[i], "`", "``")...)
			b = append(b, "` "...)
		}
		b = c.append(b)
	}
	return b
}

// typeReader makes types of the objects of one Java object stream. Types that
// are shared in the stream stay shared.
type typeReader struct {
	known map[*javaio.Object]*logicalType
	depth int
	// left is how many more fields there may be: lists of them can be shared, too.
	left int
}

func newTypeReader(s *javaio.ObjectStream) *typeReader {
	return &typeReader{known: map[*javaio.Object]*logicalType{}, left: len(s.Raw)}
}

// maxTypeDepth bounds types in types, and so how deep values nest.
const maxTypeDepth = 64

// unknownType stands for a type that is not understood.
func unknownType(text string) *logicalType { return &logicalType{text: text, nullable: true} }

// typeOf makes the type that a Java object stream describes. What is no type,
// or one that is not known, is of [rootUnknown].
func typeOf(s *javaio.ObjectStream) *logicalType {
	return newTypeReader(s).of(s.Root)
}

// dataTypeOf is typeOf for a DataType, which has a type and a Java class.
func dataTypeOf(s *javaio.ObjectStream) *logicalType {
	if o, ok := s.Root.(*javaio.Object); ok {
		return newTypeReader(s).of(o.Field("logicalType"))
	}
	return unknownType("?")
}

func (r *typeReader) of(v javaio.Value) *logicalType {
	o, ok := v.(*javaio.Object)
	if !ok {
		return unknownType("?")
	}
	if t := r.known[o]; t != nil {
		return t
	}
	if r.depth >= maxTypeDepth {
		return unknownType(shortName(o.Class.Name))
	}
	r.depth++
	defer func() { r.depth-- }()
	t := unknownType(shortName(o.Class.Name)) // for a type that contains itself
	r.known[o] = t
	*t = r.read(o)
	return t
}

func (r *typeReader) read(o *javaio.Object) logicalType {
	root, ok := o.Field("typeRoot").(*javaio.Enum)
	if !ok {
		return *unknownType(shortName(o.Class.Name))
	}
	t := logicalType{root: rootOf(root.Constant), text: root.Constant}
	t.nullable, _ = o.Field("isNullable").(bool)
	if strings.HasSuffix(o.Class.Name, "LegacyTypeInformationType") {
		t.root, t.text = rootUnknown, "LEGACY("+root.Constant+")"
		return t
	}
	switch root.Constant {
	case "CHAR", "BINARY":
		t.text = sized(root.Constant, o.Int("length"))
	case "VARCHAR":
		if t.text = "STRING"; o.Int("length") != maxLength {
			t.text = sized("VARCHAR", o.Int("length"))
		}
	case "VARBINARY":
		if t.text = "BYTES"; o.Int("length") != maxLength {
			t.text = sized("VARBINARY", o.Int("length"))
		}
	case "INTEGER":
		t.text = "INT"
	case "DECIMAL":
		t.precision, t.scale = o.Int("precision"), o.Int("scale")
		t.text = "DECIMAL(" + strconv.Itoa(int(t.precision)) + ", " + strconv.Itoa(int(t.scale)) + ")"
	case "TIME_WITHOUT_TIME_ZONE":
		t.precision = o.Int("precision")
		t.text = sized("TIME", t.precision)
	case "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
		t.precision = o.Int("precision")
		if t.text = sized("TIMESTAMP", t.precision); t.root == rootTimestampLTZ {
			t.text = sized("TIMESTAMP_LTZ", t.precision)
		}
		if kind, ok := o.Field("kind").(*javaio.Enum); ok && kind.Constant != "REGULAR" {
			t.text += " *" + kind.Constant + "*"
		}
	case "INTERVAL_YEAR_MONTH":
		t.text = "INTERVAL YEAR TO MONTH"
	case "INTERVAL_DAY_TIME":
		t.text = "INTERVAL DAY TO SECOND"
	case "ARRAY", "MULTISET":
		t.children = []*logicalType{r.of(o.Field("elementType"))}
		if t.root == rootMultiset {
			t.children = append(t.children, &logicalType{root: rootInteger, text: "INT"})
		}
	case "MAP":
		t.children = []*logicalType{r.of(o.Field("keyType")), r.of(o.Field("valueType"))}
	case "ROW":
		r.fields(&t, o.Field("fields"))
	case "STRUCTURED_TYPE":
		r.structured(&t, o)
	case "DISTINCT_TYPE":
		source := *r.of(o.Field("sourceType"))
		source.nullable = t.nullable
		return source
	case "RAW":
		t.class = className(o.Field("clazz"))
		t.text = "RAW('" + t.class + "', '...')"
		t.raw = r.serializer(o.Field("serializer"))
	}
	return t
}

// maxLength is the length of a STRING or BYTES.
const maxLength = 1<<31 - 1

func sized(name string, n int32) string { return name + "(" + strconv.Itoa(int(n)) + ")" }

// fields adds the fields in a Java list of RowField or StructuredAttribute.
func (r *typeReader) fields(t *logicalType, list javaio.Value) {
	fields, _ := javaio.Elements(list)
	for _, f := range fields {
		o, ok := f.(*javaio.Object)
		if r.left--; !ok || r.left < 0 {
			*t = *unknownType(t.text)
			return
		}
		t.names = append(t.names, o.Text("name"))
		t.children = append(t.children, r.of(o.Field("type")))
	}
}

// structured adds the attributes of a structured type, inherited ones first.
func (r *typeReader) structured(t *logicalType, o *javaio.Object) {
	if super, ok := o.Field("superType").(*javaio.Object); ok {
		s := r.of(super)
		if r.left -= len(s.children); r.left < 0 {
			*t = *unknownType(t.text)
			return
		}
		t.names = append(t.names, s.names...)
		t.children = append(t.children, s.children...)
	}
	r.fields(t, o.Field("attributes"))
	if t.class = className(o.Field("implementationClass")); t.class == "" {
		t.class = o.Text("className")
	}
	t.text = "STRUCTURED"
}

// className is the name of a java.lang.Class.
func className(v javaio.Value) string {
	if c, ok := v.(*javaio.Class); ok {
		return c.Desc.Name
	}
	return ""
}

// width is how many bytes an element of an array takes.
func (t *logicalType) width() int {
	switch t.root {
	case rootBoolean, rootTinyInt:
		return 1
	case rootSmallInt:
		return 2
	case rootInteger, rootFloat, rootDate, rootTime, rootYearMonth:
		return 4
	}
	return 8
}
