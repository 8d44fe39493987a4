package backend

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// Files opens the streams that handles name. It may be used concurrently.
type Files struct {
	FS storage.FS
	// Dir is the directory of the metadata file, for relative handles.
	Dir string
}

// Open opens the bytes of a stream handle: inline bytes, a whole file or the
// segment of one. Offsets in the object are those of the handle. A segment
// that does not lie in its file and a relative path that leaves Dir are
// errors; a file that has another size than its handle says is not. The caller closes the object.
func (f Files) Open(ctx context.Context, s metadata.Stream) (storage.Object, error) {
	obj, err := f.open(ctx, s)
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// ReadAll reads a stream into memory. One of more than limit bytes is an error that unwraps to [storage.ErrTooLarge]; limit 0 means that there is none.
func (f Files) ReadAll(ctx context.Context, s metadata.Stream, limit int64) ([]byte, error) {
	obj, err := f.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer obj.Close()
	return storage.ReadObject(ctx, obj, limit)
}

// object is an open stream with the name that messages have for it.
type object struct {
	storage.Object
	name string
}

func (f Files) open(ctx context.Context, s metadata.Stream) (*object, error) {
	switch s := s.(type) {
	case *metadata.ByteStream:
		return &object{inline(s.Data), s.Name.String()}, nil
	case *metadata.EmptySegment:
		return &object{inline(nil), "empty segment"}, nil
	case *metadata.File:
		return f.openFile(ctx, s.Path.String())
	case *metadata.RelativeFile:
		uri := storage.Join(f.Dir, s.Path.String())
		if _, ok := storage.Rel(f.Dir, uri); !ok {
			return nil, fmt.Errorf("%s: relative path %q leaves the snapshot's directory: %w", f.Dir, s.Path.String(), serializer.ErrCorrupt)
		}
		return f.openFile(ctx, uri)
	case *metadata.Segment:
		whole, err := f.openFile(ctx, s.Path.String())
		if err != nil {
			return nil, err
		}
		if s.Start < 0 || s.Size < 0 || s.Start > whole.Size() || s.Size > whole.Size()-s.Start {
			whole.Close()
			return nil, fmt.Errorf("%s: segment of %d bytes at %d in a file of %d bytes: %w", whole.name, s.Size, s.Start, whole.Size(), serializer.ErrCorrupt)
		}
		return &object{&segment{whole.Object, s.Start, s.Size}, fmt.Sprintf("%s (segment at %d)", whole.name, s.Start)}, nil
	case *metadata.KeyGroupsStream:
		return f.open(ctx, s.Delegate)
	case nil:
		return nil, fmt.Errorf("a handle without a stream: %w", serializer.ErrCorrupt)
	}
	return nil, fmt.Errorf("a stream handle of type %T: %w", s, serializer.ErrUnsupported)
}

func (f Files) openFile(ctx context.Context, uri string) (*object, error) {
	obj, err := f.FS.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	return &object{obj, uri}, nil
}

// inline is an object whose bytes are in the metadata.
type inline []byte

func (b inline) Size() int64  { return int64(len(b)) }
func (b inline) Close() error { return nil }

func (b inline) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(b).ReadAt(p, off)
}

func (b inline) Reader(_ context.Context, off int64) (io.ReadCloser, error) {
	if off < 0 || off > b.Size() {
		return nil, fmt.Errorf("%w: offset %d of %d", fs.ErrInvalid, off, b.Size())
	}
	return io.NopCloser(bytes.NewReader(b[off:])), nil
}

// segment is a part of a file into which several states were merged.
type segment struct {
	storage.Object
	start, size int64
}

func (s *segment) Size() int64 { return s.size }

func (s *segment) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(s.Object, s.start, s.size).ReadAt(p, off)
}

func (s *segment) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	if off < 0 || off > s.size {
		return nil, fmt.Errorf("%w: offset %d of %d", fs.ErrInvalid, off, s.size)
	}
	r, err := s.Object.Reader(ctx, s.start+off)
	if err != nil {
		return nil, err
	}
	return limited{io.LimitReader(r, s.size-off), r}, nil
}

// limited is a stream that ends early.
type limited struct {
	io.Reader
	io.Closer
}
