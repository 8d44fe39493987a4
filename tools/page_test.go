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

const ownerC = "c0ffee00c0ffee00c0ffee00c0ffee00"

// pageTree says what a storage for a page holds.
type pageTree struct {
	checkpoints []int // of each of up to three jobs
	litter      int
}

// of 3 checkpoints, and of 300 of several jobs.
func pageTreeOf(checkpoints int) pageTree {
	if checkpoints < 100 {
		return pageTree{[]int{checkpoints}, 400}
	}
	return pageTree{[]int{checkpoints * 2 / 3, checkpoints / 4, checkpoints - checkpoints*2/3 - checkpoints/4}, 400}
}

// pageDepot makes a storage with jobs whose retained checkpoints share files, now more and now less, and of which each began
// with a claim of what the one before had, a savepoint, what is missing, and litter of many causes.
func pageDepot(t testing.TB, tree pageTree) *AuditReport {
	t.Helper()
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://a-bucket-with-a-long-name", times: map[string]time.Time{}}
	jobs := []string{oddScript + "/" + ownerA, strings.Repeat("very-long-", 30) + "/" + ownerB, "ck/" + ownerC}
	step := 10 * time.Minute
	n := 0
	state := func(dir string, size int, ago time.Duration) metadata.Stream {
		n++
		return file(t, d.put(fmt.Sprintf("%s/%08x-0000-4000-8000-%012x", dir, n, n), size, ago), size)
	}
	all := 0
	for _, c := range tree.checkpoints {
		all += c
	}
	var live []metadata.Stream
	i := 0
	for j, checkpoints := range tree.checkpoints {
		for range checkpoints {
			ago := 3*day + time.Duration(all-i)*step
			for k := range 1 + i%4 {
				live = append(live, state(jobs[j]+"/shared", 2000+(i*37+k*911)%5000, ago))
			}
			if i%12 == 11 {
				// A compaction leaves one file of many.
				live = append(slices.Clone(live[len(live)-i%3:]), state(jobs[j]+"/shared", 30000+i%7*4000, ago))
			}
			own := []metadata.Stream{state(fmt.Sprintf("%s/chk-%d", jobs[j], 95+i), 700, ago)}
			d.keyed(fmt.Sprintf("%s/chk-%d", jobs[j], 95+i), ago, incrementalHandle(inline("m", 1), live, own))
			i++
		}
	}
	for i := range tree.litter {
		state(jobs[0]+"/shared", 100+i*13%9000, 40*day+time.Duration(i)*time.Hour)
	}
	last := len(tree.checkpoints) - 1
	state(fmt.Sprintf("%s/chk-%d", jobs[last], 95+i), 900, time.Minute)
	state(jobs[0]+"/chk-3", 800, 50*day)
	other := "ck/dddddddddddddddddddddddddddddddd"
	lost := file(t, storage.Join(d.base, other, "shared", "99999999-0000-4000-8000-000000000001"), 4321)
	short := file(t, d.put(other+"/shared/99999999-0000-4000-8000-000000000002", 40, 2*day), 5000)
	d.keyed(other+"/chk-7", 2*day, incrementalHandle(inline("m", 1), append(slices.Clone(live[:1]), short, lost), nil))
	d.keyed("sp/savepoint-0a0b0c-0123456789ab", 9*day, incrementalHandle(inline("m", 1), []metadata.Stream{state("sp/savepoint-0a0b0c-0123456789ab", 60000, 9*day)}, nil))
	d.put("sp/savepoint-0a0b0d-0123456789ab/"+MetadataName, 10, 9*day)
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
	page := string(pageOf(t, pageDepot(t, pageTreeOf(3))))
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
	for _, want := range []string{"Metadata that can&#39;t be read", "savepoint-0a0b0d-0123456789ab", "1 missing, 1 of the wrong size", "Who uses whose files", "chk-97"} {
		if !strings.Contains(page, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// TestPageBounds has more of everything than the page shows.
func TestPageBounds(t *testing.T) {
	small, large := pageDepot(t, pageTree{[]int{450}, 1000}), pageDepot(t, pageTree{[]int{450}, 6000})
	a, b := pageOf(t, small), pageOf(t, large)
	if len(b) > len(a)+len(a)/50 {
		t.Errorf("%d bytes with %d files that nobody uses, %d with %d", len(a), small.Totals.Unreferenced.Files, len(b), large.Totals.Unreferenced.Files)
	}
	if len(b) > 1<<20 {
		t.Errorf("%d bytes", len(b))
	}
	for _, want := range []string{"Of each cause the 50 largest; for 5,9", "the newest 400 of 450"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// TestPageMillion has 200 snapshots, and a million files that nobody uses.
func TestPageMillion(t *testing.T) {
	n := 1_000_000
	if raceEnabled {
		n /= 20
	}
	r := pageDepot(t, pageTree{[]int{120, 60, 20}, 0})
	held := r.audit.held
	for i := range n {
		held.add(storage.Info{URI: fmt.Sprintf("s3://a-bucket-with-a-long-name/ck/%s/shared/%08x-0000-4000-8001-%012x", ownerC, i, i), Size: int64(i), ModTime: auditNow.Add(-40 * day)})
		held.list[len(held.list)-1].verdict = verdict{FileUnreferenced, causeBefore}
	}
	var page bytes.Buffer
	peak := heapPeak(func() {
		if err := WritePage(&page, r); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d bytes, %d on the heap", page.Len(), peak)
	if page.Len() > 640<<10 || peak > 64<<20 && !raceEnabled {
		t.Errorf("%d files: a page of %d bytes, made with %d bytes on the heap", n, page.Len(), peak)
	}
	if want := fmt.Sprintf("for %s files more", grouped(int64(n-mostPageFiles))); !bytes.Contains(page.Bytes(), []byte(want)) {
		t.Errorf("it does not say %q", want)
	}
}

// TestPageManyJobs has more jobs and snapshots than the page shows.
func TestPageManyJobs(t *testing.T) {
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://b", times: map[string]time.Time{}}
	for i := range 1100 {
		job := fmt.Sprintf("ck/%032x", i)
		d.snapshot(job+"/chk-1", day, d.state(job+"/shared", 1, day)...)
	}
	b := pageOf(t, d.audit(AuditOptions{}))
	if len(b) > 4<<20 {
		t.Errorf("%d bytes", len(b))
	}
	for _, want := range []string{"The 60 largest of 1,100 jobs with", "The 1,000 largest of 1,100 snapshots; for 100 more see --json", "The 1,000 largest of 2,200 jobs and kinds"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("it does not say %q", want)
		}
	}
}

func TestPageEmpty(t *testing.T) {
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://b", times: map[string]time.Time{}}
	d.put("x/y", 0, day)
	page := pageOf(t, d.audit(AuditOptions{}))
	for _, want := range []string{
		"</html>", "No metadata of a snapshot that can be read", "No snapshot uses files of another", "Every file that a snapshot names is there",
		"No file is unreferenced.", "No job below the roots has a completed checkpoint.", "Nothing: every snapshot is complete", "Every directory of a checkpoint or savepoint has metadata",
	} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("it does not say %q", want)
		}
	}
}

func TestPageSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB", 1 << 62: "4.0 EiB"} {
		if got := pageSize(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestPagePaths(t *testing.T) {
	const job = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	long := strings.Repeat("a-name-", 20)
	for _, c := range []struct{ root, uri, dir, text string }{
		{"s3://b/ck", "s3://b/ck/" + job + "/chk-7", "0f1e2d3c…/", "chk-7"},
		{"s3://b/ck", "s3://b/ck/" + job, "", job},
		{"s3://b/ck", "s3://b/ck", "s3://b/", "ck"},
		{"s3://b/ck", "s3://other/x", "s3://other/", "x"},
		{"", "s3://b/ck/x", "s3://b/ck/", "x"},
		{"s3://b", "s3://b/" + long + "/" + long, "a-name-a-name-a-n…-name-/", long[:47] + "…" + long[len(long)-16:]},
		{"s3://b", "s3://b/one/two-two-two/three-three-three/four-four-four/five-five/x", "one/…/four-four-four/five-five/", "x"},
	} {
		p := &page{root: c.root}
		if got := p.path(c.uri); got.Dir != c.dir || got.Text != c.text || got.Full != c.uri && c.dir+c.text != c.uri {
			t.Errorf("%s: %+v", c.uri, got)
		}
	}
	for _, c := range []struct {
		roots []string
		want  string
	}{
		{[]string{"s3://b/ck"}, "s3://b/ck"},
		{[]string{"s3://b/flink/ck", "s3://b/flink/sp"}, "s3://b/flink"},
		{[]string{"s3://b/flink/ck", "s3://c/flink/ck"}, ""},
		{nil, ""},
	} {
		if got := commonRoot(c.roots); got != c.want {
			t.Errorf("%q: %q", c.roots, got)
		}
	}
}
