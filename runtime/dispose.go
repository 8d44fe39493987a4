package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// ErrShared says that a snapshot has files in common with others, or that it can't be known.
var ErrShared = errors.New("not a savepoint that has all its files to itself")

// Dispose deletes a savepoint: its metadata first, then the files in its directory. It refuses a checkpoint, and a savepoint that
// names files elsewhere.
func Dispose(ctx context.Context, fs storage.FS, path string) error {
	if fs == nil {
		return errors.New("no storage for savepoints")
	}
	uri := storage.Clean(path)
	info, err := fs.Stat(ctx, uri)
	if err != nil {
		return fmt.Errorf("dispose of %s: %w", path, err)
	}
	if info.Dir {
		uri = storage.Join(uri, metadata.FileName)
	}
	s, err := readMetadata(ctx, fs, uri)
	if err != nil {
		return fmt.Errorf("dispose of %s: %w", path, err)
	}
	if !s.Kind().Savepoint() {
		return fmt.Errorf("dispose of %s: %w: a %s; drey dispose looks for who else uses its files", path, ErrShared, s.Kind())
	}
	dir := storage.Dir(uri)
	var files []string
	seen := map[string]bool{}
	for ref := range s.Refs() {
		file := ref.Path
		if ref.Kind == metadata.RefRelative {
			file = storage.Join(dir, ref.Path)
		}
		if _, ok := storage.Rel(dir, file); !ok || ref.Kind == metadata.RefDirectory {
			return fmt.Errorf("dispose of %s: %w: it names %s; drey dispose looks for who else uses its files", path, ErrShared, file)
		}
		if !seen[file] {
			seen[file] = true
			files = append(files, file)
		}
	}
	if err := fs.Delete(ctx, uri); err != nil {
		return fmt.Errorf("dispose of %s: %w", path, err)
	}
	if err := fs.Delete(ctx, files...); err != nil {
		return fmt.Errorf("dispose of %s: its metadata is deleted, but not all files: %w", path, err)
	}
	if p, ok := fs.(storage.Pruner); ok {
		_, _ = p.Prune(ctx, dir) // an empty directory does no harm
	}
	return nil
}
