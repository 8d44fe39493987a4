package tools

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// PayloadURI tells of text inside state that looks like paths under a place
// that the snapshot moves away from. State is never rewritten, so a job that
// follows such a path still goes to the old place.
type PayloadURI struct {
	Operator string `json:"operator"`
	State    string `json:"state"`
	Prefix   string `json:"prefix"`
	Count    int    `json:"count"`
	Sample   string `json:"sample"`
}

// Operator state in files is searched up to these sizes, in bytes, of one
// file and of all; keyed state, which can be of any size, is not.
const (
	maxSearchFile  = 1 << 20
	maxSearchTotal = 64 << 20
)

// searchPayload looks for old paths in the state of operators and coordinators.
func (r *relocation) searchPayload(ctx context.Context) error {
	prefixes := r.oldPrefixes()
	if len(prefixes) == 0 {
		return nil
	}
	s := &search{prefixes: prefixes, hits: map[[3]string]*PayloadURI{}}
	budget := int64(maxSearchTotal)
	skipped := 0
	read := map[string][]byte{}
	content := func(h metadata.Stream) []byte {
		uri := ""
		var size int64
		switch h := h.(type) {
		case *metadata.ByteStream:
			return h.Data
		case *metadata.File:
			if f := r.files[storage.Key(h.Path.String())]; f != nil {
				uri, size = f.actual, h.Size
			}
		case *metadata.RelativeFile:
			uri, size = storage.Join(r.plan.snapshot.Dir, h.Path.String()), h.Size
		}
		if uri == "" || r.plan.options.MetadataOnly {
			return nil
		}
		if data, ok := read[uri]; ok {
			return data
		}
		if size > maxSearchFile || size > budget {
			skipped++
			return nil
		}
		data, err := storage.ReadAll(ctx, r.plan.source, uri, maxSearchFile)
		if err != nil {
			skipped++
			return nil
		}
		budget -= int64(len(data))
		read[uri] = data
		return data
	}
	for i := range r.plan.snapshot.Operators {
		o := &r.plan.snapshot.Operators[i]
		if b, ok := o.Coordinator.(*metadata.ByteStream); ok {
			s.data(o, "coordinator", b.Data)
		}
		for _, sub := range o.Subtasks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if sub.State == nil {
				continue
			}
			for _, st := range slices.Concat(sub.State.ManagedOperator, sub.State.RawOperator) {
				if st != nil {
					s.operatorState(o, st, content(st.Delegate))
				}
			}
			for _, k := range []metadata.Keyed{sub.State.ManagedKeyed, sub.State.RawKeyed} {
				if k, ok := k.(*metadata.KeyGroups); ok {
					if b, ok := k.Delegate.(*metadata.ByteStream); ok {
						s.data(o, "keyed state", b.Data)
					}
				}
			}
		}
	}
	r.plan.Payload = s.list()
	if skipped > 0 {
		r.plan.Warnings = append(r.plan.Warnings, fmt.Sprintf("%d files of operator state were not searched for paths of the old place: too large", skipped))
	}
	return nil
}

