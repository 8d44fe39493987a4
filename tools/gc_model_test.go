package tools

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// gcModel is a history of jobs as Flink would write it, and what is known of it.
type gcModel struct {
	w         *gcWorld
	t         *rapid.T
	now       time.Time
	times     map[string]time.Time // of all that was ever written
	n         int
	jobs      []*modelJob
	written   map[string]time.Time       // files
	snapshots map[string]map[string]bool // metadata to the files that it uses
	claimed   map[string]bool
}

type modelJob struct {
	id       string
	next     int64
	running  bool
	entropy  bool
	current  []string   // files of the newest checkpoint that the next can go on with
	retained []string   // metadata of checkpoints
	pending  *modelWork // checkpoint in progress
	claimed  string     // metadata of what it was restored from with CLAIM
	newest   string     // metadata of its last snapshot
}

type modelWork struct {
	id    int64
	files []string
	own   []int
}

func (m *gcModel) write(dir string) string {
	m.n++
	uri := storage.Join(dir, uuid(m.n))
	put(m.w.t, m.w.fsys, uri, 7)
	m.written[uri], m.times[uri] = m.now, m.now
	return uri
}

func (m *gcModel) some(list []string, what string) []string {
	var some []string
	for _, s := range list {
		if rapid.Bool().Draw(m.t, what) {
			some = append(some, s)
		}
	}
	return some
}

func (m *gcModel) draw(most int, what string) int { return rapid.IntRange(0, most).Draw(m.t, what) }

// complete writes metadata.
func (m *gcModel) complete(dir string, id int64, shared []string, own []int) string {
	uri := dir + "/_metadata"
	uses := map[string]bool{}
	for _, s := range shared {
		uses[s] = true
	}
	h := incrementalHandle(&metadata.ByteStream{Name: "m"}, nil, nil)
	for i, s := range shared {
		h.Shared = append(h.Shared, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("%06d.sst", i)), Stream: file(m.w.t, s, 7)})
	}
	for i, n := range own {
		h.Private = append(h.Private, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("MANIFEST-%06d", i)), Stream: &metadata.RelativeFile{Path: metadata.Text(uuid(n)), Size: 7}})
		uses[storage.Join(dir, uuid(n))] = true
	}
	for u := range uses {
		if _, err := m.w.fsys.Stat(m.w.t.Context(), u); err != nil {
			m.t.Fatalf("%s is gone before the checkpoint that uses it was complete: %v", u, err)
		}
	}
	putMetadata(m.w.t, m.w.fsys, dir, &metadata.Snapshot{Version: metadata.Version4, CheckpointID: id, Properties: metadata.NullProperties,
		Operators: []metadata.Operator{operator("op", &metadata.SubtaskState{ManagedKeyed: h})}})
	m.snapshots[uri], m.times[uri] = uses, m.now
	return uri
}

func (m *gcModel) delete(uris ...string) {
	if err := m.w.fsys.Delete(m.w.t.Context(), uris...); err != nil {
		m.t.Fatal(err)
	}
	for _, u := range uris {
		delete(m.snapshots, u)
		delete(m.written, u)
	}
}

func (m *gcModel) start(current []string, claimed string) {
	id := fmt.Sprintf("%06x%026x", len(m.jobs)+1, len(m.jobs)+1)
	m.jobs = append(m.jobs, &modelJob{id: id, next: 1, running: true, entropy: rapid.Bool().Draw(m.t, "entropy"), current: current, claimed: claimed})
}

// begin uploads what a checkpoint needs.
func (m *gcModel) begin(j *modelJob) {
	p := &modelWork{id: j.next, files: m.some(j.current, "reuse")}
	j.next++
	for range m.draw(3, "new files") {
		dir := gcRoot
		if j.entropy {
			dir = fmt.Sprintf("s3://b/%04x/ck", m.n%3)
		}
		p.files = append(p.files, m.write(storage.Join(dir, j.id, "shared")))
	}
	for range m.draw(2, "own files") {
		m.write(chkDir(j.id, p.id))
		p.own = append(p.own, m.n)
	}
	j.pending = p
}

// end completes or aborts the checkpoint in progress, and drops what Flink retains no longer.
func (m *gcModel) end(j *modelJob, abort bool) {
	p, id := j.pending, j.pending.id
	j.pending = nil
	if abort {
		return // Flink deletes chk-N, or not
	}
	uri := m.complete(chkDir(j.id, id), id, p.files, p.own)
	j.current, j.newest = p.files, uri
	j.retained = append(j.retained, uri)
	for len(j.retained) > 2 {
		m.subsume(j.retained[0])
		j.retained = j.retained[1:]
	}
	if j.claimed != "" {
		m.subsume(j.claimed)
		j.claimed = ""
	}
}

