package backend

import (
	"github.com/drey-state/drey/serializer"
)

// Kind is a state's kind in the header of a file (StateMetaInfoSnapshot.BackendStateType).
type Kind int32

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
}

// OperatorHeader is the start of a file of operator state (OperatorBackendSerializationProxy).
type OperatorHeader struct {
	Version             int32
	Compressed          bool
	Operator, Broadcast []StateMeta
}

// State is one state of a keyed reader with what decodes it. Its serializers
// may be used from any number of goroutines.
type State struct {
	Meta *StateMeta
	// Type of the state; [TypeTimers] for a queue of timers.
	Type Type
	// Key and Namespace are never nil.
	Key, Namespace serializer.Serializer
	// UserKey is nil unless Type is [TypeMap].
	UserKey serializer.Serializer
	// Value is for one value: of a list, one element; of a map, the value of
	// one entry; nil for timers. With time to live it is a serializer of [serializer.TTL].
	Value serializer.Serializer
	// TTL says that values have a last access time.
	TTL bool
	// Raw says that the state lies in raw keyed state: timers of a RocksDB
	// backend with timers on the heap, or what an operator wrote by itself.
	Raw bool
}
