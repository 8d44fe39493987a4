package tools

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/drey-state/drey/storage"
)

// How long parts of a path are shown.
const (
	longSegment = 24
	longBase    = 64
	longDir     = 44
)

var jobSegment = regexp.MustCompile(`^[0-9a-f]{32}$`)

// pageName keeps a name from changing how the page reads: it has no control characters, and none that turn the direction of text.
func pageName(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// path is the cell of a URI, which shows what is below the root, and of that the long parts shortened.
func (p *page) path(uri string) pageCell {
	shown := uri
	if rest, ok := storage.Rel(p.root, uri); ok && p.root != "" && rest != "" {
		shown = rest
	}
	base := storage.Base(uri)
	c := pageCell{Dir: shortDir(pageName(strings.TrimSuffix(shown, base))), Text: shortened(pageName(base), longBase), Full: pageName(uri), Class: "path"}
	if c.Dir+c.Text == c.Full {
		c.Full = ""
	}
	return c
}

// wholePath is path, but shows all that is below the root.
func (p *page) wholePath(uri string) pageCell {
	c := p.path(uri)
	shown := pageName(uri)
	if rest, ok := storage.Rel(p.root, uri); ok && p.root != "" && rest != "" {
		shown = pageName(rest)
	}
	c.Text = pageName(storage.Base(uri))
	c.Dir = strings.TrimSuffix(shown, c.Text)
	return c
}

// shortDir shortens the segments of a directory, and leaves out some if they are many.
func shortDir(dir string) string {
	parts := strings.Split(dir, "/")
	for i, s := range parts {
		if jobSegment.MatchString(s) {
			parts[i] = s[:8] + "…"
		} else {
			parts[i] = shortened(s, longSegment)
		}
	}
	short := strings.Join(parts, "/")
	for from := 2; utf8.RuneCountInString(short) > longDir && from < len(parts)-1; from++ {
		short = parts[0] + "/…/" + strings.Join(parts[from:], "/")
	}
	return short
}

// shortened leaves out what is in the middle of a long name.
func shortened(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	end := most / 4
	return string(r[:most-end-1]) + "…" + string(r[len(r)-end:])
}

func pageText(s string) pageCell { return pageCell{Text: pageName(s)} }

func pageCause(s string) pageCell { return pageCell{Text: s, Class: "cause"} }

func pageNumber(n int64) pageCell {
	return pageCell{Text: grouped(n), Sort: fmt.Sprint(n), Class: "number"}
}

func pageBytes(n int64) pageCell {
	return pageCell{Text: pageSize(n), Sort: fmt.Sprint(n), Class: "number"}
}

// pageNone stands for a number that there is not.
func pageNone() pageCell { return pageCell{Text: "–", Sort: "-1", Class: "number"} }

// pageCheckpoint is a checkpoint's number, -1 for none.
func pageCheckpoint(n int64) pageCell {
	if n < 0 {
		return pageNone()
	}
	return pageCell{Text: fmt.Sprintf("chk-%d", n), Sort: fmt.Sprint(n), Class: "number"}
}

func pageWhen(t time.Time) pageCell {
	if t.IsZero() {
		return pageCell{Text: "unknown", Sort: "0", Class: "number"}
	}
	return pageCell{Text: pageTime(t), Sort: fmt.Sprint(t.Unix()), Class: "number"}
}

// pageSince is how long ago a time was.
func pageSince(now, t time.Time) pageCell {
	if t.IsZero() {
		return pageCell{Text: "unknown", Sort: "-1", Class: "number"}
	}
	d := max(0, now.Sub(t))
	return pageCell{Text: pageAge(d), Sort: fmt.Sprint(int64(d / time.Second)), Class: "number"}
}

func pageTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func pageAge(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return pageCount(int64(d/(24*time.Hour)), "day")
	case d >= 2*time.Hour:
		return pageCount(int64(d/time.Hour), "hour")
	case d >= 2*time.Minute:
		return pageCount(int64(d/time.Minute), "minute")
	}
	return pageCount(int64(d/time.Second), "second")
}

func pageCount(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + one + "s"
}

// grouped is a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func pageSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if f /= 1024; f < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}
