//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/metadata"
)

// depot is a tree of checkpoints as incremental jobs leave it, of files without content: each
// snapshot uses a window of its job's shared files that moves on with the
// checkpoints, and half of the shared files nobody uses any more.
type depot struct {
	jobs       int
	objects    int // in all, metadata included
	snapshots  int // in all
	references int // of each snapshot, its metadata not included
	writers    int // files that are written at once; 0 means 8 for each CPU
}

const (
	depotSubtasks = 100
	depotOwn      = 4   // files of each snapshot that no other uses
	depotAborted  = 100 // files of a checkpoint that did not complete
)

// depotCount is what an audit must find.
type depotCount struct{ all, referenced, unreferenced int64 }

// count says what an audit without a grace period finds.
func (d depot) count() depotCount {
	c := depotCount{}
	for range d.jobs {
		c.all += int64(d.each() * (depotOwn + 1))
		c.all += int64(d.pool() + depotAborted)
		c.referenced += int64(d.each()*(depotOwn+1) + d.window() + (d.each()-1)*d.step())
	}
	c.unreferenced = c.all - c.referenced
	return c
}

// each is the number of snapshots of a job, pool that of files in its shared directory,
// window of those that a snapshot uses, step of those that the next one doesn't use any more.
func (d depot) each() int   { return d.snapshots / d.jobs }
func (d depot) pool() int   { return d.objects/d.jobs - d.each()*(depotOwn+1) - depotAborted }
func (d depot) window() int { return d.references - depotOwn }
func (d depot) step() int   { return max(0, (d.pool()/2-d.window())/max(1, d.each()-1)) }

// putFunc writes a file. It is called from several goroutines.
type putFunc func(ctx context.Context, uri string, data []byte) error

// make writes the tree below root. The metadata of a job comes after its other files.
func (d depot) make(ctx context.Context, put putFunc, root string) error {
	if d.jobs < 1 || d.each() < 1 || d.window() < depotSubtasks || d.pool() < 2*d.window() {
		return fmt.Errorf("%+v: too few objects or references, or too many snapshots", d)
	}
	if d.writers == 0 {
		d.writers = 8 * runtime.GOMAXPROCS(0)
	}
	for job := range d.jobs {
		rnd := rand.New(rand.NewPCG(1, uint64(job)))
		dir := fmt.Sprintf("%s/%016x%016x", root, rnd.Uint64(), rnd.Uint64())
		if err := d.makeJob(ctx, put, dir, rnd); err != nil {
			return err
		}
	}
	return nil
}

func (d depot) makeJob(ctx context.Context, put putFunc, dir string, rnd *rand.Rand) error {
	shared := files(dir+"/shared", d.pool(), rnd)
	others := files(fmt.Sprintf("%s/chk-%d", dir, d.each()+1), depotAborted, rnd)
	var meta []file
	for i := range d.each() {
		chk := fmt.Sprintf("%s/chk-%d", dir, i+1)
		own := files(chk, depotOwn, rnd)
		others = append(others, own...)
		first := len(shared)/2 + i*d.step()
		if d.step() == 0 {
			first = len(shared) - d.window()
		}
		data, err := metadata.Encode(snapshotOf(int64(i+1), own, shared[first:first+d.window()]))
		if err != nil {
			return err
		}
		meta = append(meta, file{chk + "/_metadata", data})
	}
	for _, list := range [][]file{shared, others, meta} {
		if err := d.write(ctx, put, list); err != nil {
			return err
		}
	}
	return nil
}

// file is one to be written.
type file struct {
	uri  string
	data []byte
}

// files gives n files with names as Flink draws them.
func files(dir string, n int, rnd *rand.Rand) []file {
	list := make([]file, n)
	for i := range list {
		var id [16]byte
		binary.BigEndian.PutUint64(id[:8], rnd.Uint64())
		binary.BigEndian.PutUint64(id[8:], rnd.Uint64())
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		list[i].uri = fmt.Sprintf("%s/%x-%x-%x-%x-%x", dir, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	return list
}

func (d depot) write(ctx context.Context, put putFunc, list []file) error {
	g, ctx := errgroup.WithContext(ctx)
	for w := range d.writers {
		g.Go(func() error {
			for i := w; i < len(list); i += d.writers {
				if err := put(ctx, list[i].uri, list[i].data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// putLocal writes a local file.
func putLocal(_ context.Context, uri string, data []byte) error {
	err := os.WriteFile(uri, data, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(uri), 0o700); err == nil {
			err = os.WriteFile(uri, data, 0o600)
		}
	}
	return err
}

// snapshotOf is an incremental checkpoint of one operator.
func snapshotOf(id int64, own, shared []file) *metadata.Snapshot {
	op := metadata.Operator{ID: metadata.UIDHash("state"), Parallelism: depotSubtasks, MaxParallelism: 1000, ChainLength: 1}
	for i := range depotSubtasks {
		h := &metadata.Incremental{
			CheckpointID: id, BackendID: metadata.Text(fmt.Sprintf("backend-%d", i)), ID: metadata.Text(fmt.Sprintf("handle-%d-%d", id, i)),
			KeyGroups: metadata.KeyGroupRange{Start: int32(i * 10), Count: 10}, Meta: &metadata.ByteStream{Name: "meta", Data: make([]byte, 16)},
		}
		for j := len(shared) * i / depotSubtasks; j < len(shared)*(i+1)/depotSubtasks; j++ {
			h.Shared = append(h.Shared, local(len(h.Shared), "sst", shared[j]))
		}
		if i == 0 {
			for _, f := range own {
				h.Private = append(h.Private, local(len(h.Private), "log", f))
			}
		}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: &metadata.SubtaskState{ManagedKeyed: h}})
	}
	return &metadata.Snapshot{Version: metadata.Version3, CheckpointID: id, Operators: []metadata.Operator{op}}
}

func local(n int, kind string, f file) metadata.LocalFile {
	return metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("%06d.%s", n, kind)), Stream: &metadata.File{Path: metadata.Text(f.uri)}}
}
