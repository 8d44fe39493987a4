package tools

import (
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

// outside lists what reaches over an edge of the window, or has more content than it shows.
const outside = `Array.from(document.querySelectorAll("body *")).filter(function (e) {
	var r = e.getBoundingClientRect();
	if (r.width === 0) { return false; }
	return r.right > window.innerWidth + 0.5 || r.left < -0.5 || (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline");
}).map(function (e) { return e.tagName + " " + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 60); })`

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
	return Array.from(document.querySelectorAll("h1, h2, small, p, li, td, th button, .tile span, figcaption span, .ticks span, .dir, .more")).filter(function (e) {
		var a = light(getComputedStyle(e).color), b = light(behind(e));
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
	}).map(function (e) { return e.tagName + " " + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 40); });
})()`

// TestPageInBrowser opens the page with few and with many checkpoints, wide and narrow, light and dark. With
// -artifacts it leaves pictures.
func TestPageInBrowser(t *testing.T) {
	start := browser(t)
	for _, checkpoints := range []int{3, 300} {
		name := filepath.Join(t.ArtifactDir(), fmt.Sprintf("audit-%d.html", checkpoints))
		if err := os.WriteFile(name, pageOf(t, pageDepot(t, checkpoints, 400)), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%d/%d/%s", checkpoints, width, scheme), func(t *testing.T) {
					ctx, cancel := chromedp.NewContext(start)
					defer cancel()
					lookAt(ctx, t, name, width, scheme)
				})
			}
		}
	}
}

func lookAt(ctx context.Context, t *testing.T, name string, width int64, scheme string) {
	t.Helper()
	v := watch(ctx)
	var wide, pale []string
	var picture []byte
	var title string
	var scripts, timelines int
	do := func(actions ...chromedp.Action) {
		t.Helper()
		if err := chromedp.Run(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	do(network.Enable(), log.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(width, 900),
		chromedp.Navigate("file://"+name),
		chromedp.Title(&title),
		chromedp.Evaluate(`document.scripts.length`, &scripts),
		chromedp.Evaluate(`document.querySelectorAll(".timeline").length`, &timelines),
		chromedp.FullScreenshot(&picture, 100),
		chromedp.Evaluate(outside, &wide),
		chromedp.Evaluate(faint, &pale),
	)
	shot := fmt.Sprintf("%s-%d-%s.png", strings.TrimSuffix(name, ".html"), width, scheme)
	if err := os.WriteFile(shot, picture, 0o666); err != nil {
		t.Fatal(err)
	}
	if title != "Audit of Flink's storage" || scripts != 1 || timelines != 2 {
		t.Errorf("%q with %d scripts and %d timelines", title, scripts, timelines)
	}
	if len(wide) > 0 {
		t.Errorf("at a width of %d: %d elements overflow: %q", width, len(wide), wide[:min(len(wide), 10)])
	}
	if len(pale) > 0 {
		t.Errorf("%s: %d texts can hardly be read: %q", scheme, len(pale), pale[:min(len(pale), 10)])
	}
	sorting(t, do, width)

	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.messages) > 0 {
		t.Errorf("the browser says %q", v.messages)
	}
	for _, r := range v.requests {
		if r != "file://"+name && r != "data:," {
			t.Errorf("the page asks for %s", r)
		}
	}
}

// sorting sorts the table of snapshots by what they use, by name, and shows all of it.
func sorting(t *testing.T, do func(...chromedp.Action), width int64) {
	t.Helper()
	column := func(n int) (list []string) {
		t.Helper()
		do(chromedp.Evaluate(fmt.Sprintf(`Array.from(document.querySelectorAll("#snapshots tbody tr")).map(function (r) { return r.cells[%d].getAttribute("data-sort"); })`, n), &list))
		return list
	}
	numbers := func(list []string) (out []int) {
		t.Helper()
		for _, s := range list {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
		return out
	}
	choose := func(n int, down bool) {
		t.Helper()
		if width > 860 {
			do(chromedp.Click(fmt.Sprintf("#snapshots th:nth-child(%d) button", n+1), chromedp.ByQuery))
			return
		}
		order := "up"
		if down {
			order = "down"
		}
		do(chromedp.Evaluate(fmt.Sprintf(`(function () {
			var s = document.querySelector("#snapshots").parentNode.querySelector("select");
			s.value = "%d %s";
			s.dispatchEvent(new Event("change"));
		})()`, n, order), nil))
	}
	const size, snapshot = 4, 0
	before := numbers(column(size))
	if slices.IsSortedFunc(before, func(a, b int) int { return b - a }) {
		t.Fatal("the table is sorted before it was asked for")
	}
	choose(size, true)
	after := numbers(column(size))
	want := slices.Clone(before)
	slices.Sort(want)
	slices.Reverse(want)
	if !slices.Equal(after, want) {
		t.Errorf("by size, the largest first: %v", after)
	}
	choose(size, false)
	slices.Reverse(want)
	if after = numbers(column(size)); !slices.Equal(after, want) {
		t.Errorf("by size, the smallest first: %v", after)
	}
	choose(snapshot, false)
	var names []string
	for _, n := range column(snapshot) {
		names = append(names, n[strings.LastIndexByte(n, '/')+1:])
	}
	// Numbers in names count as numbers.
	if i, j := slices.Index(names, "chk-101"), slices.Index(names, "chk-102"); i < 0 || j != i+1 {
		t.Errorf("by name: chk-101 is at %d, chk-102 at %d", i, j)
	}
	visible := `Array.from(document.querySelectorAll("#snapshots tbody tr")).filter(function (r) { return r.getBoundingClientRect().height > 0; }).length`
	var shown int
	do(chromedp.Evaluate(visible, &shown))
	if shown != min(25, len(before)) {
		t.Errorf("%d rows show, want %d", shown, min(25, len(before)))
	}
	if len(before) > 25 {
		do(chromedp.Evaluate(`document.querySelector("#snapshots").parentNode.querySelector(".more").click()`, nil), chromedp.Evaluate(visible, &shown))
		if shown != len(before) {
			t.Errorf("%d of %d rows show", shown, len(before))
		}
	}
}
