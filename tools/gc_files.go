package tools

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

const (
	reasonMetadata = "metadata of a dropped snapshot"
	reasonDropped  = "used only by snapshots that are dropped"
)

// droppedFiles are the files of dropped snapshots, in about 80 bytes each: metadata first.
type droppedFiles struct {
	metadata []GCEntry
	held     *heldFiles
	of       []uint32 // by file of held: index in lists
	lists    [][]int
	byList   map[string]uint32
}

func newDroppedFiles() *droppedFiles {
	return &droppedFiles{held: newHeldFiles(), byList: map[string]uint32{}}
}

func (d *droppedFiles) add(f storage.Info, of []int) {
	var key []byte
	for _, i := range of {
		key = binary.AppendUvarint(key, uint64(i))
	}
	n, ok := d.byList[string(key)]
	if !ok {
		n = uint32(len(d.lists))
		d.lists = append(d.lists, slices.Clone(of))
		d.byList[string(key)] = n
	}
	d.held.add(f)
	d.of = append(d.of, n)
}

func (d *droppedFiles) each(yield func(GCEntry) bool) bool {
	for _, e := range d.metadata {
		if !yield(e) {
			return false
		}
	}
	for i := range d.held.list {
		f := &d.held.list[i]
		if !yield(GCEntry{Path: d.held.uri(f), Size: f.size, ModTime: f.modTime(), Reason: reasonDropped, Of: d.lists[d.of[i]]}) {
			return false
		}
	}
	return true
}

// takeDropped takes up what only dropped snapshots use.
func (g *gc) takeDropped(ctx context.Context) error {
	byDir := map[incremental.DirID][]incremental.FileID{}
	seen := make([]bool, g.registry.Limit())
	for i := range g.plan.Drop {
		d := &g.plan.Drop[i]
		g.files.metadata = append(g.files.metadata, GCEntry{Path: d.Snapshot, Size: d.Size, ModTime: d.ModTime, Reason: reasonMetadata + ": " + d.Reason})
		g.willEmpty(d.Snapshot, storage.Dir(d.key))
		for id := range g.registry.Files(d.id) {
			if f := g.registry.File(id); !seen[id] && !f.Metadata && !f.Directory {
				byDir[g.registry.Dir(id)] = append(byDir[g.registry.Dir(id)], id)
			}
			seen[id] = true
		}
	}
	var mu sync.Mutex
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(g.jobs)
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		var wanted []doomed
		mu.Lock()
		for _, id := range byDir[dir] {
			if d, ok := g.doom(id); ok {
				wanted = append(wanted, d)
			}
		}
		mu.Unlock()
		if len(wanted) == 0 {
			continue
		}
		eg.Go(func() error {
			infos, err := infosOf(ctx, g.fsys, wanted)
			if err != nil {
				return err
			}
			for i := range wanted {
				d := &wanted[i]
				if d.same, err = sameFile(ctx, g.fsys, infos[d.uri], d.namesakes); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, d := range wanted {
				g.takeDoomed(infos[d.uri], d)
			}
			return nil
		})
	}
	return eg.Wait()
}

const keptElsewhere = "used only by dropped snapshots, but not below the roots"

// doomed is a file that only dropped snapshots use.
type doomed struct {
	uri string
	of  []int
	dir string // of its area
	// namesakes are files of its name that snapshots use that stay; same is one of them that may be this file.
	namesakes []string
	same      string
}

// doom says whether a file of a dropped snapshot goes with it.
func (g *gc) doom(id incremental.FileID) (doomed, bool) {
	var of []int
	for _, user := range g.registry.Users(id) {
		i, ok := g.dropped[user]
		if !ok {
			return doomed{}, false
		}
		of = append(of, i)
	}
	size, found := g.report.Found(id)
	if !found && !g.disposal {
		return doomed{}, false
	}
	slices.Sort(of)
	file := g.registry.File(id)
	key := file.URI
	if !found {
		size = max(file.Need, 0)
	}
	uri, ok := g.spell(key)
	p := g.layouts.of(storage.Dir(key))
	stays := ""
	switch {
	case !ok:
		stays = keptElsewhere
	case !g.mayDelete(key):
		stays = "used only by dropped snapshots, but below a directory that is only in scope for its snapshots"
	case len(g.only) > 0 && !within(g.only, key):
		stays = "not in the directories to which deletion is restricted"
	case within(g.pins, key):
		stays = "pinned"
	case p.taskOwned && !g.o.TaskOwned:
		stays = keptTaskOwned
	case g.linked.has(key):
		stays = "undecided: " + CauseLink
	}
	if stays != "" {
		g.stay(stays, size)
		return doomed{}, false
	}
	return doomed{uri: uri, of: of, dir: p.dir, namesakes: g.namesakes(id)}, true
}