// oldPrefixes gives what the paths of the old place begin with: what the
// rules rewrite, else the bucket or, of a file system, the directory that
// held the snapshot's or the job's. Names of inline handles tell it too.
func (r *relocation) oldPrefixes() []string {
	set := map[string]bool{}
	for _, rule := range r.plan.options.Rewrite {
		set[storage.Clean(rule.From)] = true
	}
	if len(set) == 0 {
		add := func(uri string) {
			scheme, authority, path := storage.Split(uri)
			if scheme == "" || path == "" || path == "/" {
				return
			}
			if authority != "" {
				set[joinURI(scheme, authority, "/")] = true
				return
			}
			if root := jobRoot(uri); root != "" {
				set[root+"/"] = true
			}
		}
		for _, f := range r.order {
			if f.first.Kind != metadata.RefRelative && storage.Key(f.recorded) != storage.Key(f.target) {
				add(f.recorded)
			}
		}
		for i := range r.plan.snapshot.Operators {
			for _, sub := range r.plan.snapshot.Operators[i].Subtasks {
				if sub.State == nil {
					continue
				}
				for _, st := range sub.State.ManagedOperator {
					if st == nil {
						continue
					}
					if b, ok := st.Delegate.(*metadata.ByteStream); ok && strings.Contains(string(b.Name), ":/") {
						add(b.Name.String())
					}
				}
			}
		}
		if !r.same {
			add(storage.Join(r.plan.snapshot.Dir, MetadataName))
		}
	}
	// One bucket has several spellings.
	for p := range set {
		scheme, authority, path := storage.Split(p)
		if storage.Scheme(p) == "s3" {
			for _, alias := range []string{"s3", "s3a", "s3n", "s3p"} {
				if alias != scheme {
					set[joinURI(alias, authority, path)] = true
				}
			}
		}
	}
	return sortedKeys(set)
}

// jobRoot is the directory above that of the snapshot or job in which a file
// is recorded; "" if that is a root.
func jobRoot(uri string) string {
	dir := storage.Dir(uri)
	for d := dir; storage.Base(d) != ""; d = storage.Dir(d) {
		if name := storage.Base(d); jobIDPattern.MatchString(name) || savepointPattern.MatchString(name) {
			dir = d
		}
	}
	root := storage.Dir(dir)
	if storage.Base(root) == "" {
		return ""
	}
	return root
}

type search struct {
	prefixes []string
	hits     map[[3]string]*PayloadURI
}

// operatorState searches the elements of each state.
func (s *search) operatorState(o *metadata.Operator, st *metadata.OperatorState, data []byte) {
	if len(data) == 0 {
		return
	}
	type start struct {
		at   int64
		name string
	}
	var starts []start
	for _, n := range st.States {
		for _, off := range n.Offsets {
			starts = append(starts, start{off, n.Name.String()})
		}
	}
	slices.SortFunc(starts, func(a, b start) int { return int(min(max(a.at-b.at, -1), 1)) })
	s.find(data, func(at int, prefix, sample string) {
		name := "operator state"
		for _, x := range starts {
			if x.at <= int64(at) {
				name = x.name
			}
		}
		s.add(o, name, prefix, sample)
	})
}

func (s *search) data(o *metadata.Operator, name string, data []byte) {
	s.find(data, func(_ int, prefix, sample string) { s.add(o, name, prefix, sample) })
}

// find calls hit for each place where one of the prefixes stands.
func (s *search) find(data []byte, hit func(at int, prefix, sample string)) {
	for _, prefix := range s.prefixes {
		for from := 0; ; {
			i := bytes.Index(data[from:], []byte(prefix))
			if i < 0 {
				break
			}
			at := from + i
			end := at + len(prefix)
			for end < len(data) && end < at+300 && data[end] >= ' ' && data[end] != '"' && data[end] != 0x7f {
				end++
			}
			hit(at, prefix, strings.ToValidUTF8(string(data[at:end]), ""))
			from = at + len(prefix)
		}
	}
}

func (s *search) add(o *metadata.Operator, state, prefix, sample string) {
	key := [3]string{o.ID.String(), state, prefix}
	if h := s.hits[key]; h != nil {
		h.Count++
		return
	}
	s.hits[key] = &PayloadURI{Operator: operatorName(o), State: state, Prefix: prefix, Count: 1, Sample: sample}
}

func (s *search) list() []PayloadURI {
	keys := make([][3]string, 0, len(s.hits))
	for k := range s.hits {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [3]string) int {
		return strings.Compare(strings.Join(a[:], "\x00"), strings.Join(b[:], "\x00"))
	})
	list := make([]PayloadURI, len(keys))
	for i, k := range keys {
		list[i] = *s.hits[k]
	}
	return list
}
