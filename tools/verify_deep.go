package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// DeepCheck is what was found in the state files of a snapshot: every entry was
// decoded, every block of RocksDB's tables was checked.
type DeepCheck struct {
	// Handles were read, with Entries in them and Buffers of in-flight data.
	Handles int   `json:"handles"`
	Entries int64 `json:"entries"`
	Buffers int64 `json:"buffers,omitempty"`
	// ChannelBytes are those of in-flight data as its handles count them, and
	// ChannelFileBytes the size of the files that it is in, each once.
	ChannelBytes     int64 `json:"channelBytes,omitempty"`
	ChannelFileBytes int64 `json:"channelFileBytes,omitempty"`
	// NotLookedInto counts handles of whose entries nothing is known, by reason: the files of Pebble's databases, of which
	// only the header was decoded.
	NotLookedInto map[string]int64 `json:"notLookedInto,omitempty"`
	// Damage is everything that is wrong.
	Damage []*StateProblem `json:"damage"`
	// Unread is state of which the store did not give the bytes, or that is not supported.
	Unread []*StateProblem `json:"unread,omitempty"`
	// KeysChecked are entries whose key is of the key group that it hashes to.
	// KeysUnchecked are those whose hash is not known, by reason.
	KeysChecked   int64            `json:"keysChecked"`
	KeysUnchecked map[string]int64 `json:"keysUnchecked,omitempty"`
	// Undecoded are entries with parts that are bytes to drey, by reason: that
	// they are there is known, and no more.
	Undecoded map[string]int64 `json:"undecoded,omitempty"`
	// Notes are no damage.
	Notes []string `json:"notes,omitempty"`
}

// deepResult is what one part gave, or a problem.
type deepResult struct {
	entries   int64
	checked   int64
	unchecked undecoded
	bad       undecoded
	misplaced undecoded
	problem   *StateProblem
	// closed says that the handle's files are not looked into, for the reason that problem has.
	closed bool
}

