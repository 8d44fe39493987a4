package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/drey-state/drey/internal/javaio"
)

// dump turns a snapshot into the trees that the programs under interop print
// of what Flink's own loader returns: every field of Flink's objects by name.
// The two programs differ in details.
type dump struct {
	old   bool   // the form of interop/old
	minor int    // of Flink 1, 100 for Flink 2: fields came and went
	dir   string // the snapshot's directory when the dump was made, as it was given
}

// text shows a string; the newer dump has a name for the snapshot's directory.
func (d dump) text(s string) string {
	if d.old {
		return s
	}
	if rest, ok := strings.CutPrefix(s, "file:"+d.dir); ok {
		return snapshotDir + rest
	}
	return strings.ReplaceAll(s, d.dir, snapshotDir)
}

const snapshotDir = "${SNAPSHOT}"

// uri is the path as java.net.URI prints it, which is how Flink tells files apart.
func (d dump) uri(path string) string {
	return d.text(strings.NewReplacer("%", "%25", " ", "%20").Replace(path))
}

type tree = map[string]any

// num gives a number as the JSON decoder gives it.
func num[T ~int | ~int32 | ~int64](v T) any { return number(strconv.FormatInt(int64(v), 10)) }

type number string

func nums(list []int64) []any {
	out := []any{}
	for _, v := range list {
		out = append(out, num(v))
	}
	return out
}

func (d dump) class(name string, t tree) tree {
	if d.old {
		t["_class"] = name
	} else {
		t["@class"] = name
	}
	return t
}

// id adds the stream handle id, which only the newer dump shows.
func (d dump) id(t tree, id any) tree {
	if !d.old {
		t["@streamStateHandleID"] = id
	}
	return t
}

func (d dump) bytes(b []byte) tree {
	sum := sha256.Sum256(b)
	t := tree{"len": num(len(b)), "sha256": hex.EncodeToString(sum[:])}
	switch {
	case d.old:
		t["head"] = hex.EncodeToString(b[:min(len(b), 48)])
	case len(b) <= 256:
		t["hex"] = hex.EncodeToString(b)
	}
	return t
}

func (d dump) keyRange(start, end int) any {
	if d.old {
		return d.class("KeyGroupRange", tree{"startKeyGroup": num(start), "endKeyGroup": num(end)})
	}
	return []any{num(start), num(end)}
}

func (d dump) handleID(id Text) tree { return d.class("StateHandleID", tree{"keyString": id.String()}) }

func (d dump) snapshot(s *Snapshot) tree {
	masters := []any{}
	for _, m := range s.MasterStates {
		masters = append(masters, d.class("MasterState", tree{"name": m.Name.String(), "version": num(m.Version), "bytes": d.bytes(m.Payload)}))
	}
	ops := []any{}
	for i := range s.Operators {
		ops = append(ops, d.operator(&s.Operators[i]))
	}
	t := tree{"checkpointId": num(s.CheckpointID), "masterStates": masters, "operatorStates": ops}
	if d.old && d.minor == 8 {
		t["taskStates"] = nil
		return d.class("SavepointV2", t)
	}
	if s.Version >= Version4 {
		p, _, err := javaio.ParseObject(s.Properties)
		if err != nil {
			panic(err)
		}
		t["properties"] = d.java(p.Root)
	}
	return d.class("CheckpointMetadata", t)
}

// java shows the properties' object; the fields that it holds are checked too.
func (d dump) java(v javaio.Value) any {
	switch v := v.(type) {
	case *javaio.Enum:
		return v.Constant
	case *javaio.Object:
		t := tree{}
		for _, part := range v.Data {
			for i, f := range part.Fields {
				t[part.Class.Fields[i].Name] = d.java(f)
			}
		}
		return d.class(v.Class.Name[len("org.apache.flink.runtime.checkpoint."):], t)
	}
	return v
}