// subsume deletes a snapshot, and what nobody uses of it, or forgets to.
func (m *gcModel) subsume(uri string) {
	uses := m.snapshots[uri]
	if uses == nil {
		return // gc was first
	}
	m.delete(uri)
	for u := range uses {
		if _, used := m.reachable()[u]; !used && rapid.Bool().Draw(m.t, "deletes") {
			m.delete(u)
		}
	}
}

func (m *gcModel) reachable() map[string]bool {
	all := map[string]bool{}
	for uri, uses := range m.snapshots {
		all[uri] = true
		for u := range uses {
			all[u] = true
		}
	}
	for _, j := range m.jobs {
		if j.pending != nil {
			for _, u := range j.pending.files {
				all[u] = true
			}
		}
	}
	return all
}

// newest gives the time of a job's newest completed checkpoint, false if none is there.
func (m *gcModel) newest(j *modelJob) (time.Time, bool) {
	newest := int64(-1)
	for s := range m.snapshots {
		var n int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(s, storage.Join(gcRoot, j.id)+"/"), "chk-%d/_metadata", &n); err == nil && n > newest {
			newest = n
		}
	}
	return m.times[storage.Join(chkDir(j.id, newest), MetadataName)], newest >= 0
}

// users gives the time of the newest checkpoint of the jobs that use files in a directory: the earliest of them.
func (m *gcModel) users(dir string) (time.Time, bool) {
	var oldest time.Time
	found := false
	for _, user := range m.jobs {
		t, ok := m.newest(user)
		if !ok {
			continue
		}
		for s, uses := range m.snapshots {
			for u := range uses {
				if strings.HasPrefix(s, storage.Join(gcRoot, user.id)+"/") && strings.HasPrefix(u, dir+"/") && (!found || t.Before(oldest)) {
					oldest, found = t, true
				}
			}
		}
	}
	return oldest, found
}

// part gives the directory of the job's id in which a file is, "" if it is in none.
func (j *modelJob) part(uri string) string {
	before, _, ok := strings.Cut(uri, "/"+j.id+"/")
	if !ok {
		return ""
	}
	return before + "/" + j.id
}

// scattered says that a checkpoint of the job shows where it has random characters.
func (m *gcModel) scattered(j *modelJob) bool {
	for s, uses := range m.snapshots {
		for u := range uses {
			if part := j.part(u); strings.HasPrefix(s, storage.Join(gcRoot, j.id)+"/") && part != "" && part != storage.Join(gcRoot, j.id) {
				return true
			}
		}
	}
	return false
}

// limit gives the time that tells what is old in a directory of a job: that of its newest checkpoint, which for a part that
// entropy injection made must show that, and of those of others who use files of it. It is false if there is none.
func (m *gcModel) limit(j *modelJob, part string) (time.Time, bool) {
	t, ok := m.newest(j)
	plain := part == storage.Join(gcRoot, j.id)
	if plain && ok {
		return t, true
	}
	user, used := m.users(part)
	if ok = ok && m.scattered(j); !ok || used && user.Before(t) {
		return user, used
	}
	return t, true
}

// oldEnough says that a file is old enough to go, by the clock and by the newest checkpoint of its job.
func (m *gcModel) oldEnough(uri string, left []string) bool {
	limit := m.now
	for _, j := range m.jobs {
		parts := map[string]bool{}
		if part := j.part(uri); part != "" {
			parts[part] = true
		} else if strings.Contains(uri, "/savepoint-"+j.id[:6]+"-") {
			for _, f := range left {
				if part := j.part(f); part != "" {
					parts[part] = true
				}
			}
		}
		for part := range parts {
			t, ok := m.limit(j, part)
			if !ok {
				return false
			}
			if t.Before(limit) {
				limit = t
			}
		}
	}
	return !m.written[uri].After(limit.Add(-DefaultGrace))
}

// nobodys says that a file is of a savepoint without metadata, whose job has left no other trace.
func (m *gcModel) nobodys(uri string) bool {
	dir := storage.Dir(uri)
	if !strings.HasPrefix(dir, "s3://b/sp/savepoint-") || m.snapshots[dir+"/_metadata"] != nil {
		return false
	}
	return !slices.ContainsFunc(m.w.files(), func(f string) bool {
		_, rest, ok := strings.Cut(f, "/ck/")
		return ok && rest[:6] == storage.Base(dir)[len("savepoint-"):][:6]
	})
}

