package tools

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/storage"
)

// found is what is known of one object: its size, that it is not there, or
// that looking failed.
type found struct {
	size int64
	err  error // unwraps to fs.ErrNotExist if the object is not there
}

// listFrom is the number of wanted objects in one directory from which it is
// cheaper to list the directory than to ask for each.
const listFrom = 256

// statAll looks for objects, in parallel. The result has one element for each
// URI. Only a cancelled context ends it early.
func statAll(ctx context.Context, fsys storage.FS, uris []string, jobs int, progress func(done int)) ([]found, error) {
	out := make([]found, len(uris))
	var done atomic.Int64
	step := func(n int) {
		if d := done.Add(int64(n)); progress != nil {
			progress(int(d))
		}
	}
	byDir := map[string][]int{}
	for i, u := range uris {
		d := storage.Dir(u)
		byDir[d] = append(byDir[d], i)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, jobs))
	one := func(i int) {
		g.Go(func() error {
			out[i] = statOne(ctx, fsys, uris[i])
			step(1)
			return ctx.Err()
		})
	}
	for dir, wanted := range byDir {
		if len(wanted) < listFrom {
			for _, i := range wanted {
				one(i)
			}
			continue
		}
		sizes, err := listSizes(ctx, fsys, dir, uris, wanted)
		for _, i := range wanted {
			// What a list does not show is asked for, as it may have come
			// while the list was read.
			if size, ok := sizes[storage.Base(uris[i])]; ok && err == nil {
				out[i] = found{size: size}
				step(1)
				continue
			}
			one(i)
		}
	}
	return out, g.Wait()
}

func statOne(ctx context.Context, fsys storage.FS, uri string) found {
	info, err := fsys.Stat(ctx, uri)
	if err == nil && info.Dir {
		err = &fs.PathError{Op: "stat", Path: uri, Err: errors.New("a directory, not a file")}
	}
	return found{info.Size, err}
}

// listSizes gives the sizes of the wanted objects that a list of dir shows, by name.
func listSizes(ctx context.Context, fsys storage.FS, dir string, uris []string, wanted []int) (map[string]int64, error) {
	sizes := make(map[string]int64, len(wanted))
	names := make(map[string]bool, len(wanted))
	for _, i := range wanted {
		names[storage.Base(uris[i])] = true
	}
	for info, err := range fsys.ReadDir(ctx, dir) {
		if err != nil {
			return nil, err
		}
		if name := storage.Base(info.URI); !info.Dir && names[name] {
			sizes[name] = info.Size
		}
	}
	return sizes, nil
}
