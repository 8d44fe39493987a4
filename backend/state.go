package backend

import "github.com/drey-state/drey/serializer"

// Kind is a state's kind in the header of a file (StateMetaInfoSnapshot.BackendStateType).
type Kind int32

// The kinds.
const (
	KindKeyValue      Kind = 0
	KindOperator      Kind = 1
	KindBroadcast     Kind = 2
	KindPriorityQueue Kind = 3
	// KindKeyValueV2 is state of Flink 2's asynchronous API.
	KindKeyValueV2 Kind = 4
)

// Type is what a keyed state is to its job (StateDescriptor.Type), or timers.
type Type string

// The types.
const (
	TypeValue       Type = "VALUE"
	TypeList        Type = "LIST"
	TypeMap         Type = "MAP"
	TypeReducing    Type = "REDUCING"
	TypeAggregating Type = "AGGREGATING"
	TypeFolding     Type = "FOLDING"
	TypeUnknown     Type = "UNKNOWN"
	// TypeTimers is a queue of timers; no value of Flink's enum.
	TypeTimers Type = "TIMERS"
)

// Keys of options and serializers in a [StateMeta].
const (
	OptionStateType        = "KEYED_STATE_TYPE"
	OptionDistributionMode = "OPERATOR_STATE_DISTRIBUTION_MODE"

	SerializerKey       = "KEY_SERIALIZER"
	SerializerNamespace = "NAMESPACE_SERIALIZER"
	SerializerValue     = "VALUE_SERIALIZER"
	SerializerUserKey   = "USER_KEY_SERIALIZER"
)

// StateMeta is what a header says of one state (StateMetaInfoSnapshot).
type StateMeta struct {
	Name string
	Kind Kind
	// Options and Serializers are in file order, which is the order of a Java map.
	Options     []Option
	Serializers []NamedSnapshot
}

// Option is a name with a value.
type Option struct{ Key, Value string }

// NamedSnapshot is a serializer under its key, such as [SerializerValue].
type NamedSnapshot struct {
	Key      string
	Snapshot *serializer.Snapshot
}

// Option gives an option by its key, "" if it is not set.
func (m *StateMeta) Option(key string) string {
	for _, o := range m.Options {
		if o.Key == key {
			return o.Value
		}
	}
	return ""
}

// Serializer gives a serializer by its key, nil if there is none.
func (m *StateMeta) Serializer(key string) *serializer.Snapshot {
	for _, s := range m.Serializers {
		if s.Key == key {
			return s.Snapshot
		}
	}
	return nil
}

// KeyedHeader is the start of a file of keyed state, and all of the meta file
// of a RocksDB snapshot (KeyedBackendSerializationProxy).
type KeyedHeader struct {
	Version    int32
	Compressed bool
	Key        *serializer.Snapshot
	States     []StateMeta

	legacy []byte // all behind the version, before version 6
}

// OperatorHeader is the start of a file of operator state (OperatorBackendSerializationProxy).
type OperatorHeader struct {
	Version             int32
	Compressed          bool
	Operator, Broadcast []StateMeta

	legacy []byte // all behind the version, before version 5
}

// NewStateMeta describes a keyed state as Flink does. Value is the serializer
// of the whole value: of a list or a map, that of the list or map.
func NewStateMeta(name string, t Type, namespace, value *serializer.Snapshot) StateMeta {
	return StateMeta{
		Name: name, Kind: KindKeyValue, Options: []Option{{OptionStateType, string(t)}},
		Serializers: []NamedSnapshot{{SerializerValue, value}, {SerializerNamespace, namespace}},
	}
}

// NewTimersMeta describes a queue of timers as Flink does.
func NewTimersMeta(name string, timer *serializer.Snapshot) StateMeta {
	return StateMeta{Name: name, Kind: KindPriorityQueue, Serializers: []NamedSnapshot{{SerializerValue, timer}}}
}
