package tools

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/storage"
)

// heldFiles keeps the files that no snapshot uses, in about 70 bytes each.
type heldFiles struct {
	list  []heldFile
	names []byte
	dirs  []string // in the spelling of the listing
	byDir map[string]uint32
	last  uint32 // of dirs
}

type heldFile struct {
	offset uint64 // of the name
	size   int64
	// time is the modification time in nanoseconds since 1970; the zero time is unknown.
	time   int64
	dir    uint32
	length uint16
	verdict
}

// verdict is what a file is found to be.
type verdict struct {
	status FileStatus
	cause  causeCode
}

func newHeldFiles() *heldFiles { return &heldFiles{byDir: map[string]uint32{}} }

// add keeps a file. It gives its directory if that was not known before, else "".
func (h *heldFiles) add(f storage.Info) (newDir string) {
	slash := strings.LastIndexByte(f.URI, '/')
	dir, name := f.URI[:max(slash, 0)], f.URI[slash+1:]
	if len(h.dirs) == 0 || h.dirs[h.last] != dir {
		id, ok := h.byDir[dir]
		if !ok {
			newDir = strings.Clone(dir)
			id = uint32(len(h.dirs))
			h.dirs = append(h.dirs, newDir)
			h.byDir[newDir] = id
		}
		h.last = id
	}
	file := heldFile{offset: uint64(len(h.names)), size: f.Size, dir: h.last, length: uint16(len(name))}
	if !f.ModTime.IsZero() {
		file.time = f.ModTime.UnixNano()
	}
	h.names = append(h.names, name...)
	h.list = append(h.list, file)
	return newDir
}

func (h *heldFiles) name(f *heldFile) []byte {
	return h.names[f.offset : f.offset+uint64(f.length)]
}

func (h *heldFiles) uri(f *heldFile) string { return h.dirs[f.dir] + "/" + string(h.name(f)) }

// modTime of a file; the zero time if the store does not tell.
func (f *heldFile) modTime() time.Time {
	if f.time == 0 {
		return time.Time{}
	}
	return time.Unix(0, f.time).UTC()
}

// sort brings the files into the order of their URIs, each once.
func (h *heldFiles) sort() {
	order := make([]int, len(h.dirs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(h.dirs[a], h.dirs[b]) })
	rank := make([]uint32, len(order))
	for r, i := range order {
		rank[i] = uint32(r)
	}
	compare := func(a, b *heldFile) int {
		if a.dir != b.dir {
			return cmp.Compare(rank[a.dir], rank[b.dir])
		}
		return bytes.Compare(h.name(a), h.name(b))
	}
	slices.SortFunc(h.list, func(a, b heldFile) int { return compare(&a, &b) })
	h.list = slices.CompactFunc(h.list, func(a, b heldFile) bool { return compare(&a, &b) == 0 })
	clear(h.byDir)
}
