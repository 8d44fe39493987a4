package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// DiffReport is how two snapshots differ, as far as their metadata tells.
type DiffReport struct {
	Old DiffSide `json:"old"`
	New DiffSide `json:"new"`
	// Different is the answer.
	Different bool `json:"different"`
	// Fields are differences of the snapshots as a whole.
	Fields  []FieldChange    `json:"fields"`
	Added   []OperatorInfo   `json:"addedOperators"`
	Removed []OperatorInfo   `json:"removedOperators"`
	Changed []OperatorChange `json:"changedOperators"`
	// Same is the number of operators without a difference.
	Same int `json:"sameOperators"`
	// Renames are removed and added operators that look like one another.
	Renames []Rename `json:"renames"`
	// Files by whether old, new or both name them.
	AddedFiles   FileSet `json:"addedFiles"`
	RemovedFiles FileSet `json:"removedFiles"`
	CommonFiles  FileSet `json:"commonFiles"`
	// MovedFiles have the same name and size at another place, as after a
	// relocation; they are no difference. Files of the new snapshot are listed.
	MovedFiles FileSet `json:"movedFiles"`
}

// DiffSide is one of the snapshots.
type DiffSide struct {
	Snapshot     string           `json:"snapshot"`
	Chosen       string           `json:"chosen,omitempty"`
	Version      metadata.Version `json:"version"`
	CheckpointID int64            `json:"checkpointID"`
	Kind         string           `json:"kind"`
	Operators    int              `json:"operators"`
}

// FieldChange is a field with other values.
type FieldChange struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

// OperatorChange is an operator that is in both snapshots and differs.
type OperatorChange struct {
	ID      metadata.OperatorID `json:"id"`
	Name    string              `json:"name,omitempty"`
	UID     string              `json:"uid,omitempty"`
	Changes []FieldChange       `json:"changes"`
}

// Rename is a removed and an added operator that look like one another.
type Rename struct {
	Old     metadata.OperatorID `json:"old"`
	New     metadata.OperatorID `json:"new"`
	OldName string              `json:"oldName,omitempty"`
	NewName string              `json:"newName,omitempty"`
	// Why says what is the same.
	Why string `json:"why"`
	// Ambiguous says that there are other pairs of the same looks.
	Ambiguous bool `json:"ambiguous,omitempty"`
}

// FileSet is a set of files.
type FileSet struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	// Files is the list, in the order of the metadata.
	Files []string `json:"files"`
}

func (f *FileSet) add(uri string, size int64) {
	f.Count++
	f.Bytes += max(0, size)
	f.Files = append(f.Files, uri)
}

// Diff decodes the metadata of two snapshots and compares them.
func Diff(ctx context.Context, fsys storage.FS, old, new string) (*DiffReport, error) {
	a, err := Open(ctx, fsys, old)
	if err != nil {
		return nil, err
	}
	b, err := Open(ctx, fsys, new)
	if err != nil {
		return nil, err
	}
	return DiffMetadata(a, b), nil
}

// DiffMetadata compares the metadata of two snapshots that were opened.
func DiffMetadata(a, b *Snapshot) *DiffReport {
	r := &DiffReport{
		Old: diffSide(a), New: diffSide(b), Fields: []FieldChange{},
		Added: []OperatorInfo{}, Removed: []OperatorInfo{}, Changed: []OperatorChange{}, Renames: []Rename{},
	}
	ia, ib := a.Properties.Info(), b.Properties.Info()
	r.Fields = compare(r.Fields, "version", a.Version, b.Version)
	r.Fields = compare(r.Fields, "dialect", a.Dialect, b.Dialect)
	r.Fields = compare(r.Fields, "checkpoint id", a.CheckpointID, b.CheckpointID)
	r.Fields = compare(r.Fields, "kind", r.Old.Kind, r.New.Kind)
	r.Fields = compare(r.Fields, "stop", ia.Stop, ib.Stop)
	r.Fields = compare(r.Fields, "retention", ia.Retention, ib.Retention)
	r.Fields = compare(r.Fields, "master states", masterDigest(a), masterDigest(b))
	r.operators(a, b)
	r.files(a, b)
	r.Different = len(r.Fields)+len(r.Added)+len(r.Removed)+len(r.Changed)+r.AddedFiles.Count+r.RemovedFiles.Count > 0
	return r
}

func diffSide(s *Snapshot) DiffSide {
	kind, _ := kindOf(s, newPlaces(s))
	return DiffSide{s.URI, s.Chosen, s.Version, s.CheckpointID, kind, len(s.Operators)}
}

// compare appends the change if the values differ.
func compare[T comparable](list []FieldChange, field string, old, new T) []FieldChange {
	if old == new {
		return list
	}
	return append(list, FieldChange{field, fmt.Sprint(old), fmt.Sprint(new)})
}

