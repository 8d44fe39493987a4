package rewrite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// elements is operator state of one kind, managed or raw, of all subtasks of an operator.
type elements struct {
	raw     bool
	handles []*metadata.OperatorState // by subtask; nil where there is none
	copied  bool                      // the files stay as they are
	// header is what is written of the states, of managed state; names says what the states of the source are called there, "" if dropped.
	header backend.OperatorHeader
	names  map[string]string
}

// operatorState plans what becomes of the operator state.
func (p *Plan) operatorState(ctx context.Context, op *OperatorPlan) error {
	for _, raw := range []bool{false, true} {
		e := &elements{raw: raw, handles: make([]*metadata.OperatorState, max(0, op.Source.Parallelism)), names: map[string]string{}}
		some := false
		for _, sub := range op.Source.Subtasks {
			if sub.State == nil {
				continue
			}
			list := sub.State.ManagedOperator
			if raw {
				list = sub.State.RawOperator
			}
			list = slices.DeleteFunc(slices.Clone(list), func(h *metadata.OperatorState) bool { return h == nil || len(h.States) == 0 })
			switch {
			case len(list) == 0:
				continue
			case len(list) > 1 || int(sub.Index) >= len(e.handles) || sub.Index < 0:
				p.problem(op, "", "subtask %d has operator state of %d operators", sub.Index, len(list))
				return nil
			}
			e.handles[sub.Index] = list[0]
			some = true
		}
		if !some {
			continue
		}
		if err := p.elements(ctx, op, e); err != nil {
			return fmt.Errorf("%s: %w", Label(op.Source), err)
		}
		op.elements = append(op.elements, e)
	}
	return nil
}

// elements decides what is done with operator state, and makes its header.
func (p *Plan) elements(ctx context.Context, op *OperatorPlan, e *elements) error {
	e.copied = op.Target.Parallelism == op.Source.Parallelism && op.t.Element == nil && op.t.State == nil
	if !e.raw {
		e.header.Version = backend.OperatorVersion
		e.header.Compressed = p.o.Compression == CompressionSnappy
	}
	was := map[string]backend.StateMeta{}
	for subtask, h := range e.handles {
		if h == nil {
			continue
		}
		states, header, headerErr, err := lookElements(ctx, p.src.Files, h, e.raw)
		if err != nil {
			return fmt.Errorf("subtask %d: operator state: %w", subtask, err)
		}
		p.Bytes += bytesOf(&metadata.SubtaskState{ManagedOperator: []*metadata.OperatorState{h}})
		for _, s := range states {
			if _, seen := e.names[s.Name]; seen {
				continue
			}
			to := s.Name
			if op.t.State != nil {
				to = op.t.State(to, false)
			}
			e.names[s.Name] = to
			op.OperatorStates = append(op.OperatorStates, StatePlan{Name: s.Name, To: to, Type: s.Mode.String()})
		}
		if e.raw {
			continue
		}
		if headerErr != nil {
			if !e.copied {
				p.problem(op, "", "the header of subtask %d's operator state can't be read to its end, so that it can't be written: %v", subtask, headerErr)
				return nil
			}
			continue
		}
		if header.Version < backend.OperatorVersion-1 || p.o.Compression != CompressionAsIs && header.Compressed != (p.o.Compression == CompressionSnappy) {
			e.copied = false
		}
		if p.o.Compression == CompressionAsIs && header.Compressed {
			e.header.Compressed = true
		}
		for _, list := range []struct {
			from []backend.StateMeta
			to   *[]backend.StateMeta
		}{{header.Operator, &e.header.Operator}, {header.Broadcast, &e.header.Broadcast}} {
			for _, m := range list.from {
				for _, s := range m.Serializers {
					if s.Snapshot.Modern() != s.Snapshot {
						e.copied = false
					}
				}
				m = modern(&m)
				to := e.names[m.Name]
				if other, seen := was[m.Name]; seen {
					if !sameMeta(&other, &m) {
						p.problem(op, m.Name, "subtask %d describes it otherwise than another one", subtask)
					}
					continue
				}
				was[m.Name] = m
				if to == "" {
					continue
				}
				if named := func(o backend.StateMeta) bool { return o.Name == to }; slices.ContainsFunc(e.header.Operator, named) || slices.ContainsFunc(e.header.Broadcast, named) {
					p.problem(op, m.Name, "there is another operator state of the name %q", to)
				}
				m.Name = to
				*list.to = append(*list.to, m)
			}
		}
	}
	if !e.raw && !e.copied {
		out := serializer.NewOutput(nil)
		e.header.Write(out)
		if err := out.Err(); err != nil {
			p.problem(op, "", "its operator state can't be described as Flink does today: %v", err)
		}
	}
	return nil
}

