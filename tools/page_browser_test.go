package tools

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser starts a headless browser, or skips the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal("no browser: install chromium")
		}
		t.Skip("needs a browser: install chromium")
	}
	profile, err := os.MkdirTemp("", "drey-browser-")
	if err != nil {
		t.Fatal(err)
	}
	// The browser may still write to it for a moment after it was told to end, which is no failure.
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("%s does not start: %v", program, err)
	}
	return ctx
}

// visit is what a browser told while it had a page.
type visit struct {
	mu       sync.Mutex
	requests []string
	messages []string
}

// watch listens to everything that a page should not do.
func watch(ctx context.Context) *visit {
	v := &visit{}
	note := func(list *[]string, text string) {
		v.mu.Lock()
		defer v.mu.Unlock()
		*list = append(*list, text)
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			note(&v.requests, e.Request.URL)
		case *runtime.EventConsoleAPICalled:
			note(&v.messages, fmt.Sprintf("console %s: %v", e.Type, e.Args))
		case *runtime.EventExceptionThrown:
			note(&v.messages, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			note(&v.messages, e.Entry.Text)
		case *cdppage.EventJavascriptDialogOpening:
			note(&v.messages, "a dialog: "+e.Message)
		}
	})
	return v
}

// outside lists what reaches over an edge of the window, or has more content than it shows; of what is in a box that
// scrolls, that counts only if the window is wide.
const outside = `(function () {
	var list = Array.from(document.querySelectorAll("body *")).filter(function (e) {
		var r = e.getBoundingClientRect();
		var box = e.parentElement.closest(".box"), narrow = window.innerWidth < 860;
		if (r.width === 0 || box && narrow || narrow && e.matches(".box")) { return narrow && e.matches(".box") && r.right > window.innerWidth + 0.5; }
		return r.right > window.innerWidth + 0.5 || r.left < -0.5 || (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline");
	}).map(function (e) { return e.tagName + " " + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 60); });
	if (document.documentElement.scrollWidth > window.innerWidth) { list.push("the page scrolls to " + document.documentElement.scrollWidth); }
	return list;
})()`

// faint lists texts with less contrast than 4.5 to 1 (WCAG AA) to what is behind them.
const faint = `(function () {
	function numbers(c) { return c.match(/[\d.]+/g).map(Number); }
	function light(c) {
		var v = numbers(c).slice(0, 3).map(function (x) { x /= 255; return x <= 0.03928 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4); });
		return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
	}
	function behind(e) {
		for (; e; e = e.parentElement) {
			var c = getComputedStyle(e).backgroundColor, n = numbers(c);
			if (n.length < 4 || n[3] > 0) { return c; }
		}
		return "rgb(255, 255, 255)";
	}
	return Array.from(document.querySelectorAll("h1, h2, small, p, a, li, td, th button, code, summary, .full, .tile span, figcaption span, .ticks span, .labels span, .dir, .more")).filter(function (e) {
		var a = light(getComputedStyle(e).color), b = light(behind(e));
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
	}).map(function (e) { return e.tagName + " " + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 40); });
})()`

// contents gives what each table holds: its columns, and of each row what it is sorted by.
const contents = `(function () {
	var all = {};
	document.querySelectorAll("section table").forEach(function (t) {
		all[t.closest("section").id] = {
			columns: Array.from(t.tHead.rows[0].cells).map(function (c) { return c.textContent; }),
			numeric: Array.from(t.tHead.rows[0].cells).map(function (c) { return getComputedStyle(c).textAlign === "right"; }),
			rows: Array.from(t.tBodies[0].rows).map(function (r) {
				return Array.from(r.cells).map(function (c) {
					var full = c.querySelector(".full");
					return c.dataset.sort !== undefined ? c.dataset.sort : full ? full.textContent : c.textContent;
				});
			})
		};
	});
	return all;
})()`

// pageContent is what contents gives of a table.
type pageContent struct {
	Columns []string
	Numeric []bool
	Rows    [][]string
}

func (c pageContent) column(i int) (list []string) {
	for _, r := range c.Rows {
		list = append(list, r[i])
	}
	return list
}

