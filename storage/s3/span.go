package s3

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// listing lists what is below a prefix. S3 gives a page only to whoever has the
// one before it, but a listing can begin after any key: where a page is not the last one,
// the keys that follow are cut into spans, which are listed at the same time. As the spans are
// adjacent, no key is lost wherever they are cut; where names begin with hexadecimal
// digits, as Flink's do, they get pieces of the same size.
//
// No cut has a slash behind the prefix. So it does not fall into a directory, and servers that go through
// directories in the order of their names, where "a/b" comes before "a-b" and not after it as in the order of keys,
// have the same keys on each side of it.
type listing struct {
	client *awss3.Client
	bucket string
	prefix string
	deep   bool
	most   int // pages that are asked for at a time

	split    bool // into several spans
	disorder bool // the server does not list in any order that we know
	deaf     bool // the server doesn't know StartAfter: a span costs as much as the whole
}

// span is the names (keys without the listing's prefix) above after, but not above end; "" for no end.
type span struct {
	after, end string
	token      string          // of the next page; "" for the first one
	seen       map[string]bool // tokens
	last       string          // name of the last object
}

type page struct {
	*awss3.ListObjectsV2Output
	span *span
	err  error
}

// pages yields the pages in no order, cut down to what their spans are to give.
func (l *listing) pages(ctx context.Context) iter.Seq2[*awss3.ListObjectsV2Output, error] {
	return func(yield func(*awss3.ListObjectsV2Output, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		waiting, running, arrived := []*span{{seen: map[string]bool{}}}, 0, make(chan page, l.most)
		defer func() {
			cancel()
			for range running {
				<-arrived
			}
		}()
		ask := func() {
			for ; len(waiting) > 0 && running < l.most; running++ {
				s := waiting[0]
				waiting = waiting[1:]
				go func() { arrived <- l.ask(ctx, s) }()
			}
		}
		for ask(); running > 0; {
			p := <-arrived
			running--
			if p.err != nil {
				yield(nil, p.err)
				return
			}
			first, last, more, err := l.take(&p)
			if err == nil && more {
				waiting = append(waiting, p.span)
				waiting = append(waiting, l.cut(p.span, first, last, l.most-running-len(waiting))...)
			}
			ask() // while the caller works on this page
			if !yield(p.ListObjectsV2Output, nil) {
				return
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// ask gets the next page of a span.
func (l *listing) ask(ctx context.Context, s *span) page {
	in := &awss3.ListObjectsV2Input{Bucket: &l.bucket, Prefix: &l.prefix}
	if !l.deep {
		in.Delimiter = aws.String("/")
	}
	switch {
	case s.token != "":
		in.ContinuationToken = &s.token
	case s.after != "":
		in.StartAfter = aws.String(l.prefix + s.after)
	}
	out, err := l.client.ListObjectsV2(ctx, in)
	return page{out, s, err}
}

// take cuts a page down to its span, and gives the first and the last name that were
// on it, and whether the span has more pages. A server that gives a token twice would keep
// it going for ever; that is an error.
func (l *listing) take(p *page) (first, last string, more bool, err error) {
	s := p.span
	more = aws.ToBool(p.IsTruncated)
	keep := func(key *string, after string) (name string, ok bool) {
		name, ok = strings.CutPrefix(aws.ToString(key), l.prefix)
		if !ok {
			return name, false
		}
		l.disorder = l.disorder || name < after && segment(name) < segment(after)
		if first == "" || name < first {
			first = name
		}
		last = max(last, name)
		if s.end != "" && name > s.end {
			more = false
			return name, false
		}
		if s.after != "" && name <= s.after {
			l.deaf = true
			return name, false
		}
		return name, true
	}
	p.Contents = slices.DeleteFunc(p.Contents, func(o types.Object) bool {
		name, ok := keep(o.Key, s.last)
		s.last = name
		return !ok
	})
	dir := ""
	p.CommonPrefixes = slices.DeleteFunc(p.CommonPrefixes, func(c types.CommonPrefix) bool {
		name, ok := keep(c.Prefix, dir)
		dir = name
		return !ok
	})
	if l.disorder && l.split {
		return first, last, false, fmt.Errorf("the server lists %q in no order, but began in one", p.span.last)
	}
	if !more {
		return first, last, false, nil
	}
	s.token = aws.ToString(p.NextContinuationToken)
	if s.token == "" || s.seen[s.token] {
		return first, last, false, fmt.Errorf("the server lists in a circle: it gave the continuation token %q again", s.token)
	}
	s.seen[s.token] = true
	return first, last, true, nil
}

// segment is a name as far as its first slash.
func segment(name string) string {
	s, _, _ := strings.Cut(name, "/")
	return s
}

const hexDigits = "0123456789abcdef"

// cut takes up to n spans from the end of s, of which a page with these names was seen. It gives none if the
// page doesn't leave the names of one directory, or if these don't have hexadecimal digits where they differ.
func (l *listing) cut(s *span, first, last string, n int) []*span {
	if n <= 0 || l.disorder || l.deaf || first == last {
		return nil
	}
	same := 0
	for same < len(first) && same < len(last) && first[same] == last[same] {
		same++
	}
	if strings.Contains(last[:same], "/") {
		return nil
	}
	for i := 0; i <= same && i < len(last); i++ {
		digit := strings.IndexByte(hexDigits, last[i])
		if digit < 0 {
			continue
		}
		var points []string
		for _, d := range hexDigits[digit+1:] {
			if p := last[:i] + string(d); s.end == "" || p < s.end {
				points = append(points, p)
			}
		}
		if len(points) == 0 {
			continue
		}
		l.split = true
		n = min(n, len(points))
		spans := make([]*span, n)
		end := s.end
		for j := n - 1; j >= 0; j-- {
			after := points[(j+1)*len(points)/(n+1)]
			spans[j] = &span{after: after, end: end, seen: map[string]bool{}}
			end = after
		}
		s.end = end
		return spans
	}
	return nil
}
