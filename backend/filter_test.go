package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

func rangeOf(group int) keygroup.Range { return keygroup.Range{Start: group, End: group} }

// raws reads entries as text of their bytes, in no order. What is lost is left out.
func raws(t testing.TB, r *KeyedReader, f Filter) []string {
	t.Helper()
	var all []string
	for e, err := range r.Entries(context.Background(), f) {
		var lost *LostError
		if errors.As(err, &lost) {
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		all = append(all, raw(e))
	}
	slices.Sort(all)
	return all
}

func raw(e *Entry) string {
	return fmt.Sprintf("%d %s %x %x %x %x %t %d", e.KeyGroup, e.State.Meta.Name, e.Key, e.Namespace, e.UserKey, e.Value, e.Null, e.Timestamp)
}

// TestFixturesFilter reads state by key group, by state and by key, and
// compares with what is read at once.
func TestFixturesFilter(t *testing.T) {
	ctx := context.Background()
	n := 0
	eachFixture(t, []string{"flink/2.3.0", "old/1.12.7"}, func(f fixture) {
		for _, h := range f.keyed() {
			if _, ok := h.handle.(*metadata.Changelog); ok {
				continue
			}
			var progress int64
			h.o.Progress = func(n int64) { progress += n }
			r, err := OpenKeyed(ctx, f.files, h.handle, h.o)
			if err != nil {
				t.Errorf("%s: %v", h.label, err)
				continue
			}
			progress = 0
			whole := raws(t, r, Filter{})
			all := progress
			n++
			checkByGroup(t, h, r, whole, all, &progress)
			checkByState(t, h, r, whole)
			checkByKey(t, h, r)
			r.Close()
		}
	})
	if n < 500 {
		t.Errorf("%d handles", n)
	}
}

func checkByGroup(t *testing.T, h keyedHandle, r *KeyedReader, whole []string, all int64, progress *int64) {
	var parts []string
	sum := int64(0)
	step := max(1, r.KeyGroups().Len()/50)
	for g := r.KeyGroups().Start; g <= r.KeyGroups().End; g += step {
		*progress = 0
		runs := []keygroup.Range{{Start: g, End: min(g+step-1, r.KeyGroups().End)}}
		parts = append(parts, raws(t, r, Filter{KeyGroups: runs})...)
		if *progress > all {
			t.Errorf("%s: %d bytes read for key groups %s, %d for all", h.label, *progress, runs[0], all)
		}
		sum += *progress
	}
	slices.Sort(parts)
	if !slices.Equal(parts, whole) {
		t.Errorf("%s: %d entries by key group, %d at once", h.label, len(parts), len(whole))
	}
	if _, ok := h.handle.(*metadata.KeyGroups); ok && sum != all {
		t.Errorf("%s: %d bytes read by key group, %d at once", h.label, sum, all)
	}
	if none := raws(t, r, Filter{KeyGroups: []keygroup.Range{}}); len(none) > 0 {
		t.Errorf("%s: %d entries of no key group", h.label, len(none))
	}
}

func checkByState(t *testing.T, h keyedHandle, r *KeyedReader, whole []string) {
	var parts []string
	for _, s := range r.States() {
		parts = append(parts, raws(t, r, Filter{State: func(o *State) bool { return o == s }})...)
	}
	slices.Sort(parts)
	if !slices.Equal(parts, whole) {
		t.Errorf("%s: %d entries by state, %d at once", h.label, len(parts), len(whole))
	}
}

// checkByKey looks for a few of the keys.
func checkByKey(t *testing.T, h keyedHandle, r *KeyedReader) {
	byKey := map[string][]string{}
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err == nil {
			byKey[string(e.Key)] = append(byKey[string(e.Key)], raw(e))
		}
	}
	looked := 0
	for key, want := range byKey {
		if looked++; looked > 3 {
			break
		}
		slices.Sort(want)
		if got := raws(t, r, Filter{Key: []byte(key)}); !slices.Equal(got, want) {
			t.Errorf("%s: key %x has %d entries, want %d", h.label, key, len(got), len(want))
		}
	}
}

// TestConcurrent reads disjoint key groups of each format at once.
func TestConcurrent(t *testing.T) {
	formats := map[string]bool{}
	eachFixture(t, []string{"flink/1.20.5"}, func(f fixture) {
		for _, h := range f.keyed() {
			if _, ok := h.handle.(*metadata.Changelog); ok {
				continue
			}
			r, err := OpenKeyed(context.Background(), f.files, h.handle, h.o)
			if err != nil {
				t.Fatal(err)
			}
			zip := r.Header() != nil && r.Header().Compressed
			if key := fmt.Sprint(r.Format(), zip); !formats[key] && r.KeyGroups().Len() >= 8 {
				formats[key] = true
				checkConcurrent(t, r)
			}
			r.Close()
		}
	})
	if len(formats) < 5 {
		t.Errorf("only %v", formats)
	}
}

func checkConcurrent(t *testing.T, r *KeyedReader) {
	const parts = 8
	var wg sync.WaitGroup
	var got [parts][]string
	for i := range parts {
		wg.Go(func() {
			own := keygroup.RangeOf(i, r.KeyGroups().Len(), parts)
			own.Start += r.KeyGroups().Start
			own.End += r.KeyGroups().Start
			got[i] = raws(t, r, Filter{KeyGroups: []keygroup.Range{own}})
		})
	}
	wg.Wait()
	all := slices.Concat(got[:]...)
	slices.Sort(all)
	if whole := raws(t, r, Filter{}); !slices.Equal(all, whole) {
		t.Errorf("%s: %d entries by %d goroutines, want %d", r.Format(), len(all), parts, len(whole))
	}
}

// TestShare reads one key group of a file that is larger than what is read ahead.
func TestShare(t *testing.T) {
	const groups, size = 64, 40 << 10
	h := &KeyedHeader{Version: 6, Key: simple(longClass), States: []StateMeta{keyValue("v", TypeValue, simple(stringClass), simple(voidNamespace))}}
	file := headerBytes(t, h)
	var offsets []int64
	for g := range groups {
		offsets = append(offsets, int64(len(file)))
		key := joinBytes(long(int64(g)), []byte{0})
		file = canonical(t, file, 1, g, false, []run{{0, []pair{{key, bytes.Repeat([]byte{'x'}, size)}}}})
	}
	read := int64(0)
	o := Options{MaxParallelism: 128, Progress: func(n int64) { read += n }}
	r, err := OpenKeyed(context.Background(), Files{}, inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 0, offsets...), o)
	if err != nil {
		t.Fatal(err)
	}
	if read != offsets[0] {
		t.Errorf("%d bytes read for a header of %d", read, offsets[0])
	}
	read = 0
	if got := raws(t, r, Filter{KeyGroups: []keygroup.Range{rangeOf(17)}}); len(got) != 1 {
		t.Fatal(got)
	}
	if want := offsets[18] - offsets[17]; read != want {
		t.Errorf("%d bytes read for a key group of %d", read, want)
	}
}
