package incremental

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// checkpointsModel is what should be on storage, worked out the plain way: sets of names, and who named what when.
type checkpointsModel struct {
	t  *rapid.T
	tb testing.TB
	f  *storage.Memory
	c  *Checkpoints
	o  CheckpointsOptions

	clock     int
	names     int
	disk      map[string]bool // without metadata
	litter    map[string]bool // of processes that died
	known     []string        // every file there ever was
	snapshots []*modelSnapshot
	pending   []*modelPending
	late      []*modelWriter
	released  map[string]int // when the last snapshot that named it went
	owned     []string       // directories of claimed snapshots, and shared beside them
	claimed   []string
	order     []*modelSnapshot
	latest    *modelSnapshot
	rebase    int
}

type modelRole uint8

const (
	modelKept modelRole = iota
	modelDoomed
	modelUsers // the user's
)

type modelSnapshot struct {
	dir   string
	id    int64
	files map[string]bool
	role  modelRole
	whole bool
	used  int // when another one used a part of it last
	// seen says that the job knows of it, unclaimed that it was restored without a claim, and the job shared nothing with it.
	seen, unclaimed bool
}

type modelPending struct {
	*Pending
	began   int
	base    *modelSnapshot
	created []string
}

type modelWriter struct {
	w   storage.Writer
	p   *modelPending
	uri string
}

// draw gives a number up to most. rapid prefers small ones, with which histories would be short and only begin things.
func (m *checkpointsModel) draw(most int, what string) int {
	return int(rapid.Uint32().Draw(m.t, what) * 2654435769 >> 16 % uint32(most+1))
}

func (m *checkpointsModel) bool(what string) bool { return rapid.Bool().Draw(m.t, what) }

func (m *checkpointsModel) some(list []string, what string) (some []string) {
	for _, s := range list {
		if m.bool(what) {
			some = append(some, s)
		}
	}
	return some
}

func pick[T any](m *checkpointsModel, list []T, what string) T {
	return list[m.draw(len(list)-1, what)]
}

func (m *checkpointsModel) name(dir string) string {
	m.names++
	uri := fmt.Sprintf("%s/%08x-0000-4000-8000-000000000000", dir, m.names)
	m.known = append(m.known, uri)
	return uri
}

// write is a file of one byte.
func (m *checkpointsModel) write(f storage.FS, dir string) string {
	uri := m.name(dir)
	put(m.tb, f, uri, "x")
	m.disk[uri] = true
	return uri
}

// owns says that a file is the job's.
func (m *checkpointsModel) owns(uri string) bool {
	if strings.HasPrefix(uri, job+"/shared/") || strings.HasPrefix(uri, job+"/chk-") {
		return true
	}
	return slices.ContainsFunc(m.owned, func(dir string) bool { return strings.HasPrefix(uri, dir+"/") })
}

// users are the snapshots that name a file.
func (m *checkpointsModel) users(uri string) (n int) {
	for _, s := range m.snapshots {
		if s.files[uri] {
			n++
		}
	}
	return n
}

// outstanding says that something that began before is pending.
func (m *checkpointsModel) outstanding(at int) bool {
	return slices.ContainsFunc(m.pending, func(p *modelPending) bool { return p.began < at })
}

// remove takes a snapshot away.
func (m *checkpointsModel) remove(s *modelSnapshot) {
	m.snapshots = slices.DeleteFunc(m.snapshots, func(other *modelSnapshot) bool { return other == s })
	m.clock++
	for uri := range s.files {
		if m.users(uri) == 0 {
			m.released[uri] = m.clock
		}
		for _, other := range m.snapshots {
			if other.files[uri] {
				other.used = m.clock
			}
		}
	}
}

