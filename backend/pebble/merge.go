package pebble

import (
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// listMerger joins what is added to a list by commas, as RocksDB does for Flink
// (StringAppendOperator). It never fails, because a failed merge
// would stop every compaction: too long a list fails when it is read. An
// empty list, which a file of Flink may hold, adds nothing.
//
// A list of more than limit bytes becomes limit+1 zeros, whatever is added: nobody can read it, the database
// could not hold one of 4 GiB, and it takes no room in files.
func listMerger(limit int) *pebble.Merger {
	return &pebble.Merger{
		Name: "drey.list",
		Merge: func(_, value []byte) (pebble.ValueMerger, error) {
			l := &listValue{limit: limit}
			return l, l.MergeNewer(value)
		},
	}
}

// listValue gathers operands: newer ones are joined as they come, older ones when all are there.
type listValue struct {
	limit int
	size  int // of all with the commas between them
	newer []byte
	older [][]byte // the newest first
}

// count counts a further operand, and says whether it is to be kept.
func (l *listValue) count(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	if l.size > 0 {
		l.size++
	}
	if l.size += len(value); l.size > l.limit {
		l.newer, l.older = nil, nil
		return false
	}
	return true
}

func (l *listValue) MergeNewer(value []byte) error {
	if l.count(value) {
		l.newer = join(l.newer, value)
	}
	return nil
}

func (l *listValue) MergeOlder(value []byte) error {
	if l.count(value) {
		l.older = append(l.older, append([]byte(nil), value...))
	}
	return nil
}

func (l *listValue) Finish(bool) ([]byte, io.Closer, error) {
	switch {
	case l.size > l.limit:
		return make([]byte, l.limit+1), nil, nil
	case len(l.older) == 0:
		return l.newer, nil, nil
	}
	all := make([]byte, 0, l.size)
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
