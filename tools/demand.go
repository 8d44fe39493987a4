package tools

import (
	"fmt"
	"runtime"

	"github.com/drey-state/drey/metadata"
)

// demand is what the handles of one file ask of its size.
type demand struct {
	exact int64 // of handles of the whole file, -1 if none says
	least int64 // that segments reach
	clash bool  // two handles of the whole file ask for different sizes
}

func newDemand() demand { return demand{exact: -1} }

// add takes in a reference. It returns what is impossible about it, or "".
func (d *demand) add(r metadata.Ref) string {
	switch {
	case r.Part == metadata.PartChange: // a logical length, which says nothing of the file's
	case r.Kind == metadata.RefSegment:
		end := r.Start + r.Size
		if r.Start < 0 || r.Size < 0 || end < r.Start {
			return fmt.Sprintf("a segment of %d bytes at %d", r.Size, r.Start)
		}
		d.least = max(d.least, end)
	case r.Size >= 0:
		d.clash = d.clash || d.exact >= 0 && d.exact != r.Size
		d.exact = r.Size
	}
	return ""
}

// want is the size that is asked for, -1 if none is.
func (d *demand) want() int64 {
	switch {
	case d.exact >= 0:
		return d.exact
	case d.least > 0:
		return d.least
	}
	return -1
}

// wrong says what is wrong with a file of this size, or "".
func (d *demand) wrong(size int64) string {
	switch {
	case d.clash:
		return fmt.Sprintf("it has %d bytes, and its handles demand different sizes", size)
	case d.exact >= 0 && size != d.exact:
		return fmt.Sprintf("it has %d bytes, the metadata says %d", size, d.exact)
	case size < d.least:
		return fmt.Sprintf("it has %d bytes, but a segment ends at %d", size, d.least)
	}
	return ""
}

// fits says that a file of this size can be the one that is meant.
func (d *demand) fits(size int64) bool { return d.wrong(size) == "" }

// defaultJobs is n, or how many files to work on at once if n says nothing.
// Most of the time is waiting for a disk or a network.
func defaultJobs(n int) int {
	if n > 0 {
		return n
	}
	return max(16, 4*runtime.GOMAXPROCS(0))
}