// settle removes what nothing holds any more.
func (m *checkpointsModel) settle() {
	for again := true; again; {
		again = false
		for _, s := range m.snapshots {
			if s.role != modelDoomed {
				continue
			}
			stays := false
			if s.whole {
				stays = m.outstanding(s.used)
				for uri := range s.files {
					stays = stays || m.users(uri) > 1
				}
			}
			if !stays {
				m.remove(s)
				again = true
				break
			}
		}
	}
	for uri := range m.disk {
		created := slices.ContainsFunc(m.pending, func(p *modelPending) bool { return slices.Contains(p.created, uri) })
		if m.owns(uri) && m.users(uri) == 0 && !created && !m.litter[uri] && !m.outstanding(m.released[uri]) {
			delete(m.disk, uri)
		}
	}
}

// end takes a pending one out, and its files but those that are named.
func (m *checkpointsModel) end(p *modelPending, named map[string]bool) {
	m.pending = slices.DeleteFunc(m.pending, func(other *modelPending) bool { return other == p })
	for _, uri := range p.created {
		if !named[uri] {
			delete(m.disk, uri)
		}
	}
}

// kept are the retained ones, the next to be deleted first.
func (m *checkpointsModel) kept() []*modelSnapshot {
	m.order = slices.DeleteFunc(m.order, func(s *modelSnapshot) bool { return s.role != modelKept })
	return m.order
}

func (m *checkpointsModel) nextFull() bool {
	return m.fullAt(m.c.NextID())
}

// fullAt says that a checkpoint of a number may share nothing.
func (m *checkpointsModel) fullAt(id int64) bool {
	every := int64(m.o.RebaseEvery)
	return m.rebase > 0 || every > 0 && m.latest != nil && m.latest.id/every < id/every
}

