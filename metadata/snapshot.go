package metadata

import (
	"encoding/hex"
	"fmt"

	"github.com/drey-state/drey/keygroup"
)

// FileName is the name of the file that makes a directory a snapshot.
const FileName = "_metadata"

// Snapshot is the content of a _metadata file; it mirrors Flink's
// CheckpointMetadata. Lists are in file order. Flink fills them from hash
// maps, so the order means nothing but is kept: a decoded snapshot encodes to
// the bytes it came from. Strings and byte slices share the memory of the
// decoded bytes. A Snapshot may be read concurrently.
type Snapshot struct {
	Version Version
	// Dialect tells apart the layouts that share version 3.
	Dialect      Dialect
	CheckpointID int64
	// MasterStates is the state of master hooks; version 2 and later.
	MasterStates []MasterState
	Operators    []Operator
	// Properties is the Java-serialized CheckpointProperties, carried as it
	// is, with whatever follows it; version 4 and later. See [Snapshot.Kind].
	Properties Properties
	// Trailing is what follows the body in versions up to 3. Flink ignores it.
	Trailing []byte
}

// MasterState is the state of one master hook, Flink's MasterState.
type MasterState struct {
	Version int32
	Name    Text
	Payload []byte
}

// OperatorID identifies an operator, Flink's OperatorID (in version 1: the
// job vertex). String gives the 32 hex digits that Flink shows.
type OperatorID [16]byte

