package tools

import (
	"context"
	"slices"
	"strings"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// KafkaOffset is where a Kafka source is in one partition.
type KafkaOffset struct {
	Operator metadata.OperatorID `json:"operatorId"`
	Name     string              `json:"name,omitempty"`
	UID      string              `json:"uid,omitempty"`
	// Source is "FlinkKafkaConsumer" or "KafkaSource".
	Source string `json:"source"`
	// Part is "reader" or, for what KafkaSource's coordinator knows, "enumerator".
	Part      string `json:"part"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Offset as it is stored, nil if the enumerator's format has none: the
	// last that was read for FlinkKafkaConsumer, the next to read for KafkaSource.
	Offset *int64 `json:"offset,omitempty"`
	// Next is the next offset to read; nil if Special names a place.
	Next *int64 `json:"next,omitempty"`
	// Special is "earliest", "latest", "committed", "not set" or "".
	Special string `json:"special,omitempty"`
	// Stopping is the offset before which the source ends, or what it means by name; nil and "" if there is none.
	Stopping        *int64 `json:"stopping,omitempty"`
	StoppingSpecial string `json:"stoppingSpecial,omitempty"`
	// Unassigned says that the enumerator has not given it to a reader.
	Unassigned bool `json:"unassigned,omitempty"`
	// Subtasks that have it. Union state has copies in many.
	Subtasks []int `json:"subtasks,omitempty"`
}

// mostCoordinator is the largest coordinator state that is read, in bytes.
const mostCoordinator = 256 << 20

// KafkaOffsets lists the offsets of the Kafka sources of both generations in
// a snapshot, by operator, topic and partition. What can't be read is in problems.
func KafkaOffsets(ctx context.Context, fsys storage.FS, s *Snapshot, o EntryOptions) (list []KafkaOffset, problems []*StateProblem, err error) {
	o.Keys, o.KeyGroups = nil, nil
	o.States = []string{stateKafkaConsumer, stateSourceReader, stateDefault}
	r, err := newStateReader(fsys, s, o.Selection, o.Jobs, o.Progress)
	if err != nil {
		return nil, nil, err
	}
	r.parts = slices.DeleteFunc(r.parts, func(p part) bool { return p.list == nil })
	var found problemList
	type key struct {
		op               metadata.OperatorID
		part, topic      string
		partition        int32
		offset, stopping int64
	}
	index := map[key]int{}
	add := func(u *unit, part string, k *kafkaSplit, more func(*KafkaOffset)) {
		at := key{u.op.ID, part, k.topic, k.partition, k.offset, k.stopping}
		i, ok := index[at]
		if !ok {
			i = len(list)
			index[at] = i
			list = append(list, KafkaOffset{
				Operator: u.op.ID, Name: u.op.Name.String(), UID: u.op.UID.String(), Source: k.source, Part: part, Topic: k.topic, Partition: k.partition,
			})
		}
		more(&list[i])
	}
	type position struct {
		split   *kafkaSplit
		problem *StateProblem
	}
	err = ordered.Each(ctx, r.jobs, len(r.parts), func(ctx context.Context, n int, send func(position) error) error {
		return r.read(ctx, r.parts[n], visitor{
			element: func(e *backend.OperatorEntry) error {
				if k, ok := kafkaElement(e); ok {
					return send(position{split: k})
				}
				return nil
			},
			problem: func(p *StateProblem) error { return send(position{problem: p}) },
		})
	}, func(n int, p position) error {
		u := r.parts[n].unit
		if p.problem != nil {
			found.add(u, p.problem)
			return nil
		}
		add(u, "reader", p.split, func(k *KafkaOffset) {
			k.setOffsets(p.split)
			if !slices.Contains(k.Subtasks, u.subtask) {
				k.Subtasks = append(k.Subtasks, u.subtask)
			}
		})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	ops, err := o.operators(s.Snapshot)
	if err != nil {
		return nil, nil, err
	}
	for _, op := range ops {
		if op.Coordinator == nil {
			continue
		}
		u := &unit{op: op, subtask: -1, role: metadata.RoleCoordinator, coordinator: op.Coordinator, file: streamFile(s.Dir, op.Coordinator)}
		data, err := r.files.ReadAll(ctx, op.Coordinator, mostCoordinator)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			found.add(u, newProblem(u, "", err))
			continue
		}
		known, _ := kafkaEnumerator(data)
		for i := range known {
			a := &known[i]
			add(u, "enumerator", &a.kafkaSplit, func(k *KafkaOffset) {
				k.Unassigned = !a.assigned
				if a.hasOffset {
					k.setOffsets(&a.kafkaSplit)
				}
			})
		}
	}
	order := map[metadata.OperatorID]int{}
	for i := range s.Operators {
		order[s.Operators[i].ID] = i
	}
	slices.SortStableFunc(list, func(a, b KafkaOffset) int {
		if c := order[a.Operator] - order[b.Operator]; c != 0 {
			return c
		}
		if c := strings.Compare(b.Part, a.Part); c != 0 { // readers first
			return c
		}
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return list, found.list, nil
}

func (k *KafkaOffset) setOffsets(s *kafkaSplit) {
	k.Offset = new(s.offset)
	special, next := s.position()
	if k.Special = special; special == "" {
		k.Next = new(next)
	}
	special, stop, ok := s.stop()
	if k.StoppingSpecial = special; special == "" && ok {
		k.Stopping = new(stop)
	}
}
