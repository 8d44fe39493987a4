package serializer

import "github.com/drey-state/drey/internal/javaio"

const (
	cepNFA    = "org.apache.flink.cep.nfa."
	cepBuffer = "org.apache.flink.cep.nfa.sharedbuffer."
)

// cepFamily knows the classes of CEP, which SQL's MATCH_RECOGNIZE uses, too.
func cepFamily(class string) (family, bool) {
	switch class {
	case cepNFA + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot":
		return simple("DeweyNumber", deweyValue()), true
	case cepBuffer + "EventId$EventIdSerializer$EventIdSerializerSnapshot":
		return simple("EventId", eventIDValue()), true
	case cepBuffer + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot":
		return cepComposite("NodeId", 1, func(p []Serializer) Serializer { return nodeIDValue(p[0]) }), true
	case cepBuffer + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot":
		return cepComposite("SharedBufferEdge", 2, func(p []Serializer) Serializer { return edgeValue(p[0], p[1]) }), true
	case cepBuffer + "SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot":
		return cepComposite("SharedBufferNode", 1, func(p []Serializer) Serializer { return nodeValue(p[0]) }), true
	case cepBuffer + "SharedBufferNodeSerializerSnapshotV2":
		return cepComposite("SharedBufferNode", 1, func(p []Serializer) Serializer {
			return nodeValue(&list{lockableValue(p[0])})
		}), true
	case cepBuffer + "LockableTypeSerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("Lockable"),
			make: func(_ *Composite, p []Serializer) Serializer { return lockableValue(p[0]) },
		}), true
	case cepNFA + "NFAStateSerializerSnapshot":
		return composite(part{
			parts: 3,
			outer: func(in *Input, version int32) Body {
				if version < 2 {
					return nil
				}
				return Flag(in.flag("previous timestamps"))
			},
			name: func(*Composite) string { return "NFAState" },
			make: func(c *Composite, p []Serializer) Serializer {
				previous, _ := c.Outer.(Flag)
				return nfaValue(p[0], p[1], p[2], bool(previous))
			},
		}), true
	case cepNFA + "SharedBuffer$SharedBufferSerializerSnapshot":
		return cepComposite("SharedBuffer", 3, func(p []Serializer) Serializer { return oldBufferValue(p[0], p[1], p[2]) }), true
	case cepNFA + "NFA$MigratedNFASerializerSnapshot":
		return cepComposite("NFA", 2, func(p []Serializer) Serializer { return oldNFAValue(p[0], p[1]) }), true
	}
	return family{}, false
}

func cepComposite(name string, parts int, of func([]Serializer) Serializer) family {
	return composite(part{
		parts: parts, name: func(*Composite) string { return name },
		make: func(_ *Composite, p []Serializer) Serializer { return of(p) },
	})
}

// deweyValue is the version of a run, such as 1.0.2, as a list.
func deweyValue() Serializer { return &list{integer()} }

func eventIDValue() Serializer {
	return newObject("EventId", field{"id", integer()}, field{"timestamp", long()})
}

func nodeIDValue(event Serializer) Serializer {
	return optional{newObject("NodeId", field{"eventId", event}, field{"pageName", text()})}
}

func edgeValue(node, version Serializer) Serializer {
	return newObject("SharedBufferEdge", field{"target", node}, field{"deweyNumber", version})
}

func nodeValue(edges Serializer) Serializer {
	return newObject("SharedBufferNode", field{"edges", edges})
}

// lockableValue counts the references to a value. Its length is never known to Flink.
func lockableValue(value Serializer) Serializer {
	return withLen{-1, newObject("Lockable", field{"refCounter", integer()}, field{"element", value})}
}

// nfaValue has previous timestamps since Flink 1.16.
func nfaValue(version, node, event Serializer, previous bool) Serializer {
	fields := []field{
		{"currentStateName", text()}, {"previousBufferEntry", node}, {"version", version}, {"startTimestamp", long()},
	}
	if previous {
		fields = append(fields, field{"previousTimestamp", long()})
	}
	fields = append(fields, field{"startEventID", optional{event}})
	states := &list{newObject("ComputationState", fields...)}
	return newObject("NFAState", field{"partialMatches", states}, field{"completedMatches", states})
}

// oldBufferValue is the shared buffer of Flink up to 1.5: pages of entries, and
// edges between entries by their index over all pages, -1 for none.
func oldBufferValue(key, value, version Serializer) Serializer {
	entry := newObject("Entry", field{"value", value}, field{"timestamp", long()}, field{"counter", integer()}, field{"refCounter", integer()})
	page := newObject("Page", field{"name", key}, field{"entries", &list{entry}})
	edge := newObject("Edge", field{"source", integer()}, field{"target", integer()}, field{"deweyNumber", version})
	return newObject("SharedBuffer", field{"pages", &list{page}}, field{"edges", &list{edge}})
}

// oldNFAValue is the NFA of Flink 1.3 to 1.5, which had its states and their
// transitions in it.
func oldNFAValue(event, buffer Serializer) Serializer {
	state := newObject("ComputationState", field{"currentStateName", text()}, field{"previousStateName", text()},
		field{"timestamp", long()}, field{"version", deweyValue()}, field{"startTimestamp", long()},
		field{"counter", integer()}, field{"event", optional{event}})
	return newObject("NFA", field{"states", oldStates{}}, field{"windowTime", long()}, field{"handleTimeout", boolean()},
		field{"sharedBuffer", buffer}, field{"computationStates", &list{state}})
}

// optional has a byte before its value that says whether there is one.
type optional struct{ value Serializer }

func (optional) Len() int { return -1 }

func (o optional) Skip(in *Input) {
	if in.flag("presence") {
		o.value.Skip(in)
	}
}

func (o optional) Read(in *Input) any {
	if !in.flag("presence") {
		return nil
	}
	return o.value.Read(in)
}

func (o optional) encode(w *encoding, v any) error {
	if w.Bool(v != nil); v == nil {
		return nil
	}
	return w.value(o.value, v)
}

// oldStates are the states of an old NFA: a number, that many with names and
// types, and then as many lists of transitions.
type oldStates struct{}

func (oldStates) Len() int { return -1 }

func (s oldStates) Skip(in *Input) { s.Read(in) }

func (oldStates) Read(in *Input) any {
	state := newObject("State", field{"name", text()}, field{"type", integer()})
	transition := newObject("StateTransition", field{"source", text()}, field{"target", text()},
		field{"action", integer()}, field{"condition", optional{condition{}}})
	transitions := newObject("Transitions", field{"source", text()}, field{"transitions", &list{transition}})
	n := in.Length()
	all := []any{}
	for i := 0; i < 2*n && !in.Lost(); i++ {
		if i < n {
			all = append(all, state.Read(in))
		} else {
			all = append(all, transitions.Read(in))
		}
	}
	return all
}

func (oldStates) encode(w *encoding, _ any) error {
	return w.opaque("the states of an NFA", "their conditions are code")
}

// condition is a condition of a transition, a Java object.
type condition struct{}

func (condition) Len() int { return -1 }

func (condition) encode(w *encoding, _ any) error { return w.opaque("a condition", "it is code") }

func (condition) Skip(in *Input) { in.Skip(int64(in.Length())) }

func (condition) Read(in *Input) any {
	raw := in.Bytes32()
	if in.err != nil {
		return nil
	}
	o := Opaque{Raw: append([]byte{}, raw...), Reason: "a condition is code"}
	if s, _, err := javaio.ParseObject(o.Raw); err == nil {
		if object, ok := s.Root.(*javaio.Object); ok {
			o.Class = object.Class.Name
		}
	}
	return o
}
