package storage_test

import (
	"testing"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

func TestLocal(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		return storage.NewLocal(storage.LocalOptions{NoSync: true}), "file:" + t.TempDir()
	})
}

func TestMemory(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) { return storage.NewMemory(), "s3a://bucket/some/place" })
}

// TestWrapped runs the suite over everything that passes calls on.
func TestWrapped(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		local := storage.NewLocal(storage.LocalOptions{NoSync: true})
		return storage.Mux{"file": storagetest.NewFaulty(local, storagetest.FaultOptions{ShortReads: true})}, t.TempDir()
	})
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		return storagetest.Shuffled(storage.NewMemory(), 1), "mem://x/y"
	})
}