// namesakes gives the other files of a file's name that snapshots use that stay.
func (g *gc) namesakes(id incremental.FileID) []string {
	var uris []string
	for _, other := range g.registry.Named(storage.Base(g.registry.File(id).URI)) {
		stays := func(user incremental.SnapshotID) bool { _, goes := g.dropped[user]; return !goes }
		if other != id && slices.ContainsFunc(g.registry.Users(other), stays) {
			uris = append(uris, g.registry.File(other).URI)
		}
	}
	return uris
}

// sameFile gives one of the others that may be the same file under another name, "" if all are copies: they are there, and of
// another size or time.
func sameFile(ctx context.Context, fsys storage.FS, f storage.Info, others []string) (string, error) {
	for _, other := range others {
		info, err := fsys.Stat(ctx, other)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if f.URI != "" && (err != nil || info.Size == f.Size && sameTime(info.ModTime, f.ModTime)) {
			return other, nil
		}
	}
	return "", nil
}

func (g *gc) takeDoomed(info storage.Info, d doomed) {
	switch {
	case info.URI == "":
	case d.same != "":
		g.stay("may be the same file as one that a snapshot uses at another place", info.Size)
	case g.disposal:
		g.files.add(info, d.of)
	case info.ModTime.IsZero():
		g.stay("undecided: "+CauseNoTime, info.Size)
	case info.ModTime.After(g.now.Add(skew)):
		g.stay("undecided: "+CauseFuture, info.Size)
	default:
		g.files.add(info, d.of)
		g.willEmpty(d.uri, d.dir)
	}
}

// infosOf looks at files of one directory; those that are not there are left out.
func infosOf(ctx context.Context, fsys storage.FS, list []doomed) (map[string]storage.Info, error) {
	infos := make(map[string]storage.Info, len(list))
	if len(list) >= listFrom {
		byName := make(map[string]string, len(list))
		for _, d := range list {
			byName[storage.Base(d.uri)] = d.uri
		}
		for info, err := range fsys.ReadDir(ctx, storage.Dir(list[0].uri)) {
			if err != nil {
				return infos, err
			}
			if uri, ok := byName[storage.Base(info.URI)]; ok && !info.Dir {
				info.URI = uri
				infos[uri] = info
			}
		}
		return infos, nil
	}
	for _, d := range list {
		info, err := fsys.Stat(ctx, d.uri)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return infos, err
		case !info.Dir:
			info.URI = d.uri
			infos[d.uri] = info
		}
	}
	return infos, nil
}

// willEmpty notes the directories of a file that is to be deleted, up to that of its area.
func (g *gc) willEmpty(uri, dir string) {
	if !g.o.EmptyDirs {
		return
	}
	for at := storage.Dir(uri); ; at = storage.Dir(at) {
		key := g.registry.Key(at)
		if !within([]string{dir}, key) || !g.removable(key) {
			return
		}
		g.dirs[at] = true
	}
}

// removable says that a directory may go when it is empty: nobody is about to write into it.
func (g *gc) removable(key string) bool {
	p := g.layouts.of(key)
	if g.retired[p.job] && p.job != "" {
		return true
	}
	switch p.area {
	case AreaCheckpoint:
		j := g.book.find(p)
		return j != nil && p.checkpoint <= j.Newest
	case AreaSavepoint:
		_, known := g.since(p)
		return known
	case AreaWorking:
		return g.ended(p)
	}
	return false
}

// chooseDirs orders the directories to remove.
func (g *gc) chooseDirs() {
	if !g.o.EmptyDirs {
		return
	}
	add := func(dir string) {
		key := g.registry.Key(dir)
		if g.mayDelete(key) && !within(g.pins, key) && (len(g.only) == 0 || within(g.only, key)) && g.removable(key) {
			g.dirs[dir] = true
		}
	}
	for _, dir := range g.report.EmptyDirs {
		add(dir)
	}
	for f := range g.report.Files() {
		if f.Cause == CauseMarker && strings.HasSuffix(f.URI, "/") {
			add(strings.TrimSuffix(f.URI, "/"))
		}
	}
	for dir := range g.retired {
		if uri, ok := g.spell(dir); ok {
			for _, name := range []string{"shared", "taskowned"} {
				add(storage.Join(uri, name))
			}
			g.dirs[uri] = true
		}
	}
	for dir := range g.dirs {
		g.plan.Directories = append(g.plan.Directories, dir)
	}
	deepestFirst(g.plan.Directories)
}

// deepestFirst orders directories so that each comes before the one that holds it.
func deepestFirst(dirs []string) {
	slices.SortFunc(dirs, func(a, b string) int {
		if n := strings.Count(b, "/") - strings.Count(a, "/"); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
}
