package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// Need is who else needs the files of one snapshot.
type Need struct {
	// Snapshot is what was asked about: a directory of a snapshot, with or without metadata.
	Snapshot string `json:"snapshot"`
	// Metadata says that its metadata is there. If not, as after a claim, its files are those in its directory.
	Metadata bool       `json:"metadata"`
	Files    AuditCount `json:"files"`
	// Used are those of them that other snapshots use.
	Used AuditCount `json:"used"`
	// Jobs has an element for each other job in scope with a completed
	// checkpoint, and for its own job if that uses files of it.
	Jobs []NeedJob `json:"jobs"`
	// Others are savepoints and other snapshots that use files of it.
	Others []NeedUser `json:"others"`
}

// Free says that no other snapshot in scope uses any of its files.
func (n *Need) Free() bool { return n.Used.Files == 0 }

// NeedJob is what the checkpoints of one job use of a snapshot.
type NeedJob struct {
	Job string `json:"job"`
	// Users are its checkpoints that use files of the snapshot, by number.
	Users []NeedUser `json:"users"`
	// Since is the lowest retained checkpoint from which on none uses any; -1 if the newest does.
	Since int64 `json:"noneSince"`
}

// NeedUser is a snapshot that uses files of another.
type NeedUser struct {
	Snapshot     string `json:"snapshot"`
	CheckpointID int64  `json:"checkpointID"`
	AuditCount
}

// NeededBy says which snapshots in scope use files of the snapshot that uri
// names: its directory or its metadata file. Pointers outside of the storage, such as those of
// high availability, are not seen. An error unwraps to [io/fs.ErrNotExist] if nothing is known of it.
func (r *AuditReport) NeededBy(uri string) (*Need, error) {
	a := r.audit
	n := &Need{Snapshot: uri, Jobs: []NeedJob{}, Others: []NeedUser{}}
	self, known := r.snapshotAt(uri)
	dir := a.registry.Key(uri)
	n.Metadata = known
	mine := make([]bool, a.registry.Limit())
	if known {
		dir = storage.Dir(self.key)
		for id := range a.registry.Files(self.ID) {
			mine[id] = !a.registry.File(id).Directory
		}
	} else {
		n.inDirectory(a, dir, mine)
	}
	for id, m := range mine {
		if size, _ := r.Found(incremental.FileID(id)); m {
			n.Files.add(size)
			uses := a.registry.Uses(incremental.FileID(id))
			if uses > 1 || uses == 1 && !known {
				n.Used.add(size)
			}
		}
	}
	if n.Files.Files == 0 {
		return nil, &fs.PathError{Op: "audit", Path: uri, Err: fmt.Errorf("no snapshot, and no file of one, is known there: %w", fs.ErrNotExist)}
	}
	ownJob := a.layouts.fork().of(dir).job
	jobs := map[string]*NeedJob{}
	for i := range r.Snapshots {
		s := &r.Snapshots[i]
		if known && s.ID == self.ID {
			continue
		}
		u := NeedUser{Snapshot: s.URI, CheckpointID: s.CheckpointID}
		for id := range a.registry.Files(s.ID) {
			if mine[id] {
				size, _ := r.Found(id)
				u.add(size)
			}
		}
		switch {
		case s.Job == "" && u.Files > 0:
			n.Others = append(n.Others, u)
		case s.Job != "" && (u.Files > 0 || s.Job != ownJob):
			n.enter(jobs, s, u)
		}
	}
	for _, dir := range sortedKeys(jobs) {
		n.Jobs = append(n.Jobs, *jobs[dir])
	}
	return n, nil
}

// inDirectory marks the files of the registry in a directory without metadata, and counts the others in it.
func (n *Need) inDirectory(a *audit, dir string, mine []bool) {
	for id := range mine {
		f := a.registry.File(incremental.FileID(id))
		_, inside := storage.Rel(dir, f.URI)
		mine[id] = inside && f.Uses > 0 && !f.Directory && a.found[id] > 0
	}
	for i := range a.held.list {
		f := &a.held.list[i]
		if _, inside := storage.Rel(dir, a.registry.Key(a.held.dirs[f.dir])); inside {
			n.Files.add(f.size)
		}
	}
}

// enter adds a checkpoint to its job; they come by number.
func (n *Need) enter(jobs map[string]*NeedJob, s *AuditSnapshot, u NeedUser) {
	j := jobs[s.Job]
	if j == nil {
		j = &NeedJob{Job: s.Job, Users: []NeedUser{}, Since: -1}
		jobs[s.Job] = j
	}
	if u.Files > 0 {
		j.Users = append(j.Users, u)
		j.Since = -1
	} else if j.Since < 0 {
		j.Since = s.CheckpointID
	}
}

