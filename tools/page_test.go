package tools

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// oddScript is a name that would be a program, if a page took it for one.
const oddScript = `ck <script>alert(1)</script> "'><img src=x onerror=alert(2)> {{.}} &amp; ` + "\u202e\u0007"

// pageDepot makes a storage with a job of some retained checkpoints that share files, another job
// that uses files of the first, a savepoint, what is missing, and litter.
func pageDepot(t testing.TB, checkpoints, litter int) *AuditReport {
	t.Helper()
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://a-bucket-with-a-long-name", times: map[string]time.Time{}}
	job := oddScript + "/" + ownerA
	step := 10 * time.Minute
	n := 0
	state := func(dir string, size int, ago time.Duration) metadata.Stream {
		n++
		return file(t, d.put(fmt.Sprintf("%s/%08x-0000-4000-8000-%012x", dir, n, n), size, ago), size)
	}
	var live []metadata.Stream
	for i := range checkpoints {
		ago := 3*day + time.Duration(checkpoints-i)*step
		for k := range 3 {
			live = append(live, state(job+"/shared", 2000+(i*37+k*911)%5000, ago))
		}
		if i%12 == 11 {
			// A compaction leaves one file of many.
			live = append([]metadata.Stream(nil), state(job+"/shared", 30000+i%7*4000, ago))
		}
		own := []metadata.Stream{state(fmt.Sprintf("%s/chk-%d", job, 100+i), 700, ago)}
		d.keyed(fmt.Sprintf("%s/chk-%d", job, 100+i), ago, incrementalHandle(inline("m", 1), live, own))
	}
	for i := range litter {
		state(job+"/shared", 100+i*13%9000, 40*day+time.Duration(i)*time.Hour)
	}
	other := "ck/" + ownerB
	lost := file(t, storage.Join(d.base, other, "shared", "99999999-0000-4000-8000-000000000001"), 4321)
	d.keyed(other+"/chk-7", 2*day, incrementalHandle(inline("m", 1), append(slices.Clone(live[:1]), state(other+"/shared", 5000, 2*day), lost), nil))
	d.keyed("sp/savepoint-0a0b0c-0123456789ab", 9*day, incrementalHandle(inline("m", 1), []metadata.Stream{state("sp/savepoint-0a0b0c-0123456789ab", 60000, 9*day)}, nil))
	d.put("sp/savepoint-0a0b0d-0123456789ab/"+MetadataName, 10, 9*day)
	state(fmt.Sprintf("%s/chk-%d", job, 100+checkpoints), 900, time.Minute)
	d.put("ck/notes.txt", 120, day)
	return d.audit(AuditOptions{})
}

func pageOf(t testing.TB, r *AuditReport) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WritePage(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPageNames(t *testing.T) {
	page := string(pageOf(t, pageDepot(t, 3, 5)))
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if strings.Contains(page, "<img") || strings.ContainsAny(page, "\u202e\u0007") {
		t.Error("a name got into the page as it is")
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the name is not shown")
	}
	// Nothing in it is of another place; see also TestPageInBrowser.
	for _, no := range []string{"http:", "https:", "url(", "@import", "<iframe", "<object"} {
		if strings.Contains(page, no) {
			t.Errorf("there is a %q", no)
		}
	}
	for _, want := range []string{"Metadata that can&#39;t be read", "savepoint-0a0b0d-0123456789ab", "1 missing", "Who uses whose files", "chk-102"} {
		if !strings.Contains(page, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// TestPageBounds has more of everything than the page shows.
func TestPageBounds(t *testing.T) {
	small, large := pageDepot(t, 450, 1000), pageDepot(t, 450, 6000)
	a, b := pageOf(t, small), pageOf(t, large)
	if len(b) > len(a)+len(a)/50 {
		t.Errorf("%d bytes with %d files that nobody uses, %d with %d", len(a), small.Totals.Unreferenced.Files, len(b), large.Totals.Unreferenced.Files)
	}
	if len(b) > 2<<20 {
		t.Errorf("%d bytes", len(b))
	}
	for _, want := range []string{fmt.Sprintf("The 200 largest of %d: ", large.Totals.Unreferenced.Files), "the newest 400 of 450"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("it does not say %q", want)
		}
	}
	// What is shown are the largest.
	if top := large.LargestFiles(FileUnreferenced, 1); len(top) != 1 || !bytes.Contains(b, fmt.Appendf(nil, `data-sort="%d"`, top[0].Size)) {
		t.Errorf("the largest file is not shown: %v", top)
	}
}

func TestPageEmpty(t *testing.T) {
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://b", times: map[string]time.Time{}}
	d.put("x/y", 0, day)
	page := pageOf(t, d.audit(AuditOptions{}))
	if !bytes.Contains(page, []byte("</html>")) || bytes.Contains(page, []byte("Retained checkpoints")) {
		t.Errorf("%s", page)
	}
}

func TestPageSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB", 1 << 62: "4.0 EiB"} {
		if got := pageSize(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
