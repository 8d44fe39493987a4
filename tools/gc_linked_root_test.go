package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
)

// TestGCSiblingsOfLinks: what lies beside the place that a root really is counts, too, and so does what lies
// beside the name that an alias gives the same place.
func TestGCSiblingsOfLinks(t *testing.T) {
	base := t.TempDir()
	ck := filepath.ToSlash(filepath.Join(base, "ck"))
	local := storage.NewLocal(storage.LocalOptions{})
	w := &gcWorld{t: t, fsys: local}
	shared := []string{ck + "/" + jobA + "/shared/" + uuid(1), ck + "/" + jobA + "/shared/" + uuid(2)}
	for _, uri := range shared {
		put(t, local, uri, 7)
	}
	w.snapshot(ck+"/"+jobA+"/chk-1", 1, shared[:1], 10)
	w.snapshot(ck+"/"+jobB+"/chk-1", 1, shared[1:], 11)
	for _, dir := range []string{"links", "archive"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "links", jobA)
	if err := os.Symlink(filepath.Join(base, "ck", jobA), link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	plan := func(root string, o GCOptions) *GCPlan {
		t.Helper()
		o.Grace, o.Now = time.Nanosecond, time.Now().Add(time.Hour)
		return w.plan(o, filepath.ToSlash(root))
	}
	alias := func(from, to string) GCOptions {
		return GCOptions{AuditOptions: AuditOptions{Aliases: []Rule{{From: filepath.ToSlash(filepath.Join(base, from)), To: filepath.ToSlash(filepath.Join(base, to))}}}}
	}
	refused := func(what string, p *GCPlan) {
		t.Helper()
		if !strings.Contains(strings.Join(p.Refused, "\n"), "/"+jobB) {
			t.Errorf("%s: %s is not named as a sibling: %q", what, jobB, p.Refused)
		}
	}
	refused("a root that is a link", plan(link, alias("ck", "links")))
	if err := os.Rename(filepath.Join(base, "ck", jobA), filepath.Join(base, "archive", jobA)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(base, "archive", jobA), filepath.Join(base, "ck", jobA)); err != nil {
		t.Fatal(err)
	}
	refused("a root that a link of another place leads to", plan(filepath.Join(base, "archive", jobA), alias("ck", "archive")))
}