func sameMeta(a, b *backend.StateMeta) bool {
	x, y := backend.OperatorHeader{Version: backend.OperatorVersion, Operator: []backend.StateMeta{*a}}, backend.OperatorHeader{Version: backend.OperatorVersion, Operator: []backend.StateMeta{*b}}
	return equal(&x, &y)
}

// lookElements opens a handle to see what is in it.
func lookElements(ctx context.Context, files backend.Files, h *metadata.OperatorState, raw bool) (_ []*backend.OperatorState, _ *backend.OperatorHeader, headerErr error, err error) {
	r, err := backend.OpenOperator(ctx, files, h, backend.Options{Raw: raw})
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.States(), r.Header(), r.HeaderErr(), nil
}

// piece is a part of a subtask's operator state.
type piece struct {
	subtask int
	backend.OperatorShare
}

// operatorTasks gives the tasks that write an operator's operator state.
func (x *execution) operatorTasks(op *OperatorPlan, t *metadata.Operator) []task {
	var tasks []task
	for _, e := range op.elements {
		if e.copied {
			for subtask, h := range e.handles {
				if h == nil {
					continue
				}
				tasks = append(tasks, func(ctx context.Context, _ int) error {
					delegate, err := x.copyStream(ctx, h.Delegate)
					if err != nil {
						return fmt.Errorf("subtask %d: operator state: %w", subtask, err)
					}
					e.set(t.Subtasks[subtask].State, &metadata.OperatorState{States: h.States, Delegate: delegate})
					return nil
				})
			}
			continue
		}
		for to, pieces := range e.pieces(int(t.Parallelism)) {
			if len(pieces) > 0 {
				tasks = append(tasks, func(ctx context.Context, _ int) error {
					h, err := x.writeElements(ctx, op, e, pieces)
					if err == nil && h != nil {
						e.set(t.Subtasks[to].State, h)
					}
					return err
				})
			}
		}
	}
	return tasks
}

func (e *elements) set(s *metadata.SubtaskState, h *metadata.OperatorState) {
	if e.raw {
		s.RawOperator = []*metadata.OperatorState{h}
	} else {
		s.ManagedOperator = []*metadata.OperatorState{h}
	}
}

// pieces gives what each of the new subtasks gets: as Flink shares it out on a restore, but that lists which all get are
// not multiplied: each subtask has those of some old ones.
func (e *elements) pieces(parallelism int) [][]piece {
	list := make([][]piece, parallelism)
	whole := func(h *metadata.OperatorState, of func(metadata.Mode) bool, share backend.OperatorShare) backend.OperatorShare {
		for _, s := range h.States {
			if of(s.Mode) {
				share.Elements[s.Name.String()] = backend.ElementRange{To: len(s.Offsets)}
			}
		}
		return share
	}
	if old := len(e.handles); parallelism == old {
		for i, h := range e.handles {
			if h != nil {
				list[i] = append(list[i], piece{i, whole(h, func(metadata.Mode) bool { return true }, backend.OperatorShare{Handle: h, Elements: map[string]backend.ElementRange{}})})
			}
		}
		return list
	}
	number := map[*metadata.OperatorState]int{}
	for i, h := range e.handles {
		number[h] = i
	}
	for to, shares := range backend.RepartitionOperator(e.handles, parallelism) {
		for _, share := range shares {
			i := number[share.Handle]
			for _, s := range share.Handle.States {
				if s.Mode == metadata.ModeUnion {
					delete(share.Elements, s.Name.String())
				}
			}
			if i*parallelism/len(e.handles) == to {
				whole(share.Handle, func(m metadata.Mode) bool { return m == metadata.ModeUnion }, share)
			}
			if len(share.Elements) > 0 {
				list[to] = append(list[to], piece{i, share})
			}
		}
	}
	return list
}

