package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/drey-state/drey/storage"
)

// lister is a server that only lists. Its tokens are the last key of a page.
type lister struct {
	keys  []string // in the order of the server
	page  int
	walks bool // goes through directories in the order of their names, not through keys
	deaf  bool // does not know StartAfter
	fails func(request int) bool

	mu       sync.Mutex
	requests int
	running  int
	most     int // that ran at the same time
}

// asked gives the number of requests, and of those that ran at the same time at most. Requests that
// a listing gave up may still be on their way.
func (l *lister) asked() (requests, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests, l.most
}

func requests(l *lister) int {
	n, _ := l.asked()
	return n
}

// before says which of two keys the server lists first.
func (l *lister) before(a, b string) bool {
	if !l.walks {
		return a < b
	}
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) < 0
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.requests++
	l.running++
	l.most = max(l.most, l.running)
	request := l.requests
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.running--
		l.mu.Unlock()
	}()
	if l.fails != nil && l.fails(request) {
		fail(w, http.StatusForbidden, "AccessDenied")
		return
	}
	q := r.URL.Query()
	prefix, after := q.Get("prefix"), q.Get("continuation-token")
	if after == "" && !l.deaf {
		after = q.Get("start-after")
	}
	out := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []struct{ Key string }
		CommonPrefixes        []struct{ Prefix string }
	}{}
	last := ""
	for _, k := range l.keys {
		if !strings.HasPrefix(k, prefix) || after != "" && !l.before(after, k) || strings.HasSuffix(after, "/") && strings.HasPrefix(k, after) {
			continue
		}
		dir := ""
		if q.Get("delimiter") != "" {
			if i := strings.IndexByte(k[len(prefix):], '/'); i >= 0 {
				dir = k[:len(prefix)+i+1]
			}
		}
		if dir != "" && dir == last {
			continue
		}
		if len(out.Contents)+len(out.CommonPrefixes) == l.page {
			out.IsTruncated, out.NextContinuationToken = true, last
			break
		}
		if last = k; dir != "" {
			last = dir
			out.CommonPrefixes = append(out.CommonPrefixes, struct{ Prefix string }{dir})
		} else {
			out.Contents = append(out.Contents, struct{ Key string }{k})
		}
	}
	if err := xml.NewEncoder(w).Encode(out); err != nil {
		panic(err)
	}
}