func (d dump) operator(o *Operator) tree {
	subtasks := tree{}
	for _, s := range o.Subtasks {
		subtasks[strconv.Itoa(int(s.Index))] = d.subtask(s.State)
	}
	t := tree{
		"operatorID": o.ID.String(), "parallelism": num(o.Parallelism), "maxParallelism": num(o.MaxParallelism),
		"operatorSubtaskStates": subtasks,
	}
	if d.minor > 8 {
		t["coordinatorState"] = d.stream(o.Coordinator)
	}
	if d.minor == 100 {
		t["operatorName"], t["operatorUid"] = nil, nil
		if o.Name != "" {
			t["operatorName"] = o.Name.String()
		}
		if o.UID != "" {
			t["operatorUid"] = o.UID.String()
		}
	}
	if o.FullyFinished {
		return d.class("FullyFinishedOperatorState", t)
	}
	return d.class("OperatorState", t)
}

func (d dump) subtask(s *SubtaskState) tree {
	name := "OperatorSubtaskState"
	if s == nil {
		name, s = "FinishedOperatorSubtaskState", &SubtaskState{}
	}
	var size, added int64
	operators := func(list []*OperatorState) []any {
		out := []any{}
		for _, h := range list {
			if h != nil {
				out = append(out, d.operatorState(h))
				size += streamSize(h.Delegate)
				added += streamSize(h.Delegate)
			}
		}
		return out
	}
	keyed := func(k Keyed) []any {
		if k == nil {
			return []any{}
		}
		n, a := keyedSize(k)
		size += n
		added += a
		return []any{d.keyed(k)}
	}
	channels := func(list []ChannelState, input bool) []any {
		out := []any{}
		for i := range list {
			out = append(out, d.channel(&list[i], input))
			size += list[i].Size
			added += list[i].Size
		}
		return out
	}
	t := tree{
		"managedOperatorState": operators(s.ManagedOperator), "rawOperatorState": operators(s.RawOperator),
		"managedKeyedState": keyed(s.ManagedKeyed), "rawKeyedState": keyed(s.RawKeyed),
	}
	if d.minor > 8 {
		t["inputChannelState"] = channels(s.InputChannels, true)
		t["resultSubpartitionState"] = channels(s.OutputChannels, false)
		t["inputRescalingDescriptor"], t["outputRescalingDescriptor"] = d.noRescaling(), d.noRescaling()
	}
	if d.minor == 100 {
		t["upstreamOutputBufferState"] = []any{}
	}
	t["stateSize"] = num(size)
	if d.minor >= 15 {
		t["checkpointedSize"] = num(added)
	}
	return d.class(name, t)
}

func (d dump) noRescaling() tree {
	switch {
	case d.old && d.minor == 12:
		return d.class("InflightDataRescalingDescriptor", tree{"oldSubtaskIndexes": []any{}, "rescaledChannelsMappings": tree{}})
	case d.old:
		return d.class("InflightDataRescalingDescriptor$NoRescalingDescriptor", tree{"gateOrPartitionDescriptors": []any{}})
	}
	return d.class("NoRescalingDescriptor", tree{"gateOrPartitionDescriptors": []any{}})
}

// streamSize is StateObject.getStateSize.
func streamSize(s Stream) int64 {
	switch h := s.(type) {
	case *ByteStream:
		return int64(len(h.Data))
	case *File:
		return h.Size
	case *RelativeFile:
		return h.Size
	case *Segment:
		return h.Size
	case *KeyGroupsStream:
		return streamSize(h.Delegate)
	}
	return 0
}

// keyedSize is getStateSize and getCheckpointedSize.
func keyedSize(k Keyed) (size, added int64) {
	switch h := k.(type) {
	case *KeyGroups:
		size = streamSize(h.Delegate)
		return size, size
	case *Incremental:
		size = streamSize(h.Meta)
		for _, f := range append(h.Shared[:len(h.Shared):len(h.Shared)], h.Private...) {
			size += streamSize(f.Stream)
		}
		return size, h.CheckpointedSize
	case *Changelog:
		for _, k := range append(h.Base[:len(h.Base):len(h.Base)], h.Delta...) {
			n, _ := keyedSize(k)
			size += n
		}
		return size, h.CheckpointedSize
	case *ChangelogMemory:
		for _, c := range h.Changes {
			size += int64(len(c.Change))
		}
		return size, size
	case *ChangelogFile:
		return h.Size, h.IncrementalSize
	}
	panic(fmt.Sprintf("%T", k))
}