// writeElements writes operator state of pieces; nil if nothing is left of it. Broadcast maps are held in memory.
func (x *execution) writeElements(ctx context.Context, op *OperatorPlan, e *elements, pieces []piece) (*metadata.OperatorState, error) {
	w := newElementWriter(x.target.Create(ctx), e)
	defer w.stream.Abort()
	for _, p := range pieces {
		if err := x.readElements(ctx, op, e, p, w); err != nil {
			return nil, fmt.Errorf("subtask %d: operator state: %w", p.subtask, err)
		}
	}
	return w.commit()
}

func (x *execution) readElements(ctx context.Context, op *OperatorPlan, e *elements, p piece, w *elementWriter) (err error) {
	r, err := backend.OpenOperator(ctx, x.src.Files, p.Handle, backend.Options{Raw: e.raw, Progress: x.progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	want := func(s *backend.OperatorState) bool {
		_, ok := p.Elements[s.Name]
		return ok && e.names[s.Name] != ""
	}
	for entry, err := range r.Entries(ctx, want) {
		if err != nil {
			return err
		}
		// A broadcast map is one element.
		if n := p.Elements[entry.State.Name]; entry.State.Key == nil && (entry.Index < n.From || entry.Index >= n.To) {
			continue
		}
		if op.t.Element != nil {
			keep, err := op.t.Element(p.subtask, entry)
			if err != nil {
				return err
			}
			if !keep {
				x.result.dropped.Add(1)
				continue
			}
		}
		if err := w.add(e.names[entry.State.Name], entry); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// elementWriter writes a file of operator state.
type elementWriter struct {
	stream *backend.TargetStream
	e      *elements
	w      *backend.OperatorWriter // nil for raw state
	states []metadata.StateOffsets // of raw state
	maps   map[string][]mapEntry
}

type mapEntry struct{ key, value []byte }

func newElementWriter(s *backend.TargetStream, e *elements) *elementWriter {
	w := &elementWriter{stream: s, e: e, maps: map[string][]mapEntry{}}
	if !e.raw {
		w.w = backend.NewOperatorWriter(s, &e.header)
	}
	return w
}

func (w *elementWriter) add(name string, entry *backend.OperatorEntry) error {
	if w.w == nil {
		text, err := metadata.NewText(name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(w.states, func(s metadata.StateOffsets) bool { return s.Name == text })
		if i < 0 {
			i = len(w.states)
			w.states = append(w.states, metadata.StateOffsets{Name: text, Mode: entry.State.Mode})
		}
		w.states[i].Offsets = append(w.states[i].Offsets, w.stream.Size())
		_, err = w.stream.Write(entry.Value)
		return err
	}
	if entry.State.Key != nil {
		w.maps[name] = append(w.maps[name], mapEntry{slices.Clone(entry.Key), slices.Clone(entry.Value)})
		return nil
	}
	i := slices.IndexFunc(w.e.header.Operator, func(m backend.StateMeta) bool { return m.Name == name })
	return w.w.Element(i, entry.Value)
}

// commit ends the file and gives its handle.
func (w *elementWriter) commit() (*metadata.OperatorState, error) {
	states := w.states
	if w.w != nil {
		for i := range w.e.header.Broadcast {
			entries := w.maps[w.e.header.Broadcast[i].Name]
			err := w.w.StartBroadcast(i, len(entries))
			for _, e := range entries {
				err = errors.Join(err, w.w.BroadcastEntry(e.key, e.value))
			}
			if err != nil {
				return nil, err
			}
		}
		var err error
		if states, _, err = w.w.Close(); err != nil {
			return nil, err
		}
	}
	if len(states) == 0 {
		return nil, nil
	}
	delegate, err := w.stream.Commit()
	if err != nil {
		return nil, err
	}
	return &metadata.OperatorState{States: states, Delegate: delegate}, nil
}
