package tools

import "math/bits"

// Histogram counts sizes in bytes by powers of two.
type Histogram struct {
	Count int64 `json:"count"`
	Sum   int64 `json:"sum"`
	Min   int64 `json:"min"`
	Max   int64 `json:"max"`
	// Mean, P50 and P99 are for reading; P50 and P99 are the upper end of the
	// bucket in which they are, or Max if that is less.
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
	// Buckets are those that are not empty.
	Buckets []Bucket `json:"buckets,omitempty"`

	counts [65]int64
}

// Bucket is how many sizes are at most UpTo, and in no bucket before it.
type Bucket struct {
	UpTo  int64 `json:"upTo"`
	Count int64 `json:"count"`
}

func (h *Histogram) add(n int64) {
	if h.Count == 0 || n < h.Min {
		h.Min = n
	}
	h.Max = max(h.Max, n)
	h.Count++
	h.Sum += n
	h.counts[bits.Len64(uint64(max(0, n-1)))]++ // upper ends 1, 2, 4, 8, ...
}

func (h *Histogram) merge(o *Histogram) {
	if o.Count == 0 {
		return
	}
	if h.Count == 0 || o.Min < h.Min {
		h.Min = o.Min
	}
	h.Max = max(h.Max, o.Max)
	h.Count += o.Count
	h.Sum += o.Sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// finish fills in what is for reading.
func (h *Histogram) finish() {
	if h.Count == 0 {
		return
	}
	h.Mean = float64(h.Sum) / float64(h.Count)
	h.P50, h.P99 = h.quantile(0.5), h.quantile(0.99)
	h.Buckets = nil
	for i, n := range h.counts {
		if n > 0 {
			h.Buckets = append(h.Buckets, Bucket{bucketEnd(i), n})
		}
	}
}

func bucketEnd(i int) int64 {
	if i >= 63 {
		return 1<<63 - 1
	}
	return 1 << i
}

func (h *Histogram) quantile(q float64) int64 {
	need, sum := int64(q*float64(h.Count-1))+1, int64(0)
	for i, n := range h.counts {
		if sum += n; sum >= need {
			return min(bucketEnd(i), h.Max)
		}
	}
	return h.Max
}
