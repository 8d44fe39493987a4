package backend

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

func TestTarget(t *testing.T) {
	for _, test := range []struct {
		name   string
		size   int
		target Target
		inline bool
	}{
		{"nothing", 0, Target{}, true},
		{"as large as is put inline", DefaultInlineBelow, Target{}, true},
		{"a byte larger", DefaultInlineBelow + 1, Target{}, false},
		{"absolute", DefaultInlineBelow + 1, Target{Absolute: true}, false},
		{"never inline", 1, Target{InlineBelow: -1}, false},
		{"inline up to ten bytes", 10, Target{InlineBelow: 10}, true},
		{"more than ten bytes", 11, Target{InlineBelow: 10}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory := storage.NewMemory()
			test.target.FS, test.target.Dir = memory, "mem://b/chk-1"
			s := test.target.Create(t.Context())
			defer s.Abort()
			want := bytes.Repeat([]byte{'x'}, test.size)
			for part := want; len(part) > 0; { // in pieces that don't end at the limit
				n := min(len(part), 7)
				if _, err := s.Write(part[:n]); err != nil {
					t.Fatal(err)
				}
				part = part[n:]
			}
			handle, err := s.Commit()
			if err != nil {
				t.Fatal(err)
			}
			switch h := handle.(type) {
			case *metadata.ByteStream:
				if !test.inline {
					t.Error("inline")
				}
			case *metadata.RelativeFile:
				if test.inline || test.target.Absolute || strings.Contains(h.Path.String(), "/") {
					t.Errorf("relative path %s", h.Path)
				}
			case *metadata.File:
				if test.inline || !test.target.Absolute || !strings.HasPrefix(h.Path.String(), test.target.Dir+"/") {
					t.Errorf("absolute path %s", h.Path)
				}
			}
			o, err := (Files{FS: memory, Dir: test.target.Dir}).Open(t.Context(), handle)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			got := make([]byte, o.Size())
			if _, err := o.ReadAt(got, 0); len(got) > 0 && err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) || s.Size() != int64(len(want)) {
				t.Errorf("%d bytes, size %d; %d were written", len(got), s.Size(), len(want))
			}
		})
	}
}

// A stream that failed or was given up leaves nothing behind, and gives no handle.
func TestTargetFaults(t *testing.T) {
	broken := errors.New("broken")
	for n := 1; ; n++ {
		memory := storage.NewMemory()
		faulty := storagetest.NewFaulty(memory, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
			if s.N == n {
				return &storagetest.Fault{Err: broken}
			}
			return nil
		}})
		s := Target{FS: faulty, Dir: "mem://b/chk-1", InlineBelow: -1}.Create(t.Context())
		var err error
		for range 3 {
			if _, err = s.Write([]byte("state")); err != nil {
				break
			}
		}
		handle, commit := s.Commit()
		s.Abort()
		if faulty.Steps() < n {
			if n == 1 {
				t.Fatal("nothing was called")
			}
			return
		}
		if !errors.Is(commit, broken) || err != nil && !errors.Is(err, broken) || handle != nil {
			t.Fatalf("fault %d: write: %v; commit: %v, %v", n, err, handle, commit)
		}
		for info, err := range memory.List(t.Context(), "mem://b/chk-1") {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("fault %d left %s: %v", n, info.URI, err)
			}
		}
	}
}

func TestTargetAbort(t *testing.T) {
	memory := storage.NewMemory()
	s := Target{FS: memory, Dir: "mem://b/chk-1", InlineBelow: -1}.Create(t.Context())
	if _, err := s.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	s.Abort()
	if _, err := s.Write([]byte("state")); err == nil {
		t.Error("written after Abort")
	}
	if h, err := s.Commit(); err == nil {
		t.Errorf("committed after Abort: %v", h)
	}
}
