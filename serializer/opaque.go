package serializer

import "slices"

// OpaquePart names the class of a part of the values of which it is not known where
// they end, unless something tells their length; "" if there is none. Some values may be readable all the same: Kryo's
// boxed numbers, or a null in place of what is not known.
func (s *Snapshot) OpaquePart() string {
	return s.find(func(s *Snapshot) string {
		switch v := Of(s).(type) {
		case unknown:
			return s.String()
		case kryoValues:
			return v.class
		}
		return ""
	})
}

// KryoPart names the class of a part of the values that Kryo writes; "" if there is none.
func (s *Snapshot) KryoPart() string {
	return s.find(func(s *Snapshot) string {
		if b, ok := s.Body.(*Kryo); ok {
			return b.Class
		}
		return ""
	})
}

// find gives what match says of the first of the snapshot's parts, or of itself, of which it says something.
func (s *Snapshot) find(match func(*Snapshot) string) string {
	if s == nil {
		return ""
	}
	s = s.Modern()
	switch b := s.Body.(type) {
	case *Composite:
		for _, p := range b.Nested {
			if name := p.find(match); name != "" {
				return name
			}
		}
	case *TTLAware:
		return b.Nested.find(match)
	case *Pojo:
		for _, f := range slices.Concat(b.Fields, b.Registered, b.Others) {
			// Nothing is known of a field whose snapshot can't be read.
			nested := f.Snapshot
			if nested == nil && f.Value != nil {
				nested = &Snapshot{Class: NewInput(f.Value).name(), Body: Unread(f.Value)}
			}
			if name := nested.find(match); name != "" {
				return name
			}
		}
	}
	return match(s)
}