// gc collects and compares with the model.
func (m *gcModel) gc() {
	o := GCOptions{KeepLast: m.draw(2, "keep last"), KeepSavepoints: m.draw(2, "keep savepoints"), AcceptMismatch: true, AuditOptions: AuditOptions{Now: m.now}}
	roots := []string{"s3://b"}
	p, err := PlanGC(m.w.t.Context(), m.w.fsys, roots, o)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(m.snapshots) == 0 {
		if len(p.Refused) == 0 {
			m.t.Fatal("not refused without any snapshot")
		}
		return
	}
	if len(p.Refused) > 0 {
		m.t.Fatalf("refused: %q", p.Refused)
	}
	limits := map[string]bool{} // of files, by the snapshots before
	before := m.w.files()
	for u := range m.written {
		limits[u] = m.oldEnough(u, before) && (o.KeepSavepoints > 0 || !m.nobodys(u))
	}
	if o.KeepLast+o.KeepSavepoints == 0 && len(p.Drop) > 0 {
		m.t.Fatalf("drops %+v", p.Drop)
	}
	newest := map[string]bool{}
	for _, j := range m.jobs {
		newest[j.newest] = true
	}
	for _, d := range p.Drop {
		if newest[d.Snapshot] && strings.Contains(d.Snapshot, "/chk-") {
			m.t.Fatalf("drops the newest checkpoint %s", d.Snapshot)
		}
	}
	r, err := p.Execute(m.w.t.Context(), m.w.fsys, GCExecuteOptions{Batch: 3})
	if err != nil || r.Deleted != p.Delete {
		m.t.Fatalf("%v: %+v", err, r)
	}
	for _, d := range p.Drop {
		delete(m.snapshots, d.Snapshot)
	}
	left := m.w.files()
	reachable := m.reachable()
	for u := range reachable {
		if !slices.Contains(left, u) {
			m.t.Fatalf("deleted, but used: %s", u)
		}
	}
	for u := range m.written {
		if !slices.Contains(left, u) {
			delete(m.written, u)
		} else if !reachable[u] && limits[u] {
			m.t.Fatalf("left: %s, written at %s", u, m.written[u])
		}
	}
	for u := range limits {
		if _, stays := m.written[u]; !stays && !limits[u] && len(p.Drop) == 0 {
			m.t.Fatalf("deleted, but young or nobody's: %s", u)
		}
	}
}

// step does one thing that can happen.
func (m *gcModel) step() {
	var running, ended []*modelJob
	for _, j := range m.jobs {
		if j.running {
			running = append(running, j)
		} else if j.newest != "" && m.snapshots[j.newest] != nil && !m.claimed[j.newest] {
			ended = append(ended, j)
		}
	}
	action := rapid.SampledFrom([]string{"checkpoint", "checkpoint", "checkpoint", "abort", "begin", "wait", "wait", "savepoint", "derive", "stop", "claim", "no claim", "gc"}).Draw(m.t, "action")
	var j *modelJob
	if len(running) > 0 {
		j = rapid.SampledFrom(running).Draw(m.t, "job")
	}
	switch {
	case action == "gc":
		m.gc()
	case action == "wait":
		for _, j := range running {
			if j.pending != nil {
				m.end(j, rapid.Bool().Draw(m.t, "abort"))
			}
		}
		m.now = m.now.Add(time.Duration(m.draw(72, "hours")) * time.Hour)
	case action == "claim" && len(ended) > 0:
		from := rapid.SampledFrom(ended).Draw(m.t, "from")
		m.claimed[from.newest] = true
		var current []string
		for u := range m.snapshots[from.newest] {
			current = append(current, u)
		}
		slices.Sort(current)
		m.start(current, from.newest)
	case action == "no claim" || j == nil:
		m.start(nil, "")
	case action == "stop":
		if j.pending == nil {
			j.running = false
		}
	case action == "savepoint":
		dir := fmt.Sprintf("s3://b/sp/savepoint-%s-%012x", j.id[:6], m.n)
		var own []int
		for range 1 + m.draw(2, "files") {
			m.write(dir)
			own = append(own, m.n)
		}
		if rapid.Bool().Draw(m.t, "completes") {
			uri := m.complete(dir, j.next, nil, own)
			j.next++
			if j.newest == "" {
				j.newest = uri
			}
		}
	case action == "derive" && j.newest != "" && m.snapshots[j.newest] != nil:
		m.n++
		var uses []string
		for u := range m.snapshots[j.newest] {
			uses = append(uses, u)
		}
		slices.Sort(uses)
		m.complete(fmt.Sprintf("s3://b/sp/derived-%d", m.n), 1, uses, nil)
	case action == "begin" && j.pending == nil:
		m.begin(j)
	case j.pending != nil:
		m.end(j, action == "abort")
	default:
		m.begin(j)
		m.end(j, action == "abort")
	}
}

// TestGCModel runs random histories: gc never deletes a file that a snapshot uses, or
// one of a checkpoint in progress, and leaves none that is unused and old.
func TestGCModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &gcModel{t: rt, now: auditNow, times: map[string]time.Time{}, written: map[string]time.Time{}, snapshots: map[string]map[string]bool{}, claimed: map[string]bool{}}
		m.w = &gcWorld{t, aged{storage.NewMemory(), func(uri string) time.Time { return m.times[uri] }}}
		put(t, m.w.fsys, "s3://b/README", 1) // not of Flink
		for range 10 + m.draw(40, "steps") {
			m.step()
		}
		for _, j := range m.jobs {
			if j.pending != nil {
				m.end(j, true)
			}
		}
		m.now = m.now.Add(5 * day)
		m.gc()
	})
}