// masterDigest lists master states with digests of what they hold.
func masterDigest(s *Snapshot) string {
	var parts []string
	for _, m := range s.MasterStates {
		sum := sha256.Sum256(m.Payload)
		parts = append(parts, fmt.Sprintf("%q version %d, %s, sha256 %x", m.Name.String(), m.Version, count(len(m.Payload), "byte"), sum[:8]))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// diffOperator is what an operator is compared by.
type diffOperator struct {
	OperatorInfo
	kinds, states string
	inline        string // digest of inline data
}

func diffOperators(s *Snapshot) (map[metadata.OperatorID]*diffOperator, []metadata.OperatorID) {
	by := map[metadata.OperatorID]*diffOperator{}
	var order []metadata.OperatorID
	for i := range s.Operators {
		o := &s.Operators[i]
		d := &diffOperator{OperatorInfo: summarize(i, o, 0, nil), inline: inlineDigest(o)}
		d.kinds, d.states = signature(&d.OperatorInfo)
		if by[o.ID] == nil {
			order = append(order, o.ID)
		}
		by[o.ID] = d // the last one counts, as in a restore
	}
	return by, order
}

// signature is what an operator's state looks like: kinds of handles and names of states.
func signature(o *OperatorInfo) (kinds, states string) {
	var k []string
	if o.hasKeyed {
		k = append(k, "keyed")
	}
	if o.RawKeyedBytes > 0 {
		k = append(k, "raw keyed")
	}
	if o.hasCoordinator {
		k = append(k, "coordinator")
	}
	var names []string
	for _, s := range o.States {
		raw := ""
		if s.Raw {
			raw = "raw "
		}
		names = append(names, fmt.Sprintf("%s%q %s", raw, s.Name, s.Mode))
	}
	slices.Sort(names)
	return strings.Join(k, ", "), strings.Join(names, ", ")
}

// inlineDigest is a digest of all inline data of an operator, which does not
// depend on the order in the file or on the names that the data have.
func inlineDigest(o *metadata.Operator) string {
	var digests []string
	add := func(where string, data []byte) {
		sum := sha256.Sum256(data)
		digests = append(digests, where+" "+hex.EncodeToString(sum[:]))
	}
	visitInline(o, add)
	slices.Sort(digests)
	sum := sha256.Sum256([]byte(strings.Join(digests, "\n")))
	return hex.EncodeToString(sum[:])
}

// visitInline calls fn with all inline data of an operator and where they are.
func visitInline(o *metadata.Operator, fn func(where string, data []byte)) {
	var stream func(where string, s metadata.Stream)
	stream = func(where string, s metadata.Stream) {
		switch h := s.(type) {
		case *metadata.ByteStream:
			fn(where, h.Data)
		case *metadata.KeyGroupsStream:
			stream(where, h.Delegate)
		}
	}
	var keyed func(where string, k metadata.Keyed)
	keyed = func(where string, k metadata.Keyed) {
		switch h := k.(type) {
		case *metadata.KeyGroups:
			stream(where, h.Delegate)
		case *metadata.Incremental:
			stream(where+" meta", h.Meta)
			for _, f := range h.Shared {
				stream(where+" "+f.LocalName.String(), f.Stream)
			}
			for _, f := range h.Private {
				stream(where+" "+f.LocalName.String(), f.Stream)
			}
		case *metadata.Changelog:
			for _, b := range h.Base {
				keyed(where+" base", b)
			}
			for i, d := range h.Delta {
				keyed(fmt.Sprintf("%s delta %d", where, i), d)
			}
		case *metadata.ChangelogMemory:
			for i, c := range h.Changes {
				fn(fmt.Sprintf("%s change %d of group %d", where, i, c.KeyGroup), c.Change)
			}
		case *metadata.ChangelogFile:
			for _, s := range h.Streams {
				stream(where, s.Stream)
			}
		}
	}
	stream("coordinator", o.Coordinator)
	for _, t := range o.Subtasks {
		if t.State == nil {
			continue
		}
		at := func(role string) string { return fmt.Sprintf("subtask %d %s", t.Index, role) }
		for i, h := range t.State.Legacy {
			stream(at(fmt.Sprint("legacy ", i)), h)
		}
		for _, h := range t.State.ManagedOperator {
			if h != nil {
				stream(at("managed operator"), h.Delegate)
			}
		}
		for _, h := range t.State.RawOperator {
			if h != nil {
				stream(at("raw operator"), h.Delegate)
			}
		}
		keyed(at("managed keyed"), t.State.ManagedKeyed)
		keyed(at("raw keyed"), t.State.RawKeyed)
		for _, c := range t.State.InputChannels {
			stream(at("input channel"), c.Delegate)
		}
		for _, c := range t.State.OutputChannels {
			stream(at("output channel"), c.Delegate)
		}
	}
}

func (r *DiffReport) operators(a, b *Snapshot) {
	old, oldOrder := diffOperators(a)
	now, newOrder := diffOperators(b)
	var removed, added []*diffOperator
	for _, id := range oldOrder {
		if now[id] == nil {
			removed = append(removed, old[id])
			r.Removed = append(r.Removed, old[id].OperatorInfo)
		}
	}
	for _, id := range newOrder {
		o, n := old[id], now[id]
		if o == nil {
			added = append(added, n)
			r.Added = append(r.Added, n.OperatorInfo)
			continue
		}
		if a.Version < metadata.Version5 || b.Version < metadata.Version5 {
			o.Name, o.UID = n.Name, n.UID // one of them can't know
		}
		if list := operatorChanges(o, n); len(list) > 0 {
			r.Changed = append(r.Changed, OperatorChange{ID: id, Name: n.Name, UID: n.UID, Changes: list})
		} else {
			r.Same++
		}
	}
	r.renames(removed, added)
}

func operatorChanges(o, n *diffOperator) []FieldChange {
	var list []FieldChange
	list = compare(list, "name", o.Name, n.Name)
	list = compare(list, "uid", o.UID, n.UID)
	list = compare(list, "parallelism", o.Parallelism, n.Parallelism)
	list = compare(list, "max parallelism", o.MaxParallelism, n.MaxParallelism)
	list = compare(list, "subtasks", o.Subtasks, n.Subtasks)
	list = compare(list, "finished subtasks", o.FinishedSubtasks, n.FinishedSubtasks)
	list = compare(list, "fully finished", o.FullyFinished, n.FullyFinished)
	list = compare(list, "kinds of state", o.kinds, n.kinds)
	list = compare(list, "handles of keyed state", strings.Join(o.Keyed, ", "), strings.Join(n.Keyed, ", "))
	list = compare(list, "operator states", o.states, n.states)
	list = compare(list, "bytes", o.Bytes, n.Bytes)
	list = compare(list, "channels", o.InputChannels+o.OutputChannels, n.InputChannels+n.OutputChannels)
	list = compare(list, "inline data, sha256", o.inline[:16], n.inline[:16])
	return list
}

// renames pairs removed and added operators of the same looks.
func (r *DiffReport) renames(removed, added []*diffOperator) {
	looks := func(o *diffOperator) string {
		return fmt.Sprintf("%d/%d %s; %s", o.Parallelism, o.MaxParallelism, o.kinds, o.states)
	}
	times := func(list []*diffOperator, what string) (n int) {
		for _, o := range list {
			if looks(o) == what {
				n++
			}
		}
		return n
	}
	title := func(o *diffOperator) string {
		if o.UID != "" {
			return o.UID
		}
		return o.Name
	}
	for _, o := range removed {
		for _, n := range added {
			what := looks(o)
			if what != looks(n) || o.Content == ContentNone || n.Content == ContentNone {
				continue
			}
			why := "same parallelism, max parallelism and kinds of state (" + o.kinds + ")"
			switch {
			case o.states != "" && o.kinds != "":
				why = "same states (" + o.states + "), parallelism, max parallelism and kinds of state (" + o.kinds + ")"
			case o.states != "":
				why = "same states (" + o.states + "), parallelism and max parallelism"
			}
			sameName := o.Name != "" && o.Name == n.Name
			if sameName {
				why = "same name, " + strings.TrimPrefix(why, "same ")
			}
			r.Renames = append(r.Renames, Rename{
				Old: o.ID, New: n.ID, OldName: title(o), NewName: title(n), Why: why,
				Ambiguous: !sameName && (times(removed, what) > 1 || times(added, what) > 1),
			})
		}
	}
}

// diffFile is a file that a snapshot names.
type diffFile struct {
	key, uri string
	size     int64 // -1 if unknown
}

// diffFiles lists the files of a snapshot, in the order of the metadata.
func diffFiles(s *Snapshot) (list []diffFile, index map[string]int32) {
	index = map[string]int32{}
	for ref := range s.Refs() {
		if ref.Kind == metadata.RefDirectory {
			continue
		}
		uri := actual(s.Dir, ref)
		key := storage.Key(uri)
		i, ok := index[key]
		if !ok {
			i = int32(len(list))
			index[key] = i
			list = append(list, diffFile{key, uri, -1})
		}
		grow(&list[i].size, extent(ref))
	}
	return list, index
}

func (r *DiffReport) files(a, b *Snapshot) {
	old, inOld := diffFiles(a)
	now, inNew := diffFiles(b)
	type identity struct {
		name string
		size int64
	}
	gone := map[identity][]int{} // indexes in old
	for i, f := range old {
		if _, ok := inNew[f.key]; !ok {
			id := identity{storage.Base(f.uri), f.size}
			gone[id] = append(gone[id], i)
		}
	}
	moved := map[int]bool{}
	for _, f := range now {
		if _, ok := inOld[f.key]; ok {
			r.CommonFiles.add(f.uri, f.size)
			continue
		}
		id := identity{storage.Base(f.uri), f.size}
		if list := gone[id]; len(list) > 0 {
			moved[list[0]] = true
			gone[id] = list[1:]
			r.MovedFiles.add(f.uri, f.size)
			continue
		}
		r.AddedFiles.add(f.uri, f.size)
	}
	for i, f := range old {
		if _, ok := inNew[f.key]; !ok && !moved[i] {
			r.RemovedFiles.add(f.uri, f.size)
		}
	}
	for _, set := range []*FileSet{&r.AddedFiles, &r.RemovedFiles, &r.CommonFiles, &r.MovedFiles} {
		if set.Files == nil {
			set.Files = []string{}
		}
	}
}