func (m *checkpointsModel) begin() {
	id := m.c.NextID() + int64(m.draw(2, "skipped numbers"))
	var p *Pending
	var err error
	if m.draw(5, "savepoint") == 5 {
		p, err = m.c.BeginSavepoint(id, fmt.Sprintf("s3://b/sp/%d-%d", id, m.names))
		m.names++
	} else {
		p, err = m.c.Begin(id)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.clock++
	if !p.savepoint && p.Full() != m.fullAt(id) {
		m.t.Fatalf("checkpoint %d is full: %v", id, p.Full())
	}
	if want := int64(0); m.latest != nil {
		if want = m.latest.id; p.Base() != want {
			m.t.Fatalf("base %d, want %d", p.Base(), want)
		}
	}
	m.pending = append(m.pending, &modelPending{Pending: p, began: m.clock, base: m.latest})
}

func (m *checkpointsModel) upload(p *modelPending) {
	dir := p.Dir()
	if m.draw(3, "shared") > 0 {
		dir = p.SharedDir()
	}
	if m.draw(4, "late") > 0 {
		p.created = append(p.created, m.write(p.FS(), dir))
		return
	}
	uri := m.name(dir)
	w, err := p.FS().Create(m.t.Context(), uri, storage.CreateOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); err != nil {
		m.t.Fatal(err)
	}
	m.late = append(m.late, &modelWriter{w, p, uri})
}

// commit lets a writer go on that may be late.
func (m *checkpointsModel) commit() {
	i := m.draw(len(m.late)-1, "writer")
	w := m.late[i]
	m.late = slices.Delete(m.late, i, i+1)
	if m.draw(3, "give up") == 0 {
		w.w.Abort()
		return
	}
	err := w.w.Commit()
	if pending := slices.Contains(m.pending, w.p); (err == nil) != pending {
		m.t.Fatalf("pending %v, commit: %v", pending, err)
	}
	if err == nil {
		w.p.created = append(w.p.created, w.uri)
		m.disk[w.uri] = true
	}
}

// keeps says that a pending one may name a file.
func (m *checkpointsModel) keeps(p *modelPending, uri string) bool {
	if slices.Contains(p.created, uri) {
		return true
	}
	if p.Full() {
		return false
	}
	claimed, unclaimed := false, false
	for _, s := range m.snapshots {
		if s.seen && s.files[uri] {
			claimed, unclaimed = claimed || !s.unclaimed, unclaimed || s.unclaimed
		}
	}
	if unclaimed {
		return claimed
	}
	return !m.owns(uri) || m.users(uri) > 0 || m.disk[uri] && !m.litter[uri] && m.released[uri] > p.began
}

func (m *checkpointsModel) complete(p *modelPending) {
	named := map[string]bool{}
	for _, uri := range m.some(p.created, "created") {
		named[uri] = true
	}
	if p.base != nil && !p.Full() {
		for _, uri := range m.some(slices.Sorted(maps.Keys(p.base.files)), "shared") {
			named[uri] = true // which the base is good for, whatever happened since
			if !m.keeps(p, uri) {
				m.t.Fatalf("%s of the base is not kept", uri)
			}
		}
	}
	good := true
	known := slices.DeleteFunc(slices.Clone(m.known), func(uri string) bool { return strings.HasPrefix(uri, "s3://b/sp/") && !strings.HasPrefix(uri, p.Dir()) })
	if len(known) > 0 && m.draw(4, "any file") == 0 {
		uri := pick(m, known, "any file")
		named[uri] = true
		good = m.keeps(p, uri)
	}
	var absolute []metadata.Stream
	for _, uri := range slices.Sorted(maps.Keys(named)) {
		absolute = append(absolute, file(uri, 1))
	}
	s := modelSnapshotOf(p.ID(), absolute)
	if p.savepoint {
		s.Properties = metadata.PropertiesOf(metadata.KindNativeSavepoint)
	}
	d, err := p.Complete(m.t.Context(), s)
	if (err == nil) != good || err != nil && !p.Full() && !errors.Is(err, ErrLost) {
		m.t.Fatalf("complete: %v, want success: %v", err, good)
	}
	if !good {
		m.end(p, nil)
		return
	}
	m.end(p, named)
	full := true
	for uri := range named {
		full = full && slices.Contains(p.created, uri)
	}
	if d.Files != len(named)+1 || d.Full != full {
		m.t.Fatalf("%+v, want %d files and full: %v", d, len(named)+1, full)
	}
	done := &modelSnapshot{dir: p.Dir(), id: p.ID(), files: named}
	m.snapshots = append(m.snapshots, done)
	if p.savepoint {
		done.role = modelUsers
		return
	}
	m.latest, done.seen = done, true
	m.order = append(m.order, done)
	for _, older := range slices.Clone(m.pending) {
		if older.ID() < p.ID() && !older.savepoint {
			m.end(older, nil)
			if _, err := older.Complete(m.t.Context(), snapshotOf(older.ID())); !errors.Is(err, ErrSubsumed) {
				m.t.Fatalf("checkpoint %d: %v", older.ID(), err)
			}
		}
	}
	if full && m.rebase < p.began {
		m.rebase = 0
	}
	m.clock++
	for kept := m.kept(); len(kept) > m.o.Retain; kept = m.kept() {
		kept[0].role, kept[0].used = modelDoomed, m.clock
	}
}

// modelSnapshotOf names files.
func modelSnapshotOf(id int64, shared []metadata.Stream) *metadata.Snapshot {
	s := snapshotOf(id, shared...)
	s.Operators[0].Subtasks[0].State.ManagedKeyed.(*metadata.Incremental).Meta = &metadata.ByteStream{Name: "m"}
	return s
}

// restart opens the checkpoints anew, after the process ended or died.
func (m *checkpointsModel) restart() {
	if died := m.bool("died"); died {
		for _, p := range m.pending {
			for _, uri := range p.created {
				m.litter[uri] = true
			}
		}
		for uri := range m.disk {
			if m.owns(uri) && m.users(uri) == 0 {
				m.litter[uri] = true
			}
		}
		m.pending = nil
	} else {
		for _, p := range slices.Clone(m.pending) {
			m.end(p, nil)
		}
		if err := m.c.Close(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
		m.settle()
	}
	for _, w := range m.late {
		w.w.Abort()
	}
	m.late = nil
	m.o.Claimed = m.c.Claimed()
	m.open()
	m.order = nil
	for _, s := range m.snapshots {
		s.unclaimed, s.seen = false, strings.HasPrefix(s.dir, job+"/")
		if s.role == modelDoomed {
			s.role = modelKept
		}
		if s.role == modelKept && strings.HasPrefix(s.dir, job) {
			m.order = append(m.order, s)
		}
	}
	for _, uri := range m.claimed {
		for _, s := range m.snapshots {
			if s.dir == storage.Dir(uri) {
				m.order = append(m.order, s)
			}
		}
		m.seeBeside(storage.Dir(uri))
	}
	slices.SortStableFunc(m.order, func(a, b *modelSnapshot) int { return int(a.id - b.id) })
	m.latest = nil
	if kept := m.kept(); len(kept) > 0 {
		m.latest = kept[len(kept)-1]
	}
	m.rebase = 0
}

// seeBeside has the job know a snapshot, and the checkpoints beside it.
func (m *checkpointsModel) seeBeside(dir string) {
	for _, s := range m.snapshots {
		if s.dir == dir || strings.HasPrefix(dir, storage.Dir(s.dir)+"/chk-") {
			s.seen = true
		}
	}
}

func (m *checkpointsModel) open() {
	var err error
	if m.c, err = OpenCheckpoints(m.t.Context(), m.o); err != nil {
		m.t.Fatal(err)
	}
}

// foreign makes a snapshot that another job left, and gives one to restore from.
func (m *checkpointsModel) foreign() *modelSnapshot {
	m.names++
	dir := fmt.Sprintf("s3://b/old/%d", m.names)
	id := m.c.NextID() + int64(m.draw(3, "number"))
	var last *modelSnapshot
	add := func(dir string, files ...string) {
		last = &modelSnapshot{dir: dir, id: id, role: modelUsers, files: map[string]bool{}}
		id++
		var streams []metadata.Stream
		for _, uri := range files {
			last.files[uri] = true
			streams = append(streams, file(uri, 1))
		}
		s := modelSnapshotOf(last.id, streams)
		kind := metadata.KindCheckpoint
		if strings.HasSuffix(dir, "savepoint") {
			last.whole, kind = true, metadata.KindNativeSavepoint
		}
		s.Properties = metadata.PropertiesOf(kind)
		data, err := metadata.Encode(s)
		if err != nil {
			m.t.Fatal(err)
		}
		put(m.tb, m.f, dir+"/_metadata", string(data))
		m.snapshots = append(m.snapshots, last)
	}
	switch {
	case m.bool("savepoint of another"):
		add(dir+"/savepoint", m.write(m.f, dir+"/savepoint"), m.write(m.f, dir+"/savepoint"))
	default:
		both, newer := m.write(m.f, dir+"/shared"), m.write(m.f, dir+"/shared")
		if m.bool("two checkpoints") {
			add(dir+"/chk-1", both, m.write(m.f, dir+"/chk-1"), m.write(m.f, dir+"/shared"))
		}
		add(dir+"/chk-2", both, newer, m.write(m.f, dir+"/chk-2"))
	}
	return last
}

func (m *checkpointsModel) restore() {
	var from *modelSnapshot
	there := slices.DeleteFunc(slices.Clone(m.snapshots), func(s *modelSnapshot) bool { return s.role == modelDoomed || strings.HasPrefix(s.dir, "s3://b/sp/") })
	if len(there) > 0 && m.bool("from what is known") {
		from = pick(m, there, "snapshot")
	} else {
		from = m.foreign()
	}
	mode := ClaimMode(m.draw(2, "mode"))
	s, err := m.c.Restore(m.t.Context(), from.dir, mode)
	if err != nil || s.CheckpointID != from.id {
		m.t.Fatalf("restore: %v", err)
	}
	for _, p := range slices.Clone(m.pending) {
		m.end(p, nil)
	}
	m.clock++
	m.latest, from.seen = from, true
	if from.role != modelKept {
		from.unclaimed = mode == NoClaim && !slices.ContainsFunc(m.snapshots, func(s *modelSnapshot) bool {
			return s != from && s.seen && s.role != modelUsers && slices.ContainsFunc(slices.Collect(maps.Keys(s.files)), func(uri string) bool { return from.files[uri] })
		})
	}
	switch {
	case from.role == modelKept: // the job's own
	case mode == Claim:
		from.role = modelKept
		m.seeBeside(from.dir)
		m.order = append(m.order, from)
		m.claimed = append(m.claimed, from.dir+"/_metadata")
		m.owned = append(m.owned, from.dir)
		if !from.whole {
			m.owned = append(m.owned, storage.Dir(from.dir)+"/shared")
		}
	case mode == NoClaim:
		m.rebase = m.clock
	}
}

// check compares everything.
func (m *checkpointsModel) check() {
	want := slices.Collect(maps.Keys(m.disk))
	for _, s := range m.snapshots {
		want = append(want, s.dir+"/_metadata")
		for uri := range s.files {
			if !m.disk[uri] {
				m.t.Fatalf("checkpoint %d has lost %s", s.id, uri)
			}
		}
	}
	slices.Sort(want)
	got := there(m.tb, m.f, "s3://b")
	for i := range got {
		got[i] = "s3://b/" + got[i]
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("there is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var kept []int64
	for _, s := range m.kept() {
		kept = append(kept, s.id)
	}
	var retained []int64
	for _, c := range m.c.Retained() {
		retained = append(retained, c.ID)
	}
	if !slices.Equal(kept, retained) {
		m.t.Fatalf("retained %v, want %v", retained, kept)
	}
	latest, ok := m.c.Latest()
	if ok != (m.latest != nil) || ok && latest.Dir != m.latest.dir {
		m.t.Fatalf("latest %+v, want %+v", latest, m.latest)
	}
	if m.c.NextFull() != m.nextFull() || !slices.Equal(m.c.Claimed(), m.claimed) {
		m.t.Fatalf("next full %v, claimed %q", m.c.NextFull(), m.c.Claimed())
	}
}

// history is a random history of a job.
func history(tb testing.TB, t *rapid.T) {
	m := &checkpointsModel{t: t, tb: tb, f: storage.NewMemory(), disk: map[string]bool{}, litter: map[string]bool{}, released: map[string]int{}}
	m.o = CheckpointsOptions{FS: m.f, Dir: job, Retain: 1 + m.draw(2, "retain"), RebaseEvery: pick(m, []int{0, 0, 4}, "rebase every")}
	m.open()
	for range m.draw(60, "steps") {
		step := m.draw(23, "step")
		switch {
		case step < 6 && len(m.pending) < 4:
			m.begin()
		case step < 12 && len(m.pending) > 0:
			m.upload(pick(m, m.pending, "pending"))
		case step < 17 && len(m.pending) > 0:
			m.complete(pick(m, m.pending, "pending"))
		case step < 19 && len(m.pending) > 0:
			p := pick(m, m.pending, "pending")
			if err := p.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.end(p, nil)
		case step < 21 && len(m.late) > 0:
			m.commit()
		case step == 21:
			m.restart()
		case step == 22:
			m.restore()
		case step == 23 && m.bool("rebase"):
			m.c.Rebase()
			m.clock++
			m.rebase = m.clock
		}
		m.settle()
		m.check()
	}
}

// TestCheckpointsModel compares random histories with a plain model: 10,000 of them, and fewer under the race detector.
func TestCheckpointsModel(t *testing.T) {
	n := 0
	for n < histories {
		before := n
		rapid.Check(t, func(rt *rapid.T) {
			n++
			history(t, rt)
		})
		if t.Failed() || n == before {
			return
		}
	}
	t.Logf("%d histories", n)
}