// String gives 32 lower-case hex digits.
func (id OperatorID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText gives the hex form.
func (id OperatorID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Operator is the state of one operator over all its subtasks, Flink's OperatorState.
type Operator struct {
	// Name and UID are empty if not set; version 5 and later.
	Name, UID Text
	ID        OperatorID
	// Parallelism is the number of subtasks when the snapshot was taken.
	Parallelism int32
	// MaxParallelism is the number of key groups.
	MaxParallelism int32
	// ChainLength is the number of operators in the chain; versions 1 and 2, where 2 always has 1.
	ChainLength int32
	// Coordinator is the operator coordinator's state or nil; version 3 and later.
	Coordinator Stream
	// FullyFinished says that all subtasks had finished, so that there are none here.
	FullyFinished bool
	// Subtasks are those with an entry, in file order.
	Subtasks []Subtask

	finished int32 // the negative count that was read; 0 means -1
}

// Subtask is the entry of one subtask, Flink's OperatorSubtaskState.
type Subtask struct {
	// Index is in [0, Parallelism).
	Index int32
	// State is nil for a subtask that had finished (FinishedOperatorSubtaskState).
	State *SubtaskState
}

// SubtaskState is what one subtask of one operator saved.
type SubtaskState struct {
	// ManagedOperator and RawOperator hold at most one element from version 2
	// on; in version 1 one for each operator of the chain. A nil element stands for none.
	ManagedOperator, RawOperator []*OperatorState
	// ManagedKeyed is the state backend's, RawKeyed what was written to the
	// raw keyed stream; nil for none.
	ManagedKeyed, RawKeyed Keyed
	// InputChannels and OutputChannels are the in-flight data of an unaligned
	// checkpoint; version 3 and later.
	InputChannels, OutputChannels []ChannelState
	// Unused is a field of versions 1 and 2 that means nothing; writers set -1.
	Unused int64
	// Legacy is state of the Checkpointed interface of Flink before 1.2; versions 1 and 2.
	Legacy []Stream

	presence [2]int32 // of ManagedOperator and RawOperator, if neither 0 nor 1 was read
}

// Stream is a handle of a stream of bytes (StreamStateHandle): a
// [*ByteStream], [*File], [*RelativeFile], [*Segment], [*EmptySegment] or
// [*KeyGroupsStream]. nil is the null handle.
type Stream interface {
	// Tag is the byte that announces the handle.
	Tag() Tag
	isStream()
}

// Keyed is a handle of keyed state (KeyedStateHandle): a [*KeyGroups],
// [*Incremental], [*Changelog], [*ChangelogMemory] or [*ChangelogFile]. nil is the null handle.
type Keyed interface {
	// Tag is the byte that announces the handle.
	Tag() Tag
	isKeyed()
}

// ByteStream holds its data inline (ByteStreamStateHandle). Its name is an
// identity, not a path, even where it looks like one.
type ByteStream struct {
	Name Text
	Data []byte
}

// File is a file by absolute path (FileStateHandle).
type File struct {
	// Size in bytes, -1 if unknown. For a stream of a changelog it is the
	// logical length, which the file's real length need not equal.
	Size int64
	Path Text
}

// RelativeFile is a file relative to the directory of _metadata (RelativeFileStateHandle).
type RelativeFile struct {
	Path Text
	Size int64
}

// Scope is the CheckpointedStateScope of a segment.
type Scope int32

// The scopes.
const (
	ScopeExclusive Scope = 0
	ScopeShared    Scope = 1
)

// Segment is part of a file into which several states were merged (SegmentFileStateHandle).
type Segment struct {
	// Start is the offset of the segment in the physical file, Size its length, in bytes.
	Start, Size int64
	Scope       Scope
	// Path is the physical file, always absolute.
	Path          Text
	LogicalFileID Text
}

// EmptySegment stands for no data (EmptySegmentFileStateHandle).
type EmptySegment struct{}

// KeyGroupsStream is a KeyGroupsStateHandle in the place of a stream. No
// release of Flink is known to write one.
type KeyGroupsStream struct {
	KeyGroupOffsets
	Delegate Stream
}

// KeyGroupOffsets says where each key group of a consecutive range begins in
// a stream (KeyGroupRangeOffsets).
type KeyGroupOffsets struct {
	// Start is the first key group.
	Start int32
	// Offsets in bytes, one for each key group.
	Offsets []int64
}

// Range is the range of key groups.
func (o KeyGroupOffsets) Range() keygroup.Range {
	return keygroup.Range{Start: int(o.Start), End: int(o.Start) + len(o.Offsets) - 1}
}

// KeyGroupRange is a range of key groups as the file has it (KeyGroupRange).
type KeyGroupRange struct{ Start, Count int32 }

// Range is the range with its end.
func (r KeyGroupRange) Range() keygroup.Range {
	return keygroup.Range{Start: int(r.Start), End: int(r.Start) + int(r.Count) - 1}
}

// KeyGroupsOf gives the range of key groups that a handle has; false if it is of no kind of this package, or nil.
func KeyGroupsOf(k Keyed) (keygroup.Range, bool) {
	switch k := k.(type) {
	case *KeyGroups:
		return k.Range(), true
	case *Incremental:
		return k.KeyGroups.Range(), true
	case *Changelog:
		return k.KeyGroups.Range(), true
	case *ChangelogMemory:
		return k.KeyGroups.Range(), true
	case *ChangelogFile:
		return k.KeyGroups.Range(), true
	}
	return keygroup.Range{}, false
}

// KeyGroups is keyed state in one stream, by key group (KeyGroupsStateHandle;
// with Form [KeyGroupsSavepoint] KeyGroupsSavepointStateHandle).
type KeyGroups struct {
	Form KeyGroupsForm
	KeyGroupOffsets
	Delegate Stream
	// ID is the state handle's id; only in Form [KeyGroupsV2].
	ID Text
}

// KeyGroupsForm is how a KeyGroups handle is written.
type KeyGroupsForm uint8

// The forms of a KeyGroups handle.
const (
	// KeyGroupsV2 has an id; Flink 1.15 and later.
	KeyGroupsV2 KeyGroupsForm = iota
	// KeyGroupsV1 is the form up to Flink 1.14.
	KeyGroupsV1
	// KeyGroupsSavepoint is the state of a canonical savepoint; Flink 1.13 and later.
	KeyGroupsSavepoint
)

// Incremental is keyed state in the files of a store, of which some are
// shared with other checkpoints (IncrementalRemoteKeyedStateHandle).
type Incremental struct {
	// V1 is the form up to Flink 1.14, without CheckpointedSize and ID.
	V1           bool
	CheckpointID int64
	// BackendID is a UUID as text; files are shared only within one.
	BackendID Text
	KeyGroups KeyGroupRange
	// CheckpointedSize is the number of bytes that this checkpoint added.
	CheckpointedSize int64
	// Meta is the backend's own meta stream.
	Meta Stream
	// Shared are files that other checkpoints may use too, Private the rest.
	Shared, Private []LocalFile
	ID              Text
}

// LocalFile is a file of a store under its local name (HandleAndLocalPath).
type LocalFile struct {
	// LocalName is the name that a restore gives the file, e.g. "000012.sst".
	LocalName Text
	Stream    Stream
}

// Changelog is keyed state as a materialized base and the changes since (ChangelogStateBackendHandle).
type Changelog struct {
	// V1 is the form without CheckpointID, up to Flink 1.15.
	V1               bool
	KeyGroups        KeyGroupRange
	CheckpointedSize int64
	// Base holds [*KeyGroups] and [*Incremental], Delta [*ChangelogMemory] and [*ChangelogFile].
	Base, Delta       []Keyed
	MaterializationID int64
	CheckpointID      int64
	ID                Text
}

// ChangelogMemory is changes held inline (InMemoryChangelogStateHandle).
type ChangelogMemory struct {
	KeyGroups KeyGroupRange
	// From and To are sequence numbers.
	From, To int64
	Changes  []StateChange
	ID       Text
}

// StateChange is one change. KeyGroup -1 means a change of metadata.
type StateChange struct {
	KeyGroup int32
	Change   []byte
}

// ChangelogFile is changes in files (ChangelogStateHandleStreamImpl).
type ChangelogFile struct {
	// V1 is the form without StorageID, up to Flink 1.15.
	V1        bool
	KeyGroups KeyGroupRange
	Streams   []ChangelogStream
	// Size is the sum of the logical lengths, IncrementalSize what this checkpoint added, in bytes.
	Size, IncrementalSize int64
	ID                    Text
	// StorageID is "filesystem" or "memory".
	StorageID Text
}

// ChangelogStream is changes from an offset of a stream on.
type ChangelogStream struct {
	Offset int64
	Stream Stream
}

// Mode is how a state of operator state is given to the subtasks on restore
// (OperatorStateHandle.Mode).
type Mode uint8

// The modes.
const (
	ModeSplit     Mode = 0
	ModeUnion     Mode = 1
	ModeBroadcast Mode = 2
)

// String gives the name that Flink has for the mode.
func (m Mode) String() string {
	switch m {
	case ModeSplit:
		return "SPLIT_DISTRIBUTE"
	case ModeUnion:
		return "UNION"
	case ModeBroadcast:
		return "BROADCAST"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// OperatorState is operator state in one stream (OperatorStreamStateHandle;
// with Merged FileMergingOperatorStreamStateHandle).
type OperatorState struct {
	States   []StateOffsets
	Delegate Stream
	// Merged is set if the state is in a merged file.
	Merged *MergedDirectories
}

// StateOffsets says where the elements of one state begin in a stream, in bytes.
type StateOffsets struct {
	Name    Text
	Mode    Mode
	Offsets []int64
}

// MergedDirectories are the directories of file merging that a subtask
// registers (DirectoryStreamStateHandle). Flink deletes them with all they
// hold when no checkpoint names them any more.
type MergedDirectories struct {
	TaskOwned, Shared Text
	// Empty says that there is no state here, only the directories.
	Empty bool

	rawEmpty byte // the byte that was read for true, if not 1
}

// ChannelState is in-flight data of one channel (InputStateHandle,
// OutputStateHandle) or, if Merged, of many.
type ChannelState struct {
	// Subtask is the index of the subtask that wrote it; not in the dialect of Flink 1.11.
	Subtask int32
	// Group is the gate or the partition, Channel the channel in it or the subpartition. Not set if Merged.
	Group, Channel int32
	// Offsets of the channel's buffers in the stream, in bytes. Not set if Merged.
	Offsets []int64
	// Size is the number of bytes of the channel in the stream.
	Size     int64
	Delegate Stream
	// Merged is the form that Flink 2.1 writes into version 6: Blob says which channels.
	Merged bool
	// Blob is the encoded list of channels, kept as it is. See [ChannelState.Channels].
	Blob []byte
}

// Channel says where the data of one channel is in a stream.
type Channel struct {
	Group, Channel int32
	Size           int64
	Offsets        []int64
}
