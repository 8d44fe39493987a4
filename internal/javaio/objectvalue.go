package javaio

import "encoding/binary"

// Value is a value of a Java object stream:
//
//	nil                                      null
//	bool, int8, uint16 (char), int16, int32, int64, float32, float64   a primitive field
//	string                                   String, as DecodeUTF gives it
//	*Object, *Array, *Enum
//	*Class                                   a java.lang.Class
//	*ClassDesc                               a java.io.ObjectStreamClass
//	Block                                    bytes that writeObject, writeExternal or the program wrote
//	*Aborted                                 an exception that ended the writing
//
// Objects are shared and may be cyclic, as they were in Java.
type Value any

type (
	// Block is block data: what was written as primitives, not as objects.
	Block []byte

	// Object is an instance of a serializable or externalizable class.
	Object struct {
		Class *ClassDesc
		// Data is what each class wrote, superclasses first, without those that wrote nothing.
		Data []ClassData
	}

	// ClassData is the part of an object that belongs to one class of its hierarchy.
	ClassData struct {
		Class *ClassDesc
		// Fields are the values of Class.Fields.
		Fields []Value
		// Annotations are the blocks and objects that the class's own
		// writeObject or writeExternal wrote, in their order.
		Annotations []Value
	}

	// ClassDesc describes a class as it was when the stream was written.
	ClassDesc struct {
		// Name is the class's binary name; "" for a proxy.
		Name string
		// UID is the serialVersionUID.
		UID   int64
		Flags byte
		// Fields in the order of the stream.
		Fields []ClassField
		// Super is the next serializable superclass, nil if there is none.
		Super *ClassDesc
		// Annotations are what annotateClass wrote; Java itself writes nothing.
		Annotations []Value
		// Proxy says that it is a dynamic proxy, for Interfaces.
		Proxy      bool
		Interfaces []string

		depth  int // length of the chain of superclasses
		closed bool
	}

	// ClassField is a serializable field of a class.
	ClassField struct {
		// Code is the first letter of the type's signature: B C D F I J S Z L [.
		Code byte
		Name string
		// Type is the signature of an object's type, such as "Ljava/lang/String;", else "".
		Type string
	}

	// Array is a Java array.
	Array struct {
		Class *ClassDesc
		// Len is the number of elements.
		Len int
		// Primitives are the elements of an array of primitives, big-endian.
		Primitives []byte
		// Elements are those of an array of objects.
		Elements []Value
	}

	// Enum is an enum constant.
	Enum struct {
		Class    *ClassDesc
		Constant string
	}

	// Class is a java.lang.Class.
	Class struct{ Desc *ClassDesc }

	// Aborted stands where writing failed with an exception.
	Aborted struct{ Cause Value }
)

// Flags of a [ClassDesc].
const (
	// FlagWriteMethod says that the class has a writeObject method, whose output ends with a mark.
	FlagWriteMethod = 0x01
	// FlagSerializable says that instances have the class's fields.
	FlagSerializable = 0x02
	// FlagExternalizable says that instances are what writeExternal wrote.
	FlagExternalizable = 0x04
	// FlagBlockData says that the output of writeExternal is in blocks, with a mark at its end.
	FlagBlockData = 0x08
	// FlagEnum says that the class is an enum.
	FlagEnum = 0x10
)

// Field gives a field by its name, of the most derived class that has one. It
// is nil for null and for a field that isn't there.
func (o *Object) Field(name string) Value {
	for i := len(o.Data) - 1; i >= 0; i-- {
		d := &o.Data[i]
		for j := range d.Fields {
			if d.Class.Fields[j].Name == name {
				return d.Fields[j]
			}
		}
	}
	return nil
}

// Int is Field for an int field, 0 if it isn't one.
func (o *Object) Int(name string) int32 {
	v, _ := o.Field(name).(int32)
	return v
}

// Text is Field for a String, "" if it isn't one.
func (o *Object) Text(name string) string {
	v, _ := o.Field(name).(string)
	return v
}

// Of gives the part of an object that belongs to a class, nil if that wrote nothing.
func (o *Object) Of(class string) *ClassData {
	for i := range o.Data {
		if o.Data[i].Class.Name == class {
			return &o.Data[i]
		}
	}
	return nil
}

// Block is the block data before the first object; nil for a nil d.
func (d *ClassData) Block() []byte {
	if d == nil {
		return nil
	}
	var all []byte
	for i, v := range d.Annotations {
		b, ok := v.(Block)
		switch {
		case !ok:
			return all
		case i == 0:
			all = b[:len(b):len(b)]
		default:
			all = append(all, b...)
		}
	}
	return all
}

