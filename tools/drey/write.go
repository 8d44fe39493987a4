package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/drey-state/drey/storage"
)

// writeOut writes the file that an option names, whole or not at all, in the place of one that is there. A symbolic link stays, and
// leads to the new file; what is no file, such as a device or a pipe, is written into.
func writeOut(ctx context.Context, e *env, name string, write func(io.Writer) error) error {
	uri, err := target(name)
	if err != nil {
		return err
	}
	if storage.Scheme(uri) == "file" {
		_, _, path := storage.Split(uri)
		path = filepath.FromSlash(path)
		if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
			return writeInto(path, write)
		}
	}
	fsys := stores(e)
	if r, ok := fsys.(storage.Resolver); ok {
		if uri, err = r.Resolve(ctx, uri); err != nil {
			return err
		}
	}
	w, err := fsys.Create(ctx, uri, storage.CreateOptions{Overwrite: true})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := buffered(w, write); err != nil {
		return err
	}
	return w.Commit()
}

// writeInto writes into what is there already.
func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(buffered(f, write), f.Close())
}

func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}
