package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// StateHeader is what state files say of one state.
type StateHeader struct {
	Name string `json:"name"`
	// Type of keyed state, or the distribution mode of operator state.
	Type string `json:"type"`
	// Key, Namespace and Value name the types that their serializers are for,
	// "" for none. A map's value is the map, a list's the list.
	Key       string `json:"key,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Value     string `json:"value,omitempty"`
	// Raw says that it lies in raw state.
	Raw bool `json:"raw,omitempty"`
	// Subtasks is how many have it, with entries or without.
	Subtasks int `json:"subtasks"`
	// Blockers say why releases of Flink cannot read it.
	Blockers []string `json:"blockers,omitempty"`
}

// signature is what makes two states look like one.
func (h *StateHeader) signature() string {
	return fmt.Sprintf("%q %s %s %s %s", h.Name, h.Type, h.Key, h.Namespace, h.Value)
}

// headersOf reads the headers of the state files of some operators, and gives the states of each.
func headersOf(ctx context.Context, fsys storage.FS, s *Snapshot, ops []*metadata.Operator, jobs int) (map[*metadata.Operator][]StateHeader, []*StateProblem, error) {
	files := backend.Files{FS: fsys, Dir: s.Dir}
	var units []*unit
	for _, o := range ops {
		for _, u := range unitsOf(s.Dir, o, false) {
			u.parts.Store(1)
			units = append(units, u)
		}
	}
	found := make([][]StateHeader, len(units))
	problems := make([]*StateProblem, len(units))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(defaultJobs(jobs))
	for i, u := range units {
		group.Go(func() error {
			defer u.release()
			if err := u.open(ctx, files, nil); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				problems[i] = newProblem(u, "", err)
				return nil
			}
			found[i] = u.headers(s.Version)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	all := map[*metadata.Operator][]StateHeader{}
	for i, u := range units {
		for _, h := range found[i] {
			list := all[u.op]
			if j := slices.IndexFunc(list, func(o StateHeader) bool { return o.signature() == h.signature() && o.Raw == h.Raw }); j >= 0 {
				list[j].Subtasks++
				continue
			}
			all[u.op] = append(list, h)
		}
	}
	return all, slices.DeleteFunc(problems, func(p *StateProblem) bool { return p == nil }), nil
}

// headers gives the states of a unit that is open.
func (u *unit) headers(v metadata.Version) []StateHeader {
	var list []StateHeader
	if u.keys != nil {
		h := u.keys.Header()
		for _, s := range u.keys.States() {
			x := StateHeader{Name: s.Meta.Name, Type: string(s.Type), Raw: s.Raw, Subtasks: 1}
			x.Namespace = snapshotText(s.Meta.Serializer(backend.SerializerNamespace))
			x.Value = snapshotText(s.Meta.Serializer(backend.SerializerValue))
			old := int32(0)
			if h != nil {
				x.Key = snapshotText(h.Key)
				if h.Version < 6 {
					old = h.Version
				}
				x.Blockers = blockers(s.Meta, h.Key, old, v)
			}
			list = append(list, x)
		}
		return list
	}
	h := u.elements.Header()
	for _, s := range u.elements.States() {
		x := StateHeader{Name: s.Name, Type: s.Mode.String(), Raw: s.Meta == nil, Subtasks: 1}
		if s.Meta != nil {
			x.Key = snapshotText(s.Meta.Serializer(backend.SerializerKey))
			x.Value = snapshotText(s.Meta.Serializer(backend.SerializerValue))
			old := int32(0)
			if h.Version < 5 {
				old = h.Version
			}
			x.Blockers = blockers(s.Meta, nil, old, v)
		}
		list = append(list, x)
	}
	return list
}

// blockers says which releases of Flink cannot read a state: header is the
// version of the file's header if it is an old one, v that of the metadata.
func blockers(m *backend.StateMeta, key *serializer.Snapshot, header int32, v metadata.Version) []string {
	snapshots := string(snapshotBytes(m, key))
	var list []string
	if header > 0 {
		list = append(list, fmt.Sprintf("a header of version %d, with serializers as Java objects: read by Flink up to 1.16, with the job's classes", header))
	} else if strings.Contains(snapshots, "ConfigSnapshot") {
		list = append(list, "a serializer snapshot of the kind before Flink 1.8: read by Flink up to 1.16")
	}
	if strings.Contains(snapshots, ".kryo.KryoSerializerSnapshot") {
		if v >= metadata.Version5 {
			list = append(list, "values of Kryo 5: not read by Flink 1.x")
		} else {
			list = append(list, "values of Kryo 2: Flink 2.x reads with Kryo 5, to which many of them are other bytes")
		}
	}
	return list
}

// snapshotBytes gives the snapshots of a state's serializers as bytes, in a fixed order.
func snapshotBytes(m *backend.StateMeta, key *serializer.Snapshot) []byte {
	out := serializer.NewOutput([]byte{})
	if key != nil {
		key.Write(out)
	}
	for _, n := range sortedBy(m.Serializers, func(n backend.NamedSnapshot) string { return n.Key }) {
		out.UTF(n.Key)
		if n.Snapshot != nil {
			n.Snapshot.Write(out)
		}
	}
	return out.Bytes()
}

// Renames looks for operators of the old snapshot that are in the new one
// under another id: of the same states, types and serializers as the headers
// of their files say, or, where they have none, of the same looks in the metadata.
func Renames(ctx context.Context, fsys storage.FS, old, new *Snapshot, jobs int) ([]Rename, error) {
	report := DiffMetadata(old, new)
	gone, come := without(old, new), without(new, old)
	a, _, err := headersOf(ctx, fsys, old, gone, jobs)
	if err != nil {
		return nil, err
	}
	b, _, err := headersOf(ctx, fsys, new, come, jobs)
	if err != nil {
		return nil, err
	}
	signature := func(list []StateHeader) string {
		var texts []string
		for i := range list {
			texts = append(texts, list[i].signature())
		}
		slices.Sort(texts)
		return strings.Join(texts, "\n")
	}
	times := func(ops []*metadata.Operator, headers map[*metadata.Operator][]StateHeader, what string) (n int) {
		for _, o := range ops {
			if signature(headers[o]) == what {
				n++
			}
		}
		return n
	}
	var list []Rename
	known := map[metadata.OperatorID]bool{}
	for _, o := range gone {
		what := signature(a[o])
		known[o.ID] = what != ""
		for _, n := range come {
			if what == "" || signature(b[n]) != what {
				continue
			}
			var names []string
			for _, h := range a[o] {
				names = append(names, fmt.Sprintf("%q", h.Name))
			}
			sameName := o.Name != "" && o.Name == n.Name
			list = append(list, Rename{
				Old: o.ID, New: n.ID, OldName: operatorTitle(o), NewName: operatorTitle(n), Why: "same states and serializers: " + listSome(names),
				Ambiguous: !sameName && (times(gone, a, what) > 1 || times(come, b, what) > 1),
			})
		}
	}
	for _, r := range report.Renames {
		if !known[r.Old] {
			list = append(list, r)
		}
	}
	return list, nil
}

// operatorTitle is an operator's uid or name, "" if the metadata has neither.
func operatorTitle(o *metadata.Operator) string {
	if o.UID != "" {
		return o.UID.String()
	}
	return o.Name.String()
}

// without gives the operators of a that b does not have.
func without(a, b *Snapshot) []*metadata.Operator {
	ids := map[metadata.OperatorID]bool{}
	for i := range b.Operators {
		ids[b.Operators[i].ID] = true
	}
	var list []*metadata.Operator
	for i := range a.Operators {
		if o := &a.Operators[i]; !ids[o.ID] {
			list = append(list, o)
		}
	}
	return list
}
