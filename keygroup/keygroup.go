package keygroup

import "fmt"

// UpperBound is the largest max parallelism that Flink allows.
const UpperBound = 1 << 15

// lowerBound is the smallest default max parallelism.
const lowerBound = 1 << 7

// Range is a range of key groups, both ends included, like Flink's
// KeyGroupRange. A range with End < Start is empty.
type Range struct{ Start, End int }

// Empty says that the range holds no key group.
func (r Range) Empty() bool { return r.End < r.Start }

// Len is the number of key groups in the range.
func (r Range) Len() int { return max(0, r.End-r.Start+1) }

// Intersect gives the key groups that are in both ranges.
func (r Range) Intersect(o Range) Range {
	return Range{max(r.Start, o.Start), min(r.End, o.End)}
}

// String gives "start-end", or "none" for an empty range.
func (r Range) String() string {
	if r.Empty() {
		return "none"
	}
	return fmt.Sprintf("%d-%d", r.Start, r.End)
}

// ForHash is the key group of a key with this Java hash code. It panics if
// maxParallelism is not positive.
func ForHash(javaHash int32, maxParallelism int) int {
	return int(murmur(javaHash)) % maxParallelism
}

// murmur is the 32-bit murmur3 of one int as Flink's MathUtils.murmurHash
// computes it; the result is not negative.
func murmur(code int32) int32 {
	switch v := int32(finish(mix(0, uint32(code)) ^ 4)); {
	case v >= 0:
		return v
	case v != -1<<31:
		return -v
	}
	return 0
}

// RangeOf is the range of key groups that a subtask owns. It is empty if
// there are more subtasks than key groups.
func RangeOf(subtask, maxParallelism, parallelism int) Range {
	return Range{
		Start: (subtask*maxParallelism + parallelism - 1) / parallelism,
		End:   ((subtask+1)*maxParallelism - 1) / parallelism,
	}
}

// Subtask is the index of the subtask that owns a key group.
func Subtask(group, maxParallelism, parallelism int) int {
	return group * parallelism / maxParallelism
}

// DefaultMaxParallelism is the max parallelism that Flink gives an operator
// of this parallelism if the job sets none.
func DefaultMaxParallelism(parallelism int) int {
	p := lowerBound
	for p < UpperBound && p < parallelism+parallelism/2 {
		p <<= 1
	}
	return p
}