func (d dump) stream(s Stream) any {
	switch h := s.(type) {
	case nil:
		return nil
	case *ByteStream:
		return d.class("ByteStreamStateHandle", d.id(tree{"handleName": d.text(h.Name.String()), "data": d.bytes(h.Data)}, d.text(h.Name.String())))
	case *File:
		return d.class("FileStateHandle", d.id(tree{"filePath": d.text(h.Path.String()), "stateSize": num(h.Size)}, d.uri(h.Path.String())))
	case *RelativeFile:
		full := "file:" + path.Clean(d.dir) + "/" + h.Path.String()
		return d.class("RelativeFileStateHandle", d.id(tree{"relativePath": h.Path.String(), "filePath": d.text(full), "stateSize": num(h.Size)}, d.uri(full)))
	case *Segment:
		scope := "EXCLUSIVE"
		if h.Scope == ScopeShared {
			scope = "SHARED"
		}
		return d.class("SegmentFileStateHandle", d.id(tree{
			"filePath": d.text(h.Path.String()), "logicalFileId": d.class("LogicalFileId", tree{"keyString": h.LogicalFileID.String()}),
			"scope": scope, "startPos": num(h.Start), "stateSize": num(h.Size),
		}, h.LogicalFileID.String()))
	case *EmptySegment:
		return d.class("EmptySegmentFileStateHandle", d.id(tree{
			"filePath": "empty", "logicalFileId": d.class("LogicalFileId", tree{"keyString": "DUMMY"}),
			"scope": "EXCLUSIVE", "startPos": num(0), "stateSize": num(0),
		}, "DUMMY"))
	}
	panic(fmt.Sprintf("%T", s))
}

func (d dump) streamID(s Stream) any {
	if d.old {
		return nil
	}
	return d.stream(s).(tree)["@streamStateHandleID"]
}

func (d dump) operatorState(h *OperatorState) tree {
	states := tree{}
	meta := "StateMetaInfo"
	if d.old {
		meta = "OperatorStateHandle$StateMetaInfo"
	}
	for _, s := range h.States {
		states[s.Name.String()] = d.class(meta, tree{"distributionMode": s.Mode.String(), "offsets": nums(s.Offsets)})
	}
	t := d.id(tree{"stateNameToPartitionOffsets": states, "delegateStateHandle": d.stream(h.Delegate)}, d.streamID(h.Delegate))
	if h.Merged == nil {
		return d.class("OperatorStreamStateHandle", t)
	}
	dir := func(path Text) tree {
		return d.class("DirectoryStreamStateHandle", d.id(tree{"directory": d.text(path.String())}, d.uri(path.String())))
	}
	t["taskOwnedDirHandle"], t["sharedDirHandle"] = dir(h.Merged.TaskOwned), dir(h.Merged.Shared)
	if h.Merged.Empty {
		return d.class("EmptyFileMergingOperatorStreamStateHandle", t)
	}
	return d.class("FileMergingOperatorStreamStateHandle", t)
}

