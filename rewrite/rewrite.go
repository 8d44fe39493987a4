package rewrite

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Errors that a caller may want to tell apart.
var (
	// ErrCannotCarry is given by [Plan.Execute] for a plan with problems: something of the source can't be carried over.
	ErrCannotCarry = errors.New("not everything can be carried over")
	// ErrNotEmpty is given if the target's directory holds something.
	ErrNotEmpty = errors.New("the target is not empty")
)

// Format is in which layout keyed state is written.
type Format uint8

// The formats.
const (
	// AsIs keeps the layout that each operator's state has: what is incremental becomes a native savepoint, and a
	// changelog a canonical one.
	AsIs Format = iota
	// Canonical is what every state backend of Flink restores (SavepointFormatType.CANONICAL).
	Canonical
	// NativeHeap is what the hashmap backend writes itself (SavepointFormatType.NATIVE), and it alone restores.
	NativeHeap
	// NativeRocksDB is the files of RocksDB databases, which the RocksDB backend alone opens.
	NativeRocksDB
)

// String names the format as the command line does.
func (f Format) String() string {
	switch f {
	case AsIs:
		return "as is"
	case Canonical:
		return "canonical"
	case NativeHeap:
		return "native-heap"
	case NativeRocksDB:
		return "native-rocksdb"
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// MarshalText gives the name.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Compression says whether key groups are compressed with snappy.
type Compression uint8

// The compressions.
const (
	// CompressionAsIs is as the source has it.
	CompressionAsIs Compression = iota
	CompressionNone
	CompressionSnappy
)

// Source is the snapshot that is read.
type Source struct {
	Files    backend.Files
	Metadata *metadata.Snapshot
}

// Options say what is to become of a snapshot. The zero value copies it into a self-contained savepoint.
type Options struct {
	Format Format
	// Version of the metadata; 0 means that of the source, but at least 3.
	Version     metadata.Version
	Compression Compression
	// MaxParallelism is the new number of key groups of all operators but those that have one, by which keys move to
	// other key groups; 0 keeps them where they are.
	MaxParallelism int
	// Parallelism is into how many subtasks the state of operators with keyed state is written; 0 means as many as it has. A
	// job may restore it with any other.
	Parallelism int
	// Hasher gives what computes hashCode of an operator's keys, which a new number of key groups needs; nil
	// means [serializer.NewHasher]. The hashes are checked against the key groups in which the keys are.
	Hasher func(op *metadata.Operator, key *serializer.Snapshot) *serializer.Hasher
	// Transform gives the changes to an operator's content; nil, as a result too, means none. It is called once for each operator.
	Transform func(op *metadata.Operator) (*Transform, error)

	// Jobs is how many goroutines work on state; 0 means one for each CPU.
	Jobs int
	// Memory is how many bytes of state are held for sorting, in total; 0 means 256 MiB. What is more goes into temporary files
	// in TempDir, "" being the default directory for such files.
	Memory  int64
	TempDir string
	// TableSize is that of [backend.SnapshotOptions].
	TableSize int64
}

const defaultMemory = 256 << 20

func (o *Options) jobs() int {
	if o.Jobs > 0 {
		return o.Jobs
	}
	return runtime.GOMAXPROCS(0)
}

func (o *Options) memory() int64 {
	if o.Memory > 0 {
		return o.Memory
	}
	return defaultMemory
}

// Transform is what changes of an operator's content. Fields that are nil change nothing. The functions must
// not keep the bytes that they get; State and Put are called while planning, the others from several goroutines at once.
type Transform struct {
	// Drop leaves the operator out.
	Drop bool
	// ID, Name and UID replace the operator's if ID is not nil.
	ID        *metadata.OperatorID
	Name, UID metadata.Text
	// State says under which name a state goes on; "" drops it. Keyed says that it is keyed state or timers.
	State func(name string, keyed bool) string
	// Keyed is given each entry of keyed state and each timer, with the state as it was before it was renamed. It may
	// replace Value, Null and Timestamp, not what the key is made of; false drops the entry.
	Keyed func(e *backend.Entry) (bool, error)
	// Wants says of which states Keyed is to be given entries; nil means of all.
	Wants func(state *backend.State) bool
	// Element is given each element of operator state and each entry of a broadcast map. It may replace Value; false drops it.
	Element func(subtask int, e *backend.OperatorEntry) (bool, error)
	// Coordinator is given the state of the operator's coordinator, if there is some, and gives what replaces it.
	Coordinator func(data []byte) ([]byte, error)
	// Put gives entries that a keyed state is to have, in place of those of the same key or besides. It is called while planning for each
	// state that is kept, as it was before it was renamed.
	Put func(s *backend.State) ([]Put, error)
}

// Put is an entry of keyed state that is written whether it is there or not. Its parts are as their serializers write them.
type Put struct {
	Key, Namespace, UserKey, Value []byte
	// Null says that the value of a map's entry is null.
	Null bool
}

// Problem is why something can't be carried over.
type Problem struct {
	// Operator is nil for what concerns none.
	Operator *metadata.Operator `json:"-"`
	// Where names the operator, and the state or the subtask.
	Where string `json:"where,omitempty"`
	Text  string `json:"text"`
}

// String is the problem in one line.
func (p Problem) String() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}
