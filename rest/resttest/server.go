package resttest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
)

//go:embed testdata/*.jsonl
var recordings embed.FS

// Versions of Flink that were recorded.
var Versions = []string{"1.20.5", "2.3.0"}

// The jobs of the recordings; see testdata/README.md.
const (
	Job         = "d0dbe915091d300b98ee7f27f0791303"
	CanceledJob = "a9f0e61a137d36aa9db53465e0801612" // with a savepoint
	DrainedJob  = "c0759f2416493708841e7975566360ce"
)

// Exchange is a request and Flink's answer.
type Exchange struct {
	// Moment names what it was recorded for.
	Moment string          `json:"moment"`
	Method string          `json:"method"`
	Path   string          `json:"path"` // with query
	Body   json.RawMessage `json:"body"`
	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer"`
}

// Recorded gives all exchanges with a version, in their order.
func Recorded(version string) ([]Exchange, error) {
	data, err := recordings.ReadFile("testdata/" + version + ".jsonl")
	if err != nil {
		return nil, err
	}
	var all []Exchange
	for line := range bytes.Lines(data) {
		var x Exchange
		if err := json.Unmarshal(line, &x); err != nil {
			return nil, fmt.Errorf("recording of %s: %w", version, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// Server answers as Flink did at some moments. A request that was recorded
// several times gets these answers one after the other, the last one for ever.
// Where the client chooses an id for an operation, that stands in the place of the recorded one.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	recorded []Exchange
	playing  []Exchange
	asked    map[string]int
	triggers map[string]string // the client's id -> the recorded one
	log      []string
}

// New starts a server with what was recorded of a version at these moments. Close ends it.
func New(version string, moments ...string) (*Server, error) {
	all, err := Recorded(version)
	if err != nil {
		return nil, err
	}
	s := &Server{recorded: all, asked: map[string]int{}, triggers: map[string]string{}}
	s.Play(moments...)
	s.Server = httptest.NewServer(s)
	return s, nil
}

// Play goes over to these moments: the answers of each follow on those of the moment before it. What is of the
// moment "always" is there, too.
func (s *Server) Play(moments ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.playing = nil
	clear(s.asked)
	for _, m := range append([]string{"always"}, moments...) {
		for _, x := range s.recorded {
			if x.Moment == m {
				s.playing = append(s.playing, x)
			}
		}
	}
}

// Put lets a request, as "GET /overview", be answered so, whatever was recorded.
func (s *Server) Put(request string, status int, answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method, path, _ := strings.Cut(request, " ")
	s.playing = slices.DeleteFunc(s.playing, func(x Exchange) bool { return x.Method == method && x.Path == path })
	delete(s.asked, request)
	for _, a := range answers {
		s.playing = append(s.playing, Exchange{Method: method, Path: path, Status: status, Answer: json.RawMessage(a)})
	}
}

// Requests lists all that was asked, as "METHOD PATH" with the body after a space, in which the id that a client chose is ID.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, answer := s.answer(r.Method, r.URL.RequestURI(), body)
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func (s *Server) answer(method, path string, body []byte) (int, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, id := withoutTrigger(body)
	shown := string(body)
	if id != "" {
		shown = strings.ReplaceAll(shown, id, "ID")
	}
	s.log = append(s.log, strings.TrimSpace(method+" "+path+" "+shown))

	at, last := strings.LastIndexByte(path, '/')+1, ""
	if at > 0 {
		last = path[at:]
	}
	if known, ok := s.triggers[last]; ok {
		path = path[:at] + known
	}
	var found []Exchange
	for _, x := range s.playing {
		if want, _ := withoutTrigger(x.Body); x.Method == method && x.Path == path && (x.Body == nil || reflect.DeepEqual(want, sent)) {
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		text, _ := json.Marshal(fmt.Sprintf("Not found: %s", path))
		return http.StatusNotFound, fmt.Appendf(nil, `{"errors":[%s]}`, text)
	}
	key := fmt.Sprint(method, " ", path, sent)
	x := found[min(s.asked[key], len(found)-1)]
	s.asked[key]++
	if _, known := withoutTrigger(x.Body); id != "" && known != "" {
		s.triggers[id] = known
		return x.Status, bytes.ReplaceAll(x.Answer, []byte(known), []byte(id))
	}
	return x.Status, x.Answer
}

// withoutTrigger gives a body without the id for the operation, and that.
func withoutTrigger(body []byte) (map[string]any, string) {
	var m map[string]any
	if len(body) == 0 || json.Unmarshal(body, &m) != nil {
		return nil, ""
	}
	id, _ := m["triggerId"].(string)
	delete(m, "triggerId")
	return m, id
}