// VerifyDeep reads and decodes all state of a snapshot. That files have the
// right sizes is for [Verify]. An error is of the context only.
func VerifyDeep(ctx context.Context, fsys storage.FS, s *Snapshot, jobs int, progress func(done, total int64)) (*DeepCheck, error) {
	d := &DeepCheck{Damage: []*StateProblem{}}
	r, err := newStateReader(fsys, s, Selection{}, jobs, progress)
	if err != nil {
		return nil, err
	}
	var problems problemList
	var unchecked, bad, misplaced, closed undecoded
	handles, unopened := map[*unit]bool{}, map[*unit]bool{}
	err = ordered.Each(ctx, r.jobs, len(r.parts), r.deepPart, func(n int, p deepResult) error {
		u := r.parts[n].unit
		if p.closed {
			unopened[u] = true
			closed.addText(p.problem.Text, 1)
			return nil
		}
		handles[u] = true
		if p.problem != nil {
			problems.add(u, p.problem)
			return nil
		}
		d.Entries += p.entries
		d.KeysChecked += p.checked
		unchecked.merge(&p.unchecked)
		bad.merge(&p.bad)
		misplaced.merge(&p.misplaced)
		return nil
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(handles, func(u *unit, _ bool) bool { return unopened[u] })
	d.Handles = len(handles)
	if err := d.deepChannels(ctx, r, s, &problems); err != nil {
		return nil, err
	}
	if err := d.deepCoordinators(ctx, r, s, &problems); err != nil {
		return nil, err
	}
	for _, p := range problems.list {
		if p.Undecided {
			d.Unread = append(d.Unread, p)
		} else {
			d.Damage = append(d.Damage, p)
		}
	}
	d.KeysUnchecked, d.Undecoded, d.NotLookedInto = unchecked.reasons, bad.reasons, closed.reasons
	for text, n := range misplaced.reasons {
		d.Notes = append(d.Notes, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(d.Notes)
	d.Notes = append(d.Notes, unnamedBytes(s)...)
	return d, nil
}

// deepPart is the work of [VerifyDeep] on one part.
func (r *stateReader) deepPart(ctx context.Context, n int, send func(deepResult) error) error {
	p := r.parts[n]
	var sum deepResult
	c := &deepChecker{unit: p.unit, result: &sum, hashers: map[*backend.State]*serializer.Hasher{}}
	tell := func(problem *StateProblem) error { return send(deepResult{problem: problem}) }
	err := r.scan(ctx, p, visitor{
		keyed: func(e *backend.Entry) error {
			if err := c.keyed(e); err != nil {
				return tell(newProblem(p.unit, fmt.Sprint(e.KeyGroup), err))
			}
			return nil
		},
		element: func(e *backend.OperatorEntry) error {
			if err := c.element(e); err != nil {
				return tell(newProblem(p.unit, "", err))
			}
			return nil
		},
		problem: func(problem *StateProblem) error {
			h, ok := p.keyed.(*metadata.Incremental)
			if !ok || !errors.Is(problem.err, backend.ErrPebble) {
				return tell(problem)
			}
			if _, err := backend.ReadMeta(ctx, r.files, h); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				return tell(newProblem(p.unit, "", err))
			}
			return send(deepResult{problem: problem, closed: true})
		},
	})
	if err == nil && p.keys != nil && p.groups.Start == keyedRange(p.keyed).Start {
		// Once for each handle.
		var failed error
		err = p.keys.Verify(ctx, func(e error) {
			if failed == nil {
				failed = tell(newProblem(p.unit, "", e))
			}
		})
		err = errors.Join(failed, err)
	}
	p.release()
	if err != nil {
		return err
	}
	return send(sum)
}

// deepChecker checks the entries of one part.
type deepChecker struct {
	*unit
	result  *deepResult
	hashers map[*backend.State]*serializer.Hasher
	text    []byte
}

// keyed checks an entry of keyed state. The error is damage.
func (c *deepChecker) keyed(e *backend.Entry) error {
	c.result.entries++
	text := c.text[:0]
	var errs []error
	for _, appendJSON := range []func([]byte) ([]byte, error){e.AppendKeyJSON, e.AppendNamespaceJSON, e.AppendUserKeyJSON, e.AppendValueJSON} {
		var err error
		if text, err = appendJSON(text); err != nil {
			errs = append(errs, err)
		}
	}
	c.text = text
	if len(errs) > 0 {
		return &backend.LostError{State: e.State.Meta.Name, KeyGroup: e.KeyGroup, Entries: 1, Err: errors.Join(errs...)}
	}
	if reason, ok := opaqueReason(text); ok {
		c.result.bad.addText(reason, 1)
	}
	return c.place(e)
}

// place checks the key group of a key.
func (c *deepChecker) place(e *backend.Entry) error {
	h := c.hashers[e.State]
	if h == nil {
		h = serializer.NewHasher(c.keySnapshot(e.State))
		c.hashers[e.State] = h
	}
	if e.Unsplit {
		c.result.unchecked.addText("that cannot be told from the namespace", 1)
		return nil
	}
	code, err := h.Hash(e.Key)
	if errors.Is(err, serializer.ErrNoHash) {
		c.result.unchecked.addText(err.Error(), 1)
		return nil
	}
	if err == nil {
		group := keygroup.ForHash(code, int(c.op.MaxParallelism))
		if group == e.KeyGroup {
			c.result.checked++
			return nil
		}
		if assumes := h.Assumes(); assumes != "" {
			c.result.misplaced.addText(fmt.Sprintf("keys of operator %s are in another key group than they hash to if %s", operatorLabel(c.op), assumes), 1)
			return nil
		}
		key, _ := e.AppendKeyJSON(nil) // it was decoded before
		return &backend.LostError{State: e.State.Meta.Name, KeyGroup: e.KeyGroup, Entries: -1, Err: &keyGroupError{key, group}}
	}
	return &backend.LostError{State: e.State.Meta.Name, KeyGroup: e.KeyGroup, Entries: 1, Err: err}
}

// keySnapshot is the snapshot of a state's key serializer, nil if there is none.
func (c *deepChecker) keySnapshot(s *backend.State) *serializer.Snapshot {
	if k := s.Meta.Serializer(backend.SerializerKey); k != nil {
		return k
	}
	if h := c.keys.Header(); h != nil {
		return h.Key
	}
	return nil
}

// element checks an element of operator state. The error is damage.
func (c *deepChecker) element(e *backend.OperatorEntry) error {
	c.result.entries++
	text, keyErr := e.AppendKeyJSON(c.text[:0])
	text, err := e.AppendValueJSON(text)
	c.text = text
	if err := errors.Join(keyErr, err); err != nil {
		return &backend.LostError{State: e.State.Name, KeyGroup: -1, Entries: 1, Err: err}
	}
	if reason, ok := opaqueReason(text); ok {
		c.result.bad.addText(reason, 1)
	}
	return nil
}

// deepChannels reads in-flight data.
func (d *DeepCheck) deepChannels(ctx context.Context, r *stateReader, s *Snapshot, problems *problemList) error {
	files := map[string]bool{}
	for i := range s.Operators {
		o := &s.Operators[i]
		for _, t := range sortedSubtasks(o) {
			if t.State == nil {
				continue
			}
			for _, side := range []struct {
				role    metadata.Role
				handles []metadata.ChannelState
			}{{metadata.RoleInputChannel, t.State.InputChannels}, {metadata.RoleOutputChannel, t.State.OutputChannels}} {
				for j := range side.handles {
					h := &side.handles[j]
					u := &unit{op: o, subtask: int(t.Index), role: side.role, file: streamFile(s.Dir, h.Delegate)}
					d.Handles++
					d.ChannelBytes += max(0, h.Size)
					if name := storage.Key(u.file); !files[name] {
						files[name] = true
						d.ChannelFileBytes += max(0, streamSize(h.Delegate))
					}
					if err := d.deepChannel(ctx, r, h); ctx.Err() != nil {
						return ctx.Err()
					} else if err != nil {
						problems.add(u, newProblem(u, "", err))
					}
				}
			}
		}
	}
	return nil
}

// deepChannel reads the data of one handle; it must be as large as the handle says.
func (d *DeepCheck) deepChannel(ctx context.Context, r *stateReader, h *metadata.ChannelState) error {
	c, err := backend.OpenChannel(ctx, r.files, h, backend.Options{Progress: r.progress})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it was only read
	var size int64
	for b, err := range c.Buffers(ctx) {
		if err != nil {
			return err
		}
		d.Buffers++
		size += int64(len(b.Data)) + 4
	}
	if size != h.Size {
		return fmt.Errorf("%w: the buffers have %d bytes, the handle says %d", serializer.ErrCorrupt, size, h.Size)
	}
	return nil
}

// deepCoordinators reads the state of coordinators, which has no format that all share.
func (d *DeepCheck) deepCoordinators(ctx context.Context, r *stateReader, s *Snapshot, problems *problemList) error {
	for i := range s.Operators {
		o := &s.Operators[i]
		if o.Coordinator == nil {
			continue
		}
		d.Handles++
		_, err := r.files.ReadAll(ctx, o.Coordinator, mostCoordinator)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			u := &unit{op: o, subtask: -1, role: metadata.RoleCoordinator, file: streamFile(s.Dir, o.Coordinator)}
			problems.add(u, newProblem(u, "", err))
		}
	}
	return nil
}

// unnamedBytes tells of merged files of which the snapshot names only parts.
func unnamedBytes(s *Snapshot) []string {
	type part struct{ start, end int64 }
	parts := map[string][]part{}
	var order []string
	for r := range s.Refs() {
		if r.Kind != metadata.RefSegment {
			continue
		}
		uri := actual(s.Dir, r)
		if parts[uri] == nil {
			order = append(order, uri)
		}
		parts[uri] = append(parts[uri], part{r.Start, r.Start + max(0, r.Size)})
	}
	files, total := 0, int64(0)
	for _, uri := range order {
		list := sortedBy(parts[uri], func(p part) int64 { return p.start })
		var gaps, end int64
		for _, p := range list {
			gaps += max(0, p.start-end)
			end = max(end, p.end)
		}
		if gaps > 0 {
			files++
			total += gaps
		}
	}
	if files == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s of merged state have %d bytes between the segments that this snapshot names; other checkpoints may use them", count(files, "file"), total)}
}