// sortAll clicks each header of each table twice, and gives what the table then says of itself and holds in that column.
const sortAll = `(function () {
	var all = {}, compare = new Intl.Collator("en", {numeric: true}).compare;
	document.querySelectorAll("section table").forEach(function (t) {
		var heads = Array.from(t.tHead.rows[0].cells);
		all[t.closest("section").id] = heads.map(function (h, i) {
			return [0, 1].map(function () {
				h.querySelector("button").click();
				var keys = Array.from(t.tBodies[0].rows).map(function (r) {
					var c = r.cells[i], full = c.querySelector(".full");
					return c.dataset.sort !== undefined ? c.dataset.sort : full ? full.textContent : c.textContent;
				});
				return {
					sorted: heads.map(function (x) { return x.getAttribute("aria-sort") || ""; }),
					keys: keys,
					natural: keys.every(function (k, j) { return j === 0 || compare(keys[j-1], k) <= 0; }),
					reverse: keys.every(function (k, j) { return j === 0 || compare(keys[j-1], k) >= 0; })
				};
			});
		});
	});
	return all;
})()`

type pageSorted struct {
	Sorted           []string
	Keys             []string
	Natural, Reverse bool
}

// look is a page in a browser.
type look struct {
	*testing.T
	ctx context.Context
}

func (l look) do(actions ...chromedp.Action) {
	l.Helper()
	if err := chromedp.Run(l.ctx, actions...); err != nil {
		l.Fatal(err)
	}
}

// TestPageInBrowser opens the page with few and with many checkpoints, wide and narrow, light and dark. With
// -artifacts it leaves pictures.
func TestPageInBrowser(t *testing.T) {
	start := browser(t)
	for _, checkpoints := range []int{3, 300} {
		report := pageDepot(t, pageTreeOf(checkpoints))
		data := pageOf(t, report)
		if len(data) > 640<<10 {
			t.Errorf("%d checkpoints: %d bytes", checkpoints, len(data))
		}
		name := filepath.Join(t.ArtifactDir(), fmt.Sprintf("audit-%d.html", checkpoints))
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%d/%d/%s", checkpoints, width, scheme), func(t *testing.T) {
					ctx, cancel := chromedp.NewContext(start)
					defer cancel()
					lookAt(look{t, ctx}, name, width, scheme, report)
				})
			}
		}
	}
}

func lookAt(l look, name string, width int64, scheme string, report *AuditReport) {
	v := watch(l.ctx)
	var pale []string
	var picture []byte
	var title string
	var scripts, timelines int
	l.do(network.Enable(), log.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(width, 900),
		chromedp.Navigate("file://"+name),
		chromedp.Title(&title),
		chromedp.Evaluate(`document.scripts.length`, &scripts),
		chromedp.Evaluate(`document.querySelectorAll(".timeline").length`, &timelines),
		chromedp.FullScreenshot(&picture, 100),
		chromedp.Evaluate(faint, &pale),
	)
	shot := fmt.Sprintf("%s-%d-%s.png", strings.TrimSuffix(name, ".html"), width, scheme)
	if err := os.WriteFile(shot, picture, 0o666); err != nil {
		l.Fatal(err)
	}
	want := 0
	for i := range report.Jobs {
		want += min(1, report.Jobs[i].Checkpoints)
	}
	if title != "Audit of Flink's storage" || scripts != 1 || timelines != want {
		l.Errorf("%q with %d scripts and %d timelines", title, scripts, timelines)
	}
	if len(pale) > 0 {
		l.Errorf("%s: %d texts can hardly be read: %q", scheme, len(pale), pale[:min(len(pale), 10)])
	}
	l.fits(width)
	if scheme == "light" {
		before := map[string]pageContent{}
		l.do(chromedp.Evaluate(contents, &before))
		sameFigures(l, before, report)
		l.shown(len(before["snapshots"].Rows))
		l.hands()
		if width > 860 {
			l.sorts(before)
		}
	}
	// Everything in full.
	l.do(chromedp.Evaluate(`document.querySelectorAll("details").forEach(function (d) { d.open = true; })`, nil))
	l.fits(width)

	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.messages) > 0 {
		l.Errorf("the browser says %q", v.messages)
	}
	for _, r := range v.requests {
		if r != "file://"+name && r != "data:," {
			l.Errorf("the page asks for %s", r)
		}
	}
}

func (l look) fits(width int64) {
	l.Helper()
	var wide []string
	l.do(chromedp.Evaluate(outside, &wide))
	if len(wide) > 0 {
		l.Errorf("at a width of %d: %d elements overflow: %q", width, len(wide), wide[:min(len(wide), 10)])
	}
}