// Objects are the annotations that are not blocks; nil for a nil d.
func (d *ClassData) Objects() []Value {
	if d == nil {
		return nil
	}
	var all []Value
	for _, v := range d.Annotations {
		if _, ok := v.(Block); !ok {
			all = append(all, v)
		}
	}
	return all
}

// Elements gives the elements of a List or Set of java.util, or of an array of
// objects. False for anything else; of a set, the order is that of the stream.
func Elements(v Value) ([]Value, bool) {
	for range maxWrappers {
		switch x := v.(type) {
		case *Array:
			return x.Elements, codeSize(elemCode(x.Class.Name)) == 0
		case *Object:
			switch x.Class.Name {
			case "java.util.ArrayList", "java.util.LinkedList", "java.util.ArrayDeque", "java.util.HashSet":
				return x.Of(x.Class.Name).Objects(), true
			case "java.util.LinkedHashSet":
				return x.Of("java.util.HashSet").Objects(), true
			case "java.util.TreeSet":
				all := x.Of(x.Class.Name).Objects() // the comparator comes first
				return all[min(1, len(all)):], true
			case "java.util.CollSer": // List.of, Set.of
				return x.Of(x.Class.Name).Objects(), x.Int("tag")&0xFF != collectionMap
			case "java.util.Collections$EmptyList", "java.util.Collections$EmptySet":
				return nil, true
			case "java.util.Collections$SingletonList", "java.util.Collections$SingletonSet":
				return []Value{x.Field("element")}, true
			case "java.util.Arrays$ArrayList":
				v = x.Field("a")
			case "java.util.Collections$UnmodifiableCollection", "java.util.Collections$UnmodifiableList",
				"java.util.Collections$UnmodifiableRandomAccessList", "java.util.Collections$UnmodifiableSet",
				"java.util.Collections$SynchronizedCollection", "java.util.Collections$SynchronizedList",
				"java.util.Collections$SynchronizedRandomAccessList", "java.util.Collections$SynchronizedSet":
				v = x.Field("c")
			default:
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return nil, false
}

const (
	maxWrappers = 8 // collections that wrap collections
	// collectionMap is the tag of Map.of in java.util.CollSer.
	collectionMap = 3
)

// Entry is an entry of a map.
type Entry struct{ Key, Value Value }

// Entries gives the entries of a Map of java.util in the order of the stream.
// False for anything else.
func Entries(v Value) ([]Entry, bool) {
	for range maxWrappers {
		x, ok := v.(*Object)
		if !ok {
			return nil, false
		}
		var all []Value
		switch x.Class.Name {
		case "java.util.HashMap", "java.util.LinkedHashMap":
			all = x.Of("java.util.HashMap").Objects()
		case "java.util.TreeMap":
			all = x.Of("java.util.TreeMap").Objects()
		case "java.util.CollSer":
			if x.Int("tag")&0xFF != collectionMap {
				return nil, false
			}
			all = x.Of("java.util.CollSer").Objects()
		case "java.util.concurrent.ConcurrentHashMap":
			// Nulls, which the map can't hold, end it.
			all = x.Of("java.util.concurrent.ConcurrentHashMap").Objects()
			if n := len(all); n >= 2 && all[n-1] == nil && all[n-2] == nil {
				all = all[:n-2]
			}
		case "java.util.Collections$EmptyMap":
			return nil, true
		case "java.util.Collections$SingletonMap":
			return []Entry{{x.Field("k"), x.Field("v")}}, true
		case "java.util.Collections$UnmodifiableMap", "java.util.Collections$SynchronizedMap":
			v = x.Field("m")
			continue
		default:
			return nil, false
		}
		if len(all)%2 != 0 {
			return nil, false
		}
		entries := make([]Entry, len(all)/2)
		for i := range entries {
			entries[i] = Entry{all[2*i], all[2*i+1]}
		}
		return entries, true
	}
	return nil, false
}

// elemCode is the code of an array's elements by the array's class name; 0 if it is none.
func elemCode(name string) byte {
	if len(name) < 2 || name[0] != '[' {
		return 0
	}
	return name[1]
}

// codeSize is the size in bytes of a primitive by its code, 0 for an object, -1 for no code.
func codeSize(code byte) int {
	switch code {
	case 'B', 'Z':
		return 1
	case 'C', 'S':
		return 2
	case 'F', 'I':
		return 4
	case 'D', 'J':
		return 8
	case 'L', '[':
		return 0
	}
	return -1
}

// Ints gives the elements of an int array, nil if it is another.
func (a *Array) Ints() []int32 {
	if a.Class.Name != "[I" {
		return nil
	}
	all := make([]int32, a.Len)
	for i := range all {
		all[i] = int32(binary.BigEndian.Uint32(a.Primitives[4*i:]))
	}
	return all
}
