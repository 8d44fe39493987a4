package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// word is a word with the time of its line, in milliseconds since 1970, or runtime.NoTimestamp.
type word = serializer.Tuple2[string, int64]

// build makes the job: lines -> words -> by word -> counts, in total and in windows -> files.
func build(lines runtime.Input[string], fs storage.FS, output string, window time.Duration) *runtime.Job {
	j := runtime.NewJob("wordcount")
	words := serializer.ForTuple2(serializer.ForString(), serializer.ForLong())
	text := serializer.ForString()

	read := runtime.From(j, runtime.Op{UID: "lines"}, lines, text, runtime.SourceOptions[string]{
		Timestamp:  func(line string) int64 { at, _ := cut(line); return at },
		Watermarks: true,
	})
	split := runtime.FlatMap(read, runtime.Op{UID: "words"}, words, func(line string, emit func(word)) error {
		at, rest := cut(line)
		for _, w := range strings.FieldsFunc(strings.ToLower(rest), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			emit(word{F0: w, F1: at})
		}
		return nil
	})
	counted := runtime.Process(byWord(split), runtime.Op{UID: "totals"}, text, func() runtime.Processor[string, word, string] { return &total{} })
	write(counted, "totals-files", fs, storage.Join(output, "totals"))

	if window > 0 {
		timed := runtime.Filter(split, runtime.Op{UID: "timed"}, func(w word) (bool, error) { return w.F1 != runtime.NoTimestamp, nil })
		windows := runtime.Aggregate(byWord(timed), runtime.Op{UID: "windows"}, runtime.Tumbling(window), serializer.ForLong(), runtime.Aggregation[word, int64, int64]{
			Create: func() int64 { return 0 },
			Add:    func(n int64, _ word) (int64, error) { return n + 1, nil },
			Result: func(n int64) (int64, error) { return n, nil },
		}, text, func(w string, span runtime.Window, n int64) (string, error) {
			return fmt.Sprintf("%s %s %d", time.UnixMilli(span.Start).UTC().Format(time.RFC3339Nano), w, n), nil
		})
		write(windows, "windows-files", fs, storage.Join(output, "windows"))
	}
	return j
}

func byWord(s runtime.Stream[word]) runtime.KeyedStream[string, word] {
	return runtime.KeyBy(s, serializer.ForString(), func(w word) string { return w.F0 })
}

func write(s runtime.Stream[string], uid string, fs storage.FS, dir string) {
	runtime.Commit(s, runtime.Op{UID: uid}, runtime.Files(runtime.FileOptions[string]{
		FS: fs, Dir: dir, Append: func(dst []byte, line string) []byte { return append(append(dst, line...), '\n') },
	}))
}

// cut gives the time that a line begins with, and the rest; runtime.NoTimestamp if it begins with none.
func cut(line string) (at int64, text string) {
	first, rest, _ := strings.Cut(line, " ")
	at, err := strconv.ParseInt(first, 10, 64)
	if err != nil || at < 0 || at > math.MaxInt64/2 {
		return runtime.NoTimestamp, line
	}
	return at, rest
}

// total counts each word and emits each count.
type total struct {
	n backend.Value[struct{}, int64]
}

// Open opens the state of the count.
func (t *total) Open(b backend.Keyed[string], _ *backend.Operator) (err error) {
	t.n, err = state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "count", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	return err
}

// Process counts a word.
func (t *total) Process(c *runtime.Context[string, string], w word) error {
	n, _, err := t.n.Get()
	if err != nil {
		return err
	}
	n++
	c.Emit(w.F0 + " " + strconv.FormatInt(n, 10))
	return t.n.Set(n)
}

// OnTimer is never called: there are no timers.
func (t *total) OnTimer(*runtime.Context[string, string], runtime.Timer) error { return nil }