// shown looks at how many rows of the snapshots show, and shows all.
func (l look) shown(rows int) {
	l.Helper()
	const visible = `Array.from(document.querySelectorAll("#snapshots tbody tr")).filter(function (r) { return r.getBoundingClientRect().height > 0; }).length`
	var n int
	if l.do(chromedp.Evaluate(visible, &n)); n != min(25, rows) {
		l.Errorf("%d rows show, want %d", n, min(25, rows))
	}
	if rows > 25 {
		if l.do(chromedp.Click("#snapshots .more", chromedp.ByQuery), chromedp.Evaluate(visible, &n)); n != rows {
			l.Errorf("%d of %d rows show", n, rows)
		}
		if l.do(chromedp.Click("#snapshots .more", chromedp.ByQuery), chromedp.Evaluate(visible, &n)); n != 25 {
			l.Errorf("%d rows show, want 25 again", n)
		}
	}
}

// hands sorts with the mouse and with the keyboard, and has a name shown in full.
func (l look) hands() {
	l.Helper()
	sorted := func(want string) {
		l.Helper()
		var got string
		l.do(chromedp.Evaluate(`Array.from(document.querySelectorAll("#snapshots th")).map(function (h) { return h.getAttribute("aria-sort") || "-"; }).join(" ")`, &got))
		if got = strings.Trim(strings.ReplaceAll(" "+got+" ", " -", " "), " "); got != want {
			l.Errorf("sorted %q, want %q", got, want)
		}
	}
	sorted("")
	l.do(chromedp.Click("#snapshots th:nth-child(7) button", chromedp.ByQuery))
	sorted("descending")
	l.do(chromedp.KeyEvent(kb.Enter))
	sorted("ascending")
	l.do(chromedp.KeyEvent(" "))
	sorted("descending")
	l.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	var heading string
	if l.do(chromedp.Evaluate(`document.querySelector("#snapshots th[aria-sort]").textContent`, &heading)); heading != "own" {
		l.Errorf("after the tab key %q is sorted by", heading)
	}
	const tall = `document.querySelector("#snapshots td .full").checkVisibility()`
	var before, after bool
	l.do(chromedp.Evaluate(tall, &before), chromedp.Click("#snapshots td summary", chromedp.ByQuery), chromedp.Evaluate(tall, &after))
	if before || !after {
		l.Errorf("the full name shows: %v, and after a click %v", before, after)
	}
}

// sorts sorts every table by every column, both ways.
func (l look) sorts(before map[string]pageContent) {
	l.Helper()
	sorted, after := map[string][][2]pageSorted{}, map[string]pageContent{}
	l.do(chromedp.Evaluate(sortAll, &sorted), chromedp.Evaluate(contents, &after))
	for id, table := range before {
		for i, name := range table.Columns {
			for k, got := range sorted[id][i] {
				// Numbers show the largest first, names the first.
				up := k == 1
				if !table.Numeric[i] {
					up = k == 0
				}
				state := make([]string, len(table.Columns))
				state[i] = map[bool]string{true: "ascending", false: "descending"}[up]
				if !slices.Equal(got.Sorted, state) {
					l.Errorf("%s by %s: aria-sort is %q", id, name, got.Sorted)
				}
				want := table.column(i)
				if table.Numeric[i] {
					slices.SortFunc(want, func(a, b string) int { return cmp.Compare(number(l, a), number(l, b)) })
					if !up {
						slices.Reverse(want)
					}
					if !slices.Equal(got.Keys, want) {
						l.Errorf("%s by %s, ascending %v: %q", id, name, up, got.Keys[:min(10, len(want))])
					}
					continue
				}
				if up && !got.Natural || !up && !got.Reverse || !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got.Keys))) {
					l.Errorf("%s by %s, ascending %v: %q", id, name, up, got.Keys[:min(10, len(want))])
				}
			}
		}
		// No row came apart or was lost.
		if !slices.Equal(joined(table.Rows), joined(after[id].Rows)) {
			l.Errorf("%s holds other rows after sorting", id)
		}
	}
	// Numbers in names count as numbers.
	names := sorted["snapshots"][0][0].Keys
	i := slices.IndexFunc(names, func(s string) bool { return strings.HasSuffix(s, "/chk-95") })
	if i < 0 || !strings.HasSuffix(names[i+1], "/chk-96") {
		l.Errorf("chk-95 is at %d of %q", i, names)
	}
}

func number(t look, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// joined gives rows in an order of their own, to be compared.
func joined(rows [][]string) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = strings.Join(r, " | ")
	}
	slices.Sort(list)
	return list
}
