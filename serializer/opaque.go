package serializer

import "slices"

// OpaquePart names the class of a part of the values of which it is not known where
// they end, unless something tells their length; "" if there is none. Some values may be readable all the same: Kryo's
// boxed numbers, or a null in place of what is not known.
func (s *Snapshot) OpaquePart() string {
	s = s.Modern()
	if s == nil {
		return "no serializer"
	}
	first := func(parts ...*Snapshot) string {
		for _, p := range parts {
			if name := p.OpaquePart(); name != "" {
				return name
			}
		}
		return ""
	}
	switch b := s.Body.(type) {
	case *Composite:
		return first(b.Nested...)
	case *TTLAware:
		return first(b.Nested)
	case *Pojo:
		for _, f := range slices.Concat(b.Fields, b.Registered, b.Others) {
			name := ""
			if f.Snapshot != nil {
				name = f.Snapshot.OpaquePart()
			} else if _, ok := f.serializer().(unknown); ok {
				name = f.Name
			}
			if name != "" {
				return name
			}
		}
	}
	switch v := Of(s).(type) {
	case unknown:
		return s.String()
	case kryoValues:
		return v.class
	}
	return ""
}
