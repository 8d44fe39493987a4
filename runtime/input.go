package runtime

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/drey-state/drey/storage"
)

// Log is an [Input] in memory: partitions that records are appended to. The offset is the number of records. It may be used concurrently.
type Log[T any] struct {
	mu    sync.Mutex
	parts [][]Record[T]
	ended bool
}

// NewLog makes a log of so many empty partitions.
func NewLog[T any](partitions int) *Log[T] { return &Log[T]{parts: make([][]Record[T], partitions)} }

// Append appends records to a partition.
func (l *Log[T]) Append(partition int, r ...Record[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts[partition] = append(l.parts[partition], r...)
}

// End says that nothing more will be appended.
func (l *Log[T]) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Partitions implements Input.
func (l *Log[T]) Partitions(context.Context) ([]string, error) {
	names := make([]string, len(l.parts))
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names, nil
}

// Open implements Input.
func (l *Log[T]) Open(ctx context.Context, partition string, offset int64) (Reader[T], error) {
	names, err := l.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.Index(names, partition)
	if i < 0 {
		return nil, fmt.Errorf("a log of %d partitions has none named %q", len(names), partition)
	}
	return &logReader[T]{l: l, i: i, at: offset}, nil
}

type logReader[T any] struct {
	l    *Log[T]
	i    int
	at   int64
	seen []Record[T] // from at on
	end  bool
}

func (r *logReader[T]) Next() (Record[T], bool, error) {
	if len(r.seen) == 0 {
		if r.end {
			return Record[T]{}, false, io.EOF
		}
		r.l.mu.Lock()
		all := r.l.parts[r.i]
		r.end = r.l.ended
		r.l.mu.Unlock()
		if r.at > int64(len(all)) {
			return Record[T]{}, false, fmt.Errorf("offset %d in a log of %d records", r.at, len(all))
		}
		r.seen = all[r.at:len(all):len(all)]
		if len(r.seen) == 0 {
			if r.end {
				return Record[T]{}, false, io.EOF
			}
			return Record[T]{}, false, nil
		}
	}
	rec := r.seen[0]
	r.seen = r.seen[1:]
	r.at++
	return rec, true, nil
}

func (r *logReader[T]) Offset() int64 { return r.at }
func (r *logReader[T]) Close() error  { return nil }

// Lines is an [Input] of the lines of files: each file is a partition, the offset is in bytes. Lines end with a line feed, which is not part of
// them; the last one need not.
type Lines struct {
	FS storage.FS
	// URIs are those of the files, which must not change.
	URIs []string
}

// Partitions implements Input.
func (l Lines) Partitions(context.Context) ([]string, error) { return l.URIs, nil }

// Open implements Input.
func (l Lines) Open(ctx context.Context, uri string, offset int64) (Reader[string], error) {
	obj, err := l.FS.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	if offset > obj.Size() {
		_ = obj.Close()
		return nil, fmt.Errorf("%s: offset %d in a file of %d bytes: it was changed", uri, offset, obj.Size())
	}
	in, err := obj.Reader(ctx, offset)
	if err != nil {
		_ = obj.Close()
		return nil, err
	}
	return &linesReader{obj: obj, in: in, buf: bufio.NewReaderSize(in, 64<<10), at: offset}, nil
}

type linesReader struct {
	obj storage.Object
	in  io.ReadCloser
	buf *bufio.Reader
	at  int64
}

// maxLine is the longest line, in bytes.
const maxLine = 1 << 20

func (r *linesReader) Next() (Record[string], bool, error) {
	var line []byte
	for {
		part, err := r.buf.ReadSlice('\n')
		line = append(line, part...)
		if err == bufio.ErrBufferFull && len(line) <= maxLine {
			continue
		}
		if err == bufio.ErrBufferFull {
			return Record[string]{}, false, fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		if err == io.EOF && len(line) > 0 {
			err = nil
		}
		if err != nil {
			return Record[string]{}, false, err
		}
		r.at += int64(len(line))
		if n := len(line); line[n-1] == '\n' {
			line = line[:n-1]
		}
		return Record[string]{string(line), NoTimestamp}, true, nil
	}
}

func (r *linesReader) Offset() int64 { return r.at }

func (r *linesReader) Close() error {
	err := r.in.Close()
	if cerr := r.obj.Close(); err == nil {
		err = cerr
	}
	return err
}
