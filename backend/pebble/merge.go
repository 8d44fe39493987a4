package pebble

import (
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// listMerger joins what is added to a list by commas, as RocksDB does for Flink
// (StringAppendOperator). It never fails, because a failed merge
// would stop every compaction: too long a list fails when it is read. An
// empty list, which a file of Flink may hold, adds nothing.
var listMerger = &pebble.Merger{
	Name: "drey.list",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		return &listValue{newer: append([]byte(nil), value...)}, nil
	},
}

// listValue gathers operands: newer ones are joined as they come, older ones when all are there.
type listValue struct {
	newer []byte
	older [][]byte // the newest first
}

func (l *listValue) MergeNewer(value []byte) error {
	l.newer = join(l.newer, value)
	return nil
}

func (l *listValue) MergeOlder(value []byte) error {
	if len(value) > 0 {
		l.older = append(l.older, append([]byte(nil), value...))
	}
	return nil
}

func (l *listValue) Finish(bool) ([]byte, io.Closer, error) {
	if len(l.older) == 0 {
		return l.newer, nil, nil
	}
	size := len(l.newer)
	for _, v := range l.older {
		size += len(v) + 1
	}
	all := make([]byte, 0, size)
	for i := len(l.older) - 1; i >= 0; i-- {
		all = join(all, l.older[i])
	}
	return join(all, l.newer), nil, nil
}

// join appends a list to a list.
func join(list, more []byte) []byte {
	if len(list) > 0 && len(more) > 0 {
		list = append(list, ',')
	}
	return append(list, more...)
}
