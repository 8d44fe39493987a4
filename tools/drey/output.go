package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// printJSON writes one document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 0:
		return "unknown size"
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n), "KMGTPE"
	i := -1
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// plural is a count with its noun.
func plural(n int, one string) string {
	many := one + "s"
	if strings.HasSuffix(one, "y") {
		many = strings.TrimSuffix(one, "y") + "ies"
	}
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// printable keeps text from a file from changing the terminal or the layout.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '\uFFFD'
		}
		return r
	}, s)
}

// printableLines is printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// snapshotTitle is the kind of a snapshot with its number.
func snapshotTitle(kind string, id int64) string {
	if kind == "unknown" {
		return fmt.Sprintf("snapshot %d of unknown kind", id)
	}
	return fmt.Sprintf("%s %d", kind, id)
}
