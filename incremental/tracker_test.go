package incremental

import (
	"testing"

	"github.com/drey-state/drey/metadata"
)

// The base is the newest checkpoint that completed and in which the database had a part.
func TestTracker(t *testing.T) {
	object := func(name string) map[string]metadata.Stream {
		return map[string]metadata.Stream{"000001.sst": &metadata.ByteStream{Name: metadata.Text(name)}}
	}
	for _, test := range []struct {
		name string
		do   func(*Tracker)
		base int64
	}{
		{"nothing", func(*Tracker) {}, -1},
		{"completed", func(r *Tracker) { r.Written(1, object("1")); r.Completed(1) }, 1},
		{"not known to be complete", func(r *Tracker) { r.Written(1, object("1")) }, -1},
		{"aborted", func(r *Tracker) { r.Written(1, object("1")); r.Aborted(1); r.Completed(1) }, -1},
		{"out of order", func(r *Tracker) { r.Written(1, object("1")); r.Written(2, object("2")); r.Completed(2); r.Completed(1) }, 2},
		{"a savepoint between", func(r *Tracker) { r.Written(10, object("10")); r.Completed(11); r.Completed(10) }, 10},
		{"the same for a restored one", func(r *Tracker) {
			r.Restored(9, object("9"))
			r.Written(10, object("10"))
			r.Completed(11)
			r.Completed(10)
		}, 10},
		{"written before the restore", func(r *Tracker) { r.Written(10, object("10")); r.Restored(9, object("9")); r.Completed(10) }, 9},
	} {
		tracker := NewTracker()
		test.do(tracker)
		base, files := tracker.Base()
		if base != test.base || base > 0 && files["000001.sst"].(*metadata.ByteStream).Name.String() != map[int64]string{1: "1", 2: "2", 9: "9", 10: "10"}[base] {
			t.Errorf("%s: base %d with %v; want %d", test.name, base, files, test.base)
		}
	}
}
