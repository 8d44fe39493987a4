package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/tools"
)

// printLine writes a value as one line of JSON.
func printLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table writes rows of cells in columns.
func table(w *bufio.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for i, c := range r {
			r[i] = printable(c)
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // w keeps its error
}

// label is what names an operator shortest.
func label(id metadata.OperatorID, name, uid string) string {
	switch {
	case uid != "":
		return uid
	case name != "":
		return name
	}
	return id.String()
}

func showSizes(w *bufio.Writer, r *tools.SizeReport, all bool) {
	rows := [][]string{{"OPERATOR", "STATE", "TYPE", "OF", "SUBTASKS", "ENTRIES", "MAPS", "KEYS", "VALUES"}}
	for i := range r.States {
		s := &r.States[i]
		maps := ""
		if s.Maps > 0 {
			maps = fmt.Sprint(s.Maps)
		}
		rows = append(rows, []string{
			label(s.Operator, s.Name, s.UID), s.State, s.Type, s.Serializer, fmt.Sprint(s.Subtasks), fmt.Sprint(s.Entries), maps, size(s.KeyBytes), size(s.ValueBytes),
		})
	}
	if len(r.States) > 0 {
		table(w, rows)
	}
	fmt.Fprintf(w, "%d entries, %s\n", r.Entries, size(r.Bytes))
	for i := range r.Channels {
		c := &r.Channels[i]
		where := "gate"
		if c.Direction == "output" {
			where = "partition"
		}
		fmt.Fprintf(w, "in flight: %s, %s %s %d: %s in %d buffers of %s; the files hold %s\n",
			printable(label(c.Operator, c.Name, c.UID)), c.Direction, where, c.Group, size(c.Bytes), c.Buffers, plural(c.Channels, "channel"), size(c.FileBytes))
	}
	for i := range r.States {
		if s := &r.States[i]; s.Keys != nil {
			showStateSizes(w, s, all)
		}
	}
}

func showStateSizes(w *bufio.Writer, s *tools.StateSizes, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("")
	p("%s, %s", printable(label(s.Operator, s.Name, s.UID)), printable(s.State))
	for _, h := range []struct {
		name string
		*tools.Histogram
	}{{"keys", s.Keys}, {"values", s.Values}} {
		p("  %-7s min %s, mean %.1f B, p50 <= %s, p99 <= %s, max %s", h.name, size(h.Min), h.Mean, size(h.P50), size(h.P99), size(h.Max))
		if all {
			for _, b := range h.Buckets {
				p("    <= %-10s %d", size(b.UpTo), b.Count)
			}
		}
	}
	n := 3
	if all {
		n = len(s.KeyGroups)
	}
	if len(s.KeyGroups) > 0 {
		var list []string
		for _, g := range s.KeyGroups[:min(n, len(s.KeyGroups))] {
			list = append(list, fmt.Sprintf("%d (%d entries, %s)", g.KeyGroup, g.Entries, size(g.Bytes)))
		}
		p("  largest key groups: %s; the largest is %.1f times the average", strings.Join(list, ", "), s.Skew)
	}
	for _, l := range []struct {
		name string
		list []tools.LargeKey
	}{{"largest keys", s.LargestKeys}, {"largest entries", s.LargestEntries}} {
		if len(l.list) == 0 {
			continue
		}
		p("  %s:", l.name)
		for i := range l.list {
			if i == 3 && !all {
				break
			}
			k := &l.list[i]
			text := string(k.Key)
			if k.Namespace != "" {
				text += " in " + string(k.Namespace)
			}
			if k.UserKey != "" {
				text += " [" + string(k.UserKey) + "]"
			}
			entries := ""
			if k.Entries > 1 {
				entries = fmt.Sprintf(" in %d entries", k.Entries)
			}
			p("    %s%s  %s, key group %d, subtask %d", size(k.Bytes), entries, printable(shorten(text)), k.KeyGroup, k.Subtask)
		}
	}
}

// shorten cuts text that would fill the screen.
func shorten(s string) string {
	const most = 120
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

func showKafka(w *bufio.Writer, list []tools.KafkaOffset) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no offsets of Kafka sources")
		return
	}
	// What readers have is not shown a second time.
	read := map[string]bool{}
	where := func(k *tools.KafkaOffset) string { return fmt.Sprint(k.Operator, k.Topic, k.Partition) }
	for i := range list {
		if k := &list[i]; k.Part == "reader" {
			read[where(k)] = true
		}
	}
	known := 0
	rows := [][]string{{"OPERATOR", "SOURCE", "PART", "TOPIC", "PARTITION", "NEXT", "STOPPING", "SUBTASKS"}}
	for i := range list {
		k := &list[i]
		if k.Part == "enumerator" && read[where(k)] {
			known++
			continue
		}
		number := func(n *int64, special string) string {
			switch {
			case special != "":
				return special
			case n == nil:
				return "-"
			}
			return fmt.Sprint(*n)
		}
		part := k.Part
		if k.Unassigned {
			part += ", unassigned"
		}
		subtasks := "-"
		if len(k.Subtasks) > 0 {
			subtasks = strings.Trim(fmt.Sprint(k.Subtasks), "[]")
		}
		rows = append(rows, []string{
			label(k.Operator, k.Name, k.UID), k.Source, part, k.Topic, fmt.Sprint(k.Partition),
			number(k.Next, k.Special), number(k.Stopping, k.StoppingSpecial), subtasks,
		})
	}
	table(w, rows)
	if known > 0 {
		fmt.Fprintf(w, "%s of these are known to enumerators too\n", plural(known, "partition"))
	}
}