// snapshotAt gives the snapshot that a directory or a metadata file is of.
func (r *AuditReport) snapshotAt(uri string) (*AuditSnapshot, bool) {
	key := r.audit.registry.Key(uri)
	for i := range r.Snapshots {
		if s := &r.Snapshots[i]; s.key == key || s.key == storage.Join(key, MetadataName) {
			return s, true
		}
	}
	return nil, false
}

// States of a pointer.
const (
	PointerComplete   = "complete"
	PointerDamaged    = "damaged"
	PointerGone       = "gone"
	PointerUnreadable = "unreadable"
)

// PointerCheck is whether the snapshot that a pointer names can be restored.
type PointerCheck struct {
	Pointer string `json:"pointer"`
	State   string `json:"state"`
	// Missing counts its files that are not there or not of the right size; Unseen those that could not be looked at.
	Missing int    `json:"missing"`
	Unseen  int    `json:"unseen"`
	Error   string `json:"error,omitempty"`
	// Instead is the newest complete checkpoint of the same job, as a path to restore from; "" if it is not needed or there is none.
	Instead string `json:"instead,omitempty"`
}

// Pointers says of each of some directories of snapshots or metadata files,
// as high availability or a resource of the Kubernetes operator names them, whether it can be restored. Those
// outside of the roots are looked at where they are. Only a cancelled context is an error.
func (r *AuditReport) Pointers(ctx context.Context, uris []string) ([]PointerCheck, error) {
	list := make([]PointerCheck, len(uris))
	for i, uri := range uris {
		c := PointerCheck{Pointer: uri}
		if err := r.checkPointer(ctx, &c); err != nil {
			return nil, err
		}
		if c.State != PointerComplete {
			c.Instead = r.instead(uri)
		}
		list[i] = c
	}
	return list, nil
}

func (r *AuditReport) checkPointer(ctx context.Context, c *PointerCheck) error {
	if s, ok := r.snapshotAt(c.Pointer); ok {
		c.Missing, c.Unseen = s.Missing+s.WrongSize, s.Unseen
		c.State = PointerDamaged
		if s.Complete() {
			c.State = PointerComplete
		}
		return nil
	}
	v, err := Verify(ctx, r.audit.fsys, []string{c.Pointer}, VerifyOptions{Jobs: r.audit.jobs})
	if err != nil {
		return err
	}
	s := &v.Snapshots[0]
	if s.Chosen != "" {
		c.State, c.Error = PointerGone, "the directory of a job, not of a snapshot"
		return nil
	}
	c.Missing, c.Unseen, c.Error = s.Missing+s.WrongSize, s.Undecided, s.Error
	switch {
	case s.Verdict == VerdictIntact:
		c.State = PointerComplete
	case s.Verdict == VerdictUnreadable && errors.Is(r.there(ctx, c.Pointer), fs.ErrNotExist):
		c.State = PointerGone
	case s.Verdict == VerdictUnreadable:
		c.State = PointerUnreadable
	default:
		c.State = PointerDamaged
	}
	return nil
}

// there is an error that unwraps to fs.ErrNotExist unless there is a metadata file at or in uri.
func (r *AuditReport) there(ctx context.Context, uri string) error {
	info, err := r.audit.fsys.Stat(ctx, uri)
	if err == nil && info.Dir {
		_, err = r.audit.fsys.Stat(ctx, storage.Join(uri, MetadataName))
	}
	return err
}

// instead proposes a checkpoint of the job whose directory, or what is in it, a pointer names.
func (r *AuditReport) instead(uri string) string {
	dir := r.audit.registry.Key(uri)
	if isMetadataName(storage.Base(dir)) {
		dir = storage.Dir(dir)
	}
	job := storage.Dir(dir)
	best := -1
	for i := range r.Snapshots {
		s := &r.Snapshots[i]
		if (s.Job == job || s.Job == dir) && s.Complete() && (best < 0 || s.CheckpointID > r.Snapshots[best].CheckpointID) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return r.Snapshots[best].Dir()
}

// LargestFiles gives the files of a status that take the most room, the largest first, and not more than n.
func (r *AuditReport) LargestFiles(s FileStatus, n int) []AuditFile {
	var top []AuditFile
	for f := range r.Files() {
		if f.Status != s || len(top) == n && f.Size <= top[n-1].Size {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, f, func(x, y AuditFile) int {
			if x.Size >= y.Size {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, i, f)
		top = top[:min(len(top), n)]
	}
	return top
}
