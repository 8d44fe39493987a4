package pebble

import "github.com/cockroachdb/pebble/v2/vfs"

// scratchFS is the file system of a database that nobody opens again after a crash: nothing is forced to disk.
type scratchFS struct{ vfs.FS }

// Create implements [vfs.FS].
func (s scratchFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return scratch(s.FS.Create(name, c))
}

// OpenReadWrite implements [vfs.FS].
func (s scratchFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return scratch(s.FS.OpenReadWrite(name, c, o...))
}

// OpenDir implements [vfs.FS].
func (s scratchFS) OpenDir(name string) (vfs.File, error) { return scratch(s.FS.OpenDir(name)) }

// ReuseForWrite implements [vfs.FS].
func (s scratchFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return scratch(s.FS.ReuseForWrite(old, name, c))
}

func scratch(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return scratchFile{f}, nil
}

type scratchFile struct{ vfs.File }

// Sync implements [vfs.File].
func (scratchFile) Sync() error { return nil }

// SyncData implements [vfs.File].
func (scratchFile) SyncData() error { return nil }

// SyncTo implements [vfs.File].
func (scratchFile) SyncTo(int64) (bool, error) { return false, nil }
