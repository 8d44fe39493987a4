// Package drey_test checks the layout of the source tree: who may import whom.
package drey_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/drey-state/drey/"

// direction says for each package which others of the module it may import.
// Tests may also import the packages in testsToo.
var direction = map[string][]string{
	"internal/javaio":     {},
	"internal/ordered":    {},
	"keygroup":            {},
	"rest":                {},
	"rest/resttest":       {},
	"storage":             {},
	"storage/s3":          {"storage"},
	"storage/storagetest": {"storage"},
	"metadata":            {"keygroup", "internal/javaio"},
	"serializer":          {"keygroup", "internal/javaio"},
	"backend":             {"backend/rocksdb", "keygroup", "metadata", "serializer", "storage", "internal/javaio"},
	"backend/heap":        {"backend", "keygroup", "metadata", "serializer", "storage"},
	"backend/pebble":      {"backend", "incremental", "keygroup", "metadata", "serializer", "storage"},
	"backend/rocksdb":     {"storage"},
	"backend/backendtest": {"backend", "keygroup", "metadata", "serializer", "state", "storage", "storage/storagetest"},
	"state":               {"backend", "backend/heap", "backend/pebble"},
	"incremental":         {"metadata", "storage"},
	"localrecovery":       {"keygroup", "storage"},
	"rewrite":             {"backend", "keygroup", "metadata", "serializer", "storage", "internal/ordered"},
	"tools":               {"backend", "backend/heap", "backend/pebble", "backend/rocksdb", "incremental", "keygroup", "metadata", "rest", "rewrite", "serializer", "storage", "internal/ordered"},
	"tools/drey":          {"backend", "keygroup", "rewrite", "serializer", "metadata", "rest", "storage", "storage/s3", "tools"},
	"runtime":             {"backend", "backend/heap", "backend/pebble", "incremental", "keygroup", "localrecovery", "metadata", "rest", "serializer", "state", "storage"},
	"runtime/wordcount":   {"backend", "incremental", "localrecovery", "runtime", "serializer", "state", "storage", "storage/s3"},
	"fuzz":                {"backend", "backend/rocksdb", "serializer", "internal/javaio", "metadata", "storage"},
	"interop":             {"backend", "backend/rocksdb", "keygroup", "serializer", "metadata", "rest", "rewrite", "runtime", "state", "storage", "storage/s3", "tools"},
	"interop/bench": {
		"backend", "backend/backendtest", "backend/heap", "backend/pebble", "backend/rocksdb", "keygroup", "localrecovery", "metadata",
		"rewrite", "runtime", "serializer", "state", "storage", "storage/s3", "tools",
	},
}

// testsToo are packages that every test may import.
var testsToo = []string{"backend/backendtest", "backend/heap", "backend/pebble", "localrecovery", "rest/resttest", "storage", "storage/s3", "storage/storagetest"}

// confined says which package alone may import modules of a kind, tests aside.
var confined = map[string]string{
	"github.com/aws/":               "storage/s3",
	"github.com/cockroachdb/pebble": "backend/pebble",
}

// sources parses the Go files of the module.
func sources(t *testing.T, visit func(pkg, file string, f *ast.File)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (base[0] == '.' || base == "testdata" || base == "bin" || base == "target") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(filepath.Dir(name)), name, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportDirection(t *testing.T) {
	sources(t, func(pkg, file string, f *ast.File) {
		if pkg == "." {
			return
		}
		allowed, ok := direction[pkg]
		if !ok {
			t.Errorf("%s: package %s is not in the table of this test", file, pkg)
			return
		}
		test := strings.HasSuffix(file, "_test.go")
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, ok := strings.CutPrefix(p, module); ok {
				if ours != pkg && !slices.Contains(allowed, ours) && !(test && slices.Contains(testsToo, ours)) {
					t.Errorf("%s: %s must not import %s", file, pkg, ours)
				}
				continue
			}
			for prefix, owner := range confined {
				if strings.HasPrefix(p, prefix) && pkg != owner && !test {
					t.Errorf("%s: only %s may import %s", file, owner, p)
				}
			}
		}
	})
}

func TestNoInit(t *testing.T) {
	sources(t, func(_, file string, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: an init function; wiring belongs in one place", file)
			}
		}
	})
}

func TestPackages(t *testing.T) {
	seen := map[string]bool{}
	sources(t, func(pkg, file string, f *ast.File) {
		if pkg == "." || seen[pkg] || strings.HasSuffix(file, "_test.go") {
			return
		}
		seen[pkg] = true
		if strings.Count(pkg, "/") > 1 {
			t.Errorf("%s: folders are at most two deep", pkg)
		}
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "types", "pkg"} {
			if path.Base(pkg) == bad {
				t.Errorf("%s: a name that says nothing", pkg)
			}
		}
		if f.Name.Name == "main" {
			return
		}
		if _, err := os.Stat(filepath.Join(filepath.FromSlash(pkg), "doc.go")); err != nil {
			t.Errorf("%s: no doc.go", pkg)
		}
	})
}