func (d dump) keyed(k Keyed) tree {
	switch h := k.(type) {
	case *KeyGroups:
		r := h.Range()
		t := d.id(tree{
			"groupRangeOffsets": d.class("KeyGroupRangeOffsets", tree{"keyGroupRange": d.keyRange(r.Start, r.End), "offsets": nums(h.Offsets)}),
			"stateHandle":       d.stream(h.Delegate),
		}, d.streamID(h.Delegate))
		if d.minor >= 15 {
			t["stateHandleId"] = d.handleID(h.ID)
			if h.Form != KeyGroupsV2 {
				t["stateHandleId"] = anyUUID // Flink makes one up
			}
		}
		if h.Form == KeyGroupsSavepoint {
			return d.class("KeyGroupsSavepointStateHandle", t)
		}
		return d.class("KeyGroupsStateHandle", t)
	case *Incremental:
		r := h.KeyGroups.Range()
		t := tree{
			"backendIdentifier": h.BackendID.String(), "checkpointId": num(h.CheckpointID), "keyGroupRange": d.keyRange(r.Start, r.End),
			"metaStateHandle": d.stream(h.Meta), "sharedState": d.localFiles(h.Shared), "privateState": d.localFiles(h.Private),
		}
		if d.minor >= 15 {
			t["persistedSizeOfThisCheckpoint"] = num(h.CheckpointedSize)
			t["stateHandleId"] = d.handleID(h.ID)
		}
		return d.class("IncrementalRemoteKeyedStateHandle", t)
	case *Changelog:
		r := h.KeyGroups.Range()
		return d.class("ChangelogStateBackendHandleImpl", tree{
			"keyGroupRange": d.keyRange(r.Start, r.End), "checkpointId": num(h.CheckpointID), "materializationID": num(h.MaterializationID),
			"persistedSizeOfThisCheckpoint": num(h.CheckpointedSize), "stateHandleID": d.handleID(h.ID),
			"materialized": d.keyedList(h.Base), "nonMaterialized": d.keyedList(h.Delta),
		})
	case *ChangelogMemory:
		r := h.KeyGroups.Range()
		changes := []any{}
		for _, c := range h.Changes {
			changes = append(changes, d.class("StateChange", tree{"keyGroup": num(c.KeyGroup), "change": d.bytes(c.Change)}))
		}
		sequence := func(n int64) tree { return d.class("GenericSequenceNumber", tree{"number": num(n)}) }
		return d.class("InMemoryChangelogStateHandle", tree{
			"keyGroupRange": d.keyRange(r.Start, r.End), "from": sequence(h.From), "to": sequence(h.To),
			"changes": changes, "stateHandleID": d.handleID(h.ID),
		})
	case *ChangelogFile:
		r := h.KeyGroups.Range()
		streams := []any{}
		for _, s := range h.Streams {
			streams = append(streams, d.class("Tuple2", tree{"f0": d.stream(s.Stream), "f1": num(s.Offset)}))
		}
		return d.class("ChangelogStateHandleStreamImpl", tree{
			"keyGroupRange": d.keyRange(r.Start, r.End), "handlesAndOffsets": streams, "size": num(h.Size),
			"incrementalSize": num(h.IncrementalSize), "stateHandleID": d.handleID(h.ID), "storageIdentifier": h.StorageID.String(),
		})
	}
	panic(fmt.Sprintf("%T", k))
}

func (d dump) keyedList(list []Keyed) []any {
	out := []any{}
	for _, k := range list {
		out = append(out, d.keyed(k))
	}
	return out
}

// localFiles is a map by local name up to Flink 1.16, a list since.
func (d dump) localFiles(files []LocalFile) any {
	byName, list := tree{}, []any{}
	class := "HandleAndLocalPath"
	if d.old {
		class = "IncrementalKeyedStateHandle$HandleAndLocalPath"
	}
	for _, f := range files {
		byName[f.LocalName.String()] = d.stream(f.Stream)
		list = append(list, d.class(class, tree{"handle": d.stream(f.Stream), "localPath": f.LocalName.String()}))
	}
	if d.minor <= 15 {
		return byName
	}
	return list
}

func (d dump) channel(c *ChannelState, input bool) tree {
	t := tree{"delegate": d.stream(c.Delegate), "size": num(c.Size), "subtaskIndex": num(c.Subtask)}
	kind, info, group, channel := "ResultSubpartition", "ResultSubpartitionInfo", "partitionIdx", "subPartitionIdx"
	if input {
		kind, info, group, channel = "InputChannel", "InputChannelInfo", "gateIdx", "inputChannelIdx"
	}
	if c.Merged {
		t["serializedChannelOffsets"] = d.bytes(c.Blob)
		return d.class("Merged"+kind+"StateHandle", t)
	}
	t["info"] = d.class(info, tree{group: num(c.Group), channel: num(c.Channel)})
	t["offsets"] = nums(c.Offsets)
	return d.class(kind+"StateHandle", t)
}