// names collects a listing.
func names(t testing.TB, list iter.Seq2[storage.Info, error]) []string {
	t.Helper()
	var all []string
	for info, err := range list {
		check(t, err)
		n := info.URI
		if info.Dir {
			n += "/"
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func uuid(rnd *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", rnd.Uint32(), rnd.Uint32()>>16, rnd.Uint64()>>16)
}

// TestSpans lists random keys, as they are cut anywhere, and compares with what there is.
func TestSpans(t *testing.T) {
	alphabets := []string{"0123456789abcdef", "05af", "-./0", "chk-19/", "aAfFgZ~_ ", "é0f/日"}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		server := &lister{page: 2 + rnd.IntN(8), walks: seed%4 == 1, deaf: seed%4 == 2}
		alphabet := []rune(alphabets[rnd.IntN(len(alphabets))])
		for range 1 + rnd.IntN(120) {
			k := "d/"
			for range 1 + rnd.IntN(7) {
				k += string(alphabet[rnd.IntN(len(alphabet))])
			}
			if strings.Contains(k, "//") || strings.HasSuffix(k, "/") {
				continue
			}
			server.keys = append(server.keys, k)
		}
		slices.SortFunc(server.keys, func(a, b string) int {
			if server.before(a, b) {
				return -1
			}
			return 1
		})
		server.keys = slices.Compact(server.keys)
		deep, flat := []string{}, []string{}
		for _, k := range server.keys {
			deep = append(deep, "s3://b/"+k)
			name, _, dir := strings.Cut(k[len("d/"):], "/")
			if dir {
				name += "/"
			}
			flat = append(flat, "s3://b/d/"+name)
		}
		slices.Sort(deep)
		slices.Sort(flat)
		flat = slices.Compact(flat)
		lists := 1 + rnd.IntN(9)
		f := scripted(t, Options{Lists: lists}, server.ServeHTTP)
		if got := names(t, f.List(t.Context(), "s3://b/d")); !slices.Equal(got, deep) {
			t.Fatalf("seed %d: List gives\n%q, want\n%q", seed, got, deep)
		}
		if got := names(t, f.ReadDir(t.Context(), "s3://b/d")); !slices.Equal(got, flat) {
			t.Fatalf("seed %d: ReadDir gives\n%q, want\n%q", seed, got, flat)
		}
		if server.most > lists {
			t.Fatalf("seed %d: %d requests at a time, want %d", seed, server.most, lists)
		}
	}
}

// uuids is a server with so many files in one directory.
func uuids(n int) *lister {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := &lister{page: 100}
	for range n {
		l.keys = append(l.keys, "shared/"+uuid(rnd))
	}
	slices.Sort(l.keys)
	return l
}

// TestSpansPay says how many requests more a listing takes in spans.
func TestSpansPay(t *testing.T) {
	server := uuids(10_000)
	f := scripted(t, Options{}, server.ServeHTTP)
	if got := names(t, f.ReadDir(t.Context(), "s3://b/shared")); len(got) != 10_000 {
		t.Errorf("%d names", len(got))
	}
	if requests, most := server.asked(); requests > 150 || most < 2 {
		t.Errorf("%d requests for 100 pages, %d at a time", requests, most)
	}
	small := uuids(100)
	f = scripted(t, Options{}, small.ServeHTTP)
	if got := names(t, f.ReadDir(t.Context(), "s3://b/shared")); len(got) != 100 || requests(small) != 1 {
		t.Errorf("%d names by %d requests", len(got), requests(small))
	}
}

// TestLostPage: a listing that misses a page ends with an error, whichever it is.
func TestLostPage(t *testing.T) {
	for lost := 1; lost <= 30; lost++ {
		server := uuids(2000)
		server.fails = func(request int) bool { return request == lost }
		f := scripted(t, Options{}, server.ServeHTTP)
		var last error
		for _, err := range f.ReadDir(t.Context(), "s3://b/shared") {
			if last != nil {
				t.Fatal("it goes on after an error")
			}
			last = err
		}
		if requests, _ := server.asked(); requests < lost {
			return
		}
		if last == nil {
			t.Errorf("no error although request %d failed", lost)
		}
	}
}

// pagesOf answers pages of 100 of the keys in their own order, of whatever is asked.
func pagesOf(keys []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", at+100 < len(keys), at+100)
		for _, k := range keys[at:min(at+100, len(keys))] {
			fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", k)
		}
		fmt.Fprint(w, "</ListBucketResult>")
	}
}

func TestSpansOutOfOrder(t *testing.T) {
	server := uuids(1000)
	// The first page is in order; what comes then isn't.
	slices.Reverse(server.keys[200:])
	f := scripted(t, Options{Lists: 4}, pagesOf(server.keys))
	var last error
	for _, err := range f.List(t.Context(), "s3://b/shared") {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "no order") {
		t.Errorf("got %v", last)
	}
	// Where the disorder shows at once, one page follows the other. Requests that the first listing gave up may still be answered.
	server = uuids(1000)
	slices.Reverse(server.keys[:200])
	slices.Reverse(server.keys[200:])
	f = scripted(t, Options{Lists: 4}, pagesOf(server.keys))
	if got := names(t, f.List(t.Context(), "s3://b/shared")); len(got) != 1000 {
		t.Errorf("%d names", len(got))
	}
}

// TestSpansEnd: a listing that is broken off or cancelled leaves no request behind.
func TestSpansEnd(t *testing.T) {
	server := uuids(3000)
	f := scripted(t, Options{}, server.ServeHTTP)
	ignore := goleak.IgnoreCurrent()
	for range f.ReadDir(t.Context(), "s3://b/shared") {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range f.ReadDir(ctx, "s3://b/shared") {
		if n++; n == 500 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n == 3000 {
		t.Errorf("%d entries, then %v", n, last)
	}
	goleak.VerifyNone(t, ignore, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

// TestSpansOnServers: what real servers list in spans is what they list page after page.
func TestSpansOnServers(t *testing.T) {
	test := func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{})
		rnd := rand.New(rand.NewPCG(3, 4))
		var keys []string
		for range 2500 {
			keys = append(keys, "t/"+uuid(rnd))
		}
		for _, n := range []string{"0", "5", "8", "f", "g", "-", "~", "Z", "_metadata", "chk-1", "9.", "a b", "5é", "日本"} {
			keys = append(keys, "t/"+n, "t/"+n+"x/1/2", "t/"+n+"x/3", "t/"+n+"x-y/4", "t/"+n+"x.z/5", "t/"+n+"x0/6")
		}
		parallel(t, len(keys), func(i int) error {
			return storage.WriteFile(t.Context(), f, "s3://"+bucket+"/"+keys[i], nil, storage.CreateOptions{Overwrite: true})
		})
		one := s.reopen(t, Options{Lists: 1}, nil)
		var want []string
		for _, k := range keys {
			want = append(want, "s3://"+bucket+"/"+k)
		}
		slices.Sort(want)
		flat := names(t, one.ReadDir(t.Context(), "s3://"+bucket+"/t"))
		if got := names(t, one.List(t.Context(), "s3://"+bucket)); !slices.Equal(got, want) {
			t.Errorf("page after page: %d names, want %d", len(got), len(want))
		}
		for _, lists := range []int{2, 3, 8, 32} {
			f := s.reopen(t, Options{Lists: lists}, nil)
			for _, dir := range []string{"", "/t"} {
				if got := names(t, f.List(t.Context(), "s3://"+bucket+dir)); !slices.Equal(got, want) {
					t.Errorf("%d at a time: List gives %d names, want %d", lists, len(got), len(want))
				}
			}
			if got := names(t, f.ReadDir(t.Context(), "s3://"+bucket+"/t")); !slices.Equal(got, flat) {
				t.Errorf("%d at a time: ReadDir gives %d names, want %d", lists, len(got), len(flat))
			}
		}
		check(t, f.Delete(t.Context(), want...))
	}
	t.Run("fake", func(t *testing.T) { test(t, fakeServer(t)) })
	onRealServers(t, test)
}
