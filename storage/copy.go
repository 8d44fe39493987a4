package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// CopyOptions are the options of [Copy]; the zero value is the default.
type CopyOptions struct {
	// Progress, if set, is told of bytes as they pass through this process,
	// or of the whole object once the store has copied it. It is called from
	// the goroutine that called Copy.
	Progress func(bytes int64)
	// Size is the object's size in bytes if the caller knows it, which saves
	// asking a store that copies by itself; 0 means unknown. A copy of another
	// size is for the caller to find out.
	Size int64
}

// Copy copies the object src of srcFS to dst of dstFS and gives its size in
// bytes. If both are the same store (the same value, also behind a [Mux]) the
// store copies it; else the bytes pass through this process, in memory that
// does not depend on their number, and are counted. It never replaces: an
// object at dst is an error that unwraps to [io/fs.ErrExist]. After an error
// nothing is visible at dst that was not there before.
func Copy(ctx context.Context, srcFS FS, src string, dstFS FS, dst string, o CopyOptions) (n int64, err error) {
	from, err := unwrap(srcFS, src)
	if err != nil {
		return 0, pathError("copy", src, err)
	}
	to, err := unwrap(dstFS, dst)
	if err != nil {
		return 0, pathError("copy", dst, err)
	}
	if sameFS(from, to) {
		return copyInside(ctx, from, src, dst, o)
	}
	return stream(ctx, from, src, to, dst, o)
}

// unwrap gives the FS behind f that serves uri.
func unwrap(f FS, uri string) (FS, error) {
	for {
		m, ok := f.(Mux)
		if !ok {
			return f, nil
		}
		var err error
		if f, err = m.FS(uri); err != nil {
			return nil, err
		}
	}
}

// sameFS says that a and b are one value.
func sameFS(a, b FS) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	return va.IsValid() && vb.IsValid() && va.Comparable() && vb.Comparable() && a == b
}

func copyInside(ctx context.Context, f FS, src, dst string, o CopyOptions) (int64, error) {
	size := o.Size
	if size == 0 {
		info, err := f.Stat(ctx, src)
		if err == nil && info.Dir {
			err = pathError("copy", src, ErrIsDir)
		}
		if err != nil {
			return 0, err
		}
		size = info.Size
	}
	if err := f.Copy(ctx, src, dst); err != nil {
		return 0, err
	}
	if o.Progress != nil {
		o.Progress(size)
	}
	return size, nil
}

// streamBuffer is how many bytes are read at a time.
const streamBuffer = 256 << 10

var streamBuffers = sync.Pool{New: func() any { return new([streamBuffer]byte) }}

func stream(ctx context.Context, from FS, src string, to FS, dst string, o CopyOptions) (n int64, err error) {
	obj, err := from.Open(ctx, src)
	if err != nil {
		return 0, err
	}
	defer obj.Close()
	w, err := to.Create(ctx, dst, CreateOptions{Size: obj.Size()})
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	r, err := obj.Reader(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	buf := streamBuffers.Get().(*[streamBuffer]byte)
	defer streamBuffers.Put(buf)
	for {
		k, rerr := r.Read(buf[:])
		if k > 0 {
			if _, err := w.Write(buf[:k]); err != nil {
				return 0, err
			}
			n += int64(k)
			if o.Progress != nil {
				o.Progress(int64(k))
			}
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return 0, rerr
		}
	}
	if n != obj.Size() {
		return 0, pathError("copy", src, fmt.Errorf("%w: %d bytes came, the object has %d", io.ErrUnexpectedEOF, n, obj.Size()))
	}
	return n, w.Commit()
}

// ErrTooLarge says that an object has more bytes than the caller is ready to hold.
var ErrTooLarge = errors.New("object too large")

// ReadAll reads an object into memory. One of more than limit bytes is an
// error that unwraps to [ErrTooLarge]; limit 0 means that there is none.
func ReadAll(ctx context.Context, f FS, uri string, limit int64) ([]byte, error) {
	obj, err := f.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	defer obj.Close()
	data, err := ReadObject(ctx, obj, limit)
	return data, pathError("read", uri, err)
}

// ReadObject is [ReadAll] for an object that is open, and stays so.
func ReadObject(ctx context.Context, obj Object, limit int64) ([]byte, error) {
	if limit > 0 && obj.Size() > limit {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, obj.Size(), limit)
	}
	r, err := obj.Reader(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, obj.Size())
	if _, err := io.ReadFull(r, data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return data, nil
}

// WriteFile creates an object with the bytes data.
func WriteFile(ctx context.Context, f FS, uri string, data []byte, o CreateOptions) error {
	o.Size = int64(len(data))
	w, err := f.Create(ctx, uri, o)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Commit()
}
