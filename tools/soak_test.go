package tools

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// soakGroups is the number of key groups of the operator.
const soakGroups = 128

var errInjected = errors.New("injected")

// soak is a job on Pebble with incremental checkpoints and local recovery, to which everything happens that can: failures, crashes, other
// parallelisms, new jobs that claim what another left. What the state must be is one number for each key.
type soak struct {
	t       *testing.T
	d       *rand.Rand
	keys    int
	changes float64 // share of the keys between two checkpoints, mostly
	steps   int     // on storage, after which a process crashes at the latest that is to crash
	root    string
	inner   *soakDisk
	base    string // path of all local directories
	memory  *pebble.Memory

	// The content, and that of all snapshots that there may be by metadata file.
	tick    uint32
	clock   atomic.Int64 // the tick, as the time of states that expire
	life    int64        // how long they live
	content []uint32     // 0 if the key is not there
	models  map[string][]uint32

	// The job, which survives its process.
	number     int
	dir        string
	sourced    string // what it was restored from
	mode       incremental.ClaimMode
	claimed    []string
	completed  int64 // newest checkpoint
	savepoints []string
	ended      []string        // directories of jobs before it
	litter     map[string]bool // what crashes left, and what is in the directory of a job that has ended and is no later one's

	// The process.
	faulty  *storagetest.Faulty
	calm    atomic.Bool // no faults for now
	peace   atomic.Bool // no faults and no crashes any more
	mu      sync.Mutex
	touched map[string]bool // what it may leave when it crashes
	c       *incremental.Checkpoints
	local   *localrecovery.Store
	sums    bool // local copies are compared with their checksums
	// memoryCopies says that local copies are in memory.
	memoryCopies bool
	subtasks     []*soakTask
	opened       int
	running      map[*pebble.Backend[int64]]bool
	flights      []*soakFlight
	notices      []func() // what the subtasks were not told yet

	count struct {
		begun, completed, failed, aborted, subsumed, savepoints, native, late                           int
		crashes, failovers, restores, failedRestores, jobs, claims, legacies, handed, litter, ownerless int
		localFiles, remoteFiles, localBytes, remoteBytes, uploaded, full                                int64
	}
}

// soakTask is a subtask as it runs.
type soakTask struct {
	b     *pebble.Backend[int64]
	value backend.Value[struct{}, []byte]
	maps  backend.Map[struct{}, int32, int64]
	list  backend.List[struct{}, int64]
	brief backend.Value[struct{}, int64] // with time to live
	timer backend.Timers[int64, struct{}]
	task  *localrecovery.Task
}

// soakFlight is a checkpoint on its way.
type soakFlight struct {
	p       *incremental.Pending
	kind    metadata.Kind
	content []uint32
	gate    chan struct{} // nothing is committed before it is closed
	open    sync.Once
	done    sync.WaitGroup
	states  []metadata.Keyed
	errs    []error
}

func (f *soakFlight) savepoint() bool { return f.kind.Savepoint() }

// release lets the writers commit, and waits for them.
func (f *soakFlight) release() error {
	f.open.Do(func() { close(f.gate) })
	f.done.Wait()
	return errors.Join(f.errs...)
}

// gatedFS is a store whose writers wait before they commit.
type gatedFS struct {
	storage.FS
	gate chan struct{}
	note func(uri string)
}

type gatedWriter struct {
	storage.Writer
	gate chan struct{}
}

func (g gatedFS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	g.note(uri)
	w, err := g.FS.Create(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return gatedWriter{w, g.gate}, nil
}

func (w gatedWriter) Commit() error {
	<-w.gate
	return w.Writer.Commit()
}

// soakDisk is the disk, with a journal of what happens to each file.
type soakDisk struct {
	*storage.Local
	mu     sync.Mutex
	stage  string
	events map[string][]string
	namers map[string]map[string]bool // the metadata files that ever named a file
}

// enter says what is being done.
func (d *soakDisk) enter(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stage = fmt.Sprintf(format, args...)
}

func (d *soakDisk) note(uri, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := storage.Key(uri)
	d.events[key] = append(d.events[key], d.stage+": "+fmt.Sprintf(format, args...))
}

// named notes what a metadata file names.
func (d *soakDisk) named(metadata, uri string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.namers[uri] == nil {
		d.namers[uri] = map[string]bool{}
	}
	d.namers[uri][metadata] = true
}

// story is all that happened to a file, and to the snapshots that named it.
func (d *soakDisk) story(uri string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := append([]string{uri}, d.events[uri]...)
	for _, by := range slices.Sorted(maps.Keys(d.namers[uri])) {
		if by == uri {
			continue
		}
		lines = append(lines, "named by "+by)
		for _, e := range d.events[by] {
			lines = append(lines, "\t"+e)
		}
	}
	return strings.Join(lines, "\n\t")
}

func soakOutcome(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

func (d *soakDisk) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	w, err := d.Local.Create(ctx, uri, o)
	if err != nil {
		d.note(uri, "create: %v", err)
		return nil, err
	}
	return &soakWriter{w, d, uri}, nil
}

func (d *soakDisk) Copy(ctx context.Context, src, dst string) error {
	err := d.Local.Copy(ctx, src, dst)
	d.note(dst, "copy of %s: %s", src, soakOutcome(err))
	return err
}

func (d *soakDisk) Link(ctx context.Context, src, dst string) error {
	err := d.Local.Link(ctx, src, dst)
	d.note(dst, "link to %s: %s", src, soakOutcome(err))
	return err
}

func (d *soakDisk) Delete(ctx context.Context, uris ...string) error {
	err := d.Local.Delete(ctx, uris...)
	for _, uri := range uris {
		d.note(uri, "deletion: %s", soakOutcome(err))
	}
	return err
}

type soakWriter struct {
	storage.Writer
	d   *soakDisk
	uri string
}

func (w *soakWriter) Commit() error {
	err := w.Writer.Commit()
	w.d.note(w.uri, "commit: %s", soakOutcome(err))
	return err
}

// Abandon is what is left of a writer when its process dies.
func (w *soakWriter) Abandon() {
	if a, ok := w.Writer.(interface{ Abandon() }); ok {
		a.Abandon()
	}
}

// soakValue is the value of a key of some version, which can't be compressed.
func soakValue(key int64, version uint32) []byte {
	b := make([]byte, 48)
	x := uint64(key)<<32 | uint64(version)
	for i := 0; i < len(b); i += 8 {
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(b[i:], z^z>>31)
	}
	return b
}

// Of some keys there are a map, a list, a value that expires or a timer besides.
func soakMapped(key int64, version uint32) int {
	if key%8 != 0 || version == 0 {
		return 0
	}
	return int(version % 4)
}

func soakTimed(key int64) bool { return key%8 == 1 }

func soakListed(key int64, version uint32) []int64 {
	if key%8 != 2 || version == 0 {
		return nil
	}
	return []int64{int64(version), -int64(version), 7}[:1+version%3]
}

func soakBrief(key int64) bool { return key%8 == 3 }

// soakList is how a list is stored.
func soakList(list []int64) (b []byte) {
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func (s *soak) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// excused says that an error is one that the test made, and else ends it.
func (s *soak) excused(err error) {
	s.t.Helper()
	for _, e := range []error{errInjected, storagetest.ErrCrashed, incremental.ErrSubsumed, incremental.ErrAborted} {
		if errors.Is(err, e) {
			return
		}
	}
	s.t.Fatal(err)
}

func (s *soak) chance(p float64) bool { return s.d.Float64() < p }

// start opens the store, the checkpoints and the local copies, as a process that begins.
func (s *soak) start() {
	s.t.Helper()
	o := storagetest.FaultOptions{}
	if s.chance(0.3) && !s.peace.Load() {
		o.CrashAfter = 50 + s.d.IntN(s.steps)
	}
	s.mu.Lock()
	s.touched = map[string]bool{}
	s.mu.Unlock()
	random, rate := rand.New(rand.NewPCG(s.d.Uint64(), 0)), []float64{0, 0.0003, 0.001, 0.003}[s.d.IntN(4)]
	o.Inject = func(step storagetest.Step) *storagetest.Fault {
		if step.Op == "create" {
			s.mu.Lock()
			s.touched[storage.Key(step.URI)] = true
			s.mu.Unlock()
		}
		if s.calm.Load() || s.peace.Load() || random.Float64() >= rate {
			return nil
		}
		f := &storagetest.Fault{Err: errInjected, Done: random.IntN(2) == 0}
		if step.Op != "read" && step.Op != "stat" && step.Op != "open" && step.Op != "list" {
			s.inner.note(step.URI, "%s fails, done all the same: %v", step.Op, f.Done)
		}
		return f
	}
	for _, uris := range s.named() {
		for uri := range uris {
			s.touched[uri] = true // it may be deleted, if it is the job's
		}
	}
	s.faulty = storagetest.NewFaulty(s.inner, o)
	var err error
	local := localrecovery.Options{Roots: []string{filepath.Join(s.base, "local-a"), filepath.Join(s.base, "local-b")}, Checksums: s.sums}
	if s.memoryCopies = s.chance(0.2) && !s.peace.Load(); s.memoryCopies {
		local.Roots, local.Memory = nil, 64<<20
	}
	s.local, err = localrecovery.Open(local)
	s.must(err)
	s.openCheckpoints()
}

func (s *soak) openCheckpoints() {
	s.t.Helper()
	for {
		var err error
		s.c, err = incremental.OpenCheckpoints(s.t.Context(), incremental.CheckpointsOptions{
			FS: s.faulty, Dir: s.dir, Retain: 1 + s.d.IntN(3), RebaseEvery: 10 * s.d.IntN(2), Claimed: s.claimed,
		})
		if err == nil {
			return
		}
		s.excused(err)
		if s.faulty.Crashed() { // before it has begun: another process
			s.faulty = storagetest.NewFaulty(s.inner, storagetest.FaultOptions{})
		}
	}
}

// named gives for each metadata file that is there what it names, itself included; all must be there.
func (s *soak) named() map[string]map[string]bool {
	s.t.Helper()
	files := s.files()
	all := map[string]map[string]bool{}
	for key := range files {
		if storage.Base(key) != MetadataName {
			continue
		}
		data, err := storage.ReadAll(s.t.Context(), s.inner, key, 0)
		s.must(err)
		m, err := metadata.Decode(data)
		s.must(err)
		uris := map[string]bool{key: true}
		for ref := range m.Refs() {
			path := ref.Path
			if ref.Kind == metadata.RefRelative {
				path = storage.Join(storage.Dir(key), path)
			}
			uris[storage.Key(path)] = true
			s.inner.named(key, storage.Key(path))
			if !files[storage.Key(path)] {
				s.t.Errorf("%s misses %s", key, s.inner.story(storage.Key(path)))
			}
		}
		if s.models[key] == nil {
			s.t.Errorf("nobody knows of %s", s.inner.story(key))
		}
		all[key] = uris
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
	return all
}

// unnamed are the files that no snapshot names.
func (s *soak) unnamed() map[string]bool {
	s.t.Helper()
	files := s.files()
	for _, uris := range s.named() {
		for uri := range uris {
			delete(files, uri)
		}
	}
	return files
}

func (s *soak) files() map[string]bool {
	s.t.Helper()
	all := map[string]bool{}
	for info, err := range s.inner.List(s.t.Context(), s.root) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		s.must(err)
		all[storage.Key(info.URI)] = true
	}
	return all
}

func (s *soak) close(k *soakTask) {
	s.t.Helper()
	delete(s.running, k.b)
	s.must(k.b.Close())
}

// stop ends the subtasks without notice.
func (s *soak) stop() {
	for _, f := range s.flights {
		_ = f.release()
	}
	s.flights, s.notices = nil, nil
	for _, k := range s.subtasks {
		s.close(k)
	}
	s.subtasks = nil
}

// tell has the subtasks told something, now or later.
func (s *soak) tell(notice func()) {
	if s.chance(0.7) {
		notice()
		return
	}
	s.count.late++
	s.notices = append(s.notices, notice)
}

// toldAll has the subtasks told what they were not told yet, in any order.
func (s *soak) toldAll() {
	s.d.Shuffle(len(s.notices), func(i, j int) { s.notices[i], s.notices[j] = s.notices[j], s.notices[i] })
	for _, notice := range s.notices {
		notice()
	}
	s.notices = nil
}

// crash ends the process, and begins another one. All that it was not done with is litter.
func (s *soak) crash() {
	s.t.Helper()
	s.count.crashes++
	var kept []string
	if s.c != nil {
		for _, r := range s.c.Retained() {
			kept = append(kept, storage.Key(r.URI))
		}
	}
	s.faulty.Crash()
	s.stop()
	s.must(s.local.Close())
	unnamed := s.unnamed()
	for uri := range unnamed {
		if !s.litter[uri] && !s.touched[uri] {
			s.t.Fatalf("after a crash there is a file of which nothing was being done: %s", s.inner.story(uri))
		}
	}
	s.count.litter += len(unnamed) - len(s.litter)
	s.litter = unnamed
	s.sums = s.chance(0.5)
	s.damage()
	s.start()
	now := s.c.Retained()
	for _, uri := range kept {
		if !slices.ContainsFunc(now, func(r incremental.Completed) bool { return storage.Key(r.URI) == uri }) {
			s.t.Fatalf("lost: %s", s.inner.story(uri))
		}
	}
}

// damage loses local copies, or parts of them.
func (s *soak) damage() {
	if s.chance(0.4) {
		return
	}
	rate := []float64{0.02, 0.3, 1}[s.d.IntN(3)]
	for _, dir := range []string{"local-a", "local-b"} {
		s.must(filepath.WalkDir(filepath.Join(s.base, dir), func(path string, e os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // all processes had their copies in memory
			}
			if err != nil || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") || !s.chance(rate) {
				return err
			}
			if s.chance(0.4) {
				return os.Remove(path)
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if s.sums && info.Size() > 0 && s.chance(0.5) {
				return flip(path, s.d.Int64N(info.Size()))
			}
			return os.Truncate(path, info.Size()/2)
		}))
	}
}

// flip changes a byte of a file.
func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= 0x40
	if err == nil {
		_, err = f.WriteAt(b[:], at)
	}
	return errors.Join(err, f.Close())
}

// restart brings the job back from its newest checkpoint, or where it began.
func (s *soak) restart() {
	s.t.Helper()
	for try := 0; ; try++ {
		if s.faulty.Crashed() {
			s.crash()
		}
		s.calm.Store(try >= 5)
		err := s.tryRestart()
		s.calm.Store(false)
		if err == nil {
			s.count.restores++
			return
		}
		s.count.failedRestores++
		s.excused(err)
		s.stop()
	}
}

func (s *soak) tryRestart() error {
	s.t.Helper()
	latest, ok := s.c.Latest()
	parallelism := 1 + s.d.IntN(4)
	uri := s.sourced
	switch {
	case ok && s.completed == 0 && s.sourced != "" && !soakBelow(s.dir, latest.URI):
		// What was handed on with the job may be newer than what it is to begin with.
	case ok:
		if latest.ID < s.completed {
			s.t.Fatalf("the newest checkpoint is %d, not %d", latest.ID, s.completed)
		}
		uri = latest.URI
	case s.completed > 0:
		s.t.Fatalf("there is no checkpoint, not even %d", s.completed)
	case uri == "": // nothing yet
		s.content = make([]uint32, s.keys)
		subtasks, err := s.deploy(s.faulty, nil, "", parallelism)
		s.subtasks = subtasks
		return err
	}
	m, err := s.c.Restore(s.t.Context(), uri, s.mode)
	if err != nil {
		return err
	}
	s.claimed = s.c.Claimed()
	s.subtasks, err = s.deploy(s.faulty, m, storage.Dir(metadataFile(uri)), parallelism)
	if err != nil {
		return err
	}
	s.content = slices.Clone(s.models[storage.Key(metadataFile(uri))])
	s.check(uri, s.subtasks, s.content)
	return nil
}

func metadataFile(uri string) string {
	if storage.Base(uri) == MetadataName {
		return uri
	}
	return storage.Join(uri, MetadataName)
}

func (s *soak) job() string { return storage.Base(s.dir) }

// deploy opens the subtasks, with the state of a snapshot if there is one.
func (s *soak) deploy(primary storage.FS, m *metadata.Snapshot, dir string, parallelism int) (subtasks []*soakTask, err error) {
	s.t.Helper()
	defer func() {
		if err != nil {
			for _, k := range subtasks {
				s.close(k)
			}
			subtasks = nil
		}
	}()
	for i := range parallelism {
		s.opened++
		groups := keygroup.RangeOf(i, soakGroups, parallelism)
		b, err := pebble.Open(serializer.ForLong(), pebble.Options[int64]{
			MaxParallelism: soakGroups, KeyGroups: groups, Dir: filepath.Join(s.base, "db", strconv.Itoa(s.opened)), Memory: s.memory,
			Tuning: pebble.Tuning{FileSize: 256 << 10, WriteBuffer: 2 << 20, LevelBase: 2 << 20},
			Timers: pebble.TimerStore(s.d.IntN(2)), Clock: s.clock.Load,
		})
		s.must(err)
		s.running[b] = true
		k := &soakTask{b: b}
		subtasks = append(subtasks, k)
		k.task, err = s.local.Task(localrecovery.TaskID{Job: s.job(), Vertex: "soak", Subtask: i})
		s.must(err)
		openers := s.openers(k)
		before := 0 // are opened before the state is restored
		if m != nil && s.chance(0.3) {
			before = s.d.IntN(len(openers) + 1)
		}
		for _, open := range openers[:before] {
			s.must(open())
		}
		if m != nil {
			var h backend.Handles
			for _, st := range m.Operators[0].Subtasks {
				if st.State.ManagedKeyed != nil {
					h.Managed = append(h.Managed, st.State.ManagedKeyed)
				}
				if st.State.RawKeyed != nil {
					h.Raw = append(h.Raw, st.State.RawKeyed)
				}
			}
			h = soakClip(h, groups)
			from := k.task.Restore(s.t.Context(), m.CheckpointID, primary)
			err := b.Restore(s.t.Context(), backend.Files{FS: from, Dir: dir}, h)
			n := from.Stats()
			s.count.localFiles += n.LocalFiles
			s.count.remoteFiles += n.RemoteFiles
			s.count.localBytes += n.LocalBytes
			s.count.remoteBytes += n.RemoteBytes
			if err != nil {
				return subtasks, err
			}
		}
		for _, open := range openers[before:] {
			s.must(open())
		}
	}
	s.local.Clean(func(id localrecovery.TaskID) bool { return id.Job == s.job() && id.Subtask < parallelism })
	return subtasks, nil
}

// openers open the states of a subtask, at times in another order than usually, so that they have other numbers.
func (s *soak) openers(k *soakTask) []func() error {
	b, void := k.b, serializer.ForVoidNamespace()
	list := []func() error{
		func() (err error) {
			k.value, err = pebble.OpenValue(b, backend.Descriptor[struct{}, []byte]{Name: "value", Namespace: void, Value: serializer.ForBytes()})
			return err
		},
		func() (err error) {
			k.maps, err = pebble.OpenMap(b, backend.MapDescriptor[struct{}, int32, int64]{Name: "map", Namespace: void, UserKey: serializer.ForInt(), Value: serializer.ForLong()})
			return err
		},
		func() (err error) {
			k.list, err = pebble.OpenList(b, backend.Descriptor[struct{}, int64]{Name: "list", Namespace: void, Value: serializer.ForLong()})
			return err
		},
		func() (err error) {
			k.brief, err = pebble.OpenValue(b, backend.Descriptor[struct{}, int64]{
				Name: "brief", Namespace: void, Value: serializer.ForLong(), TTL: s.ttl(),
			})
			return err
		},
		func() (err error) {
			k.timer, err = pebble.OpenTimers(b, backend.TimersDescriptor[struct{}]{Service: "soak", Namespace: void})
			return err
		},
	}
	if s.chance(0.2) {
		s.d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

func (s *soak) ttl() *backend.TTL {
	return &backend.TTL{After: time.Duration(s.life) * time.Millisecond, CleanUp: 2}
}

// soakClip gives the handles that have some of the key groups.
func soakClip(h backend.Handles, groups keygroup.Range) (clipped backend.Handles) {
	some := func(k metadata.Keyed) bool {
		var r metadata.KeyGroupRange
		switch k := k.(type) {
		case *metadata.Incremental:
			r = k.KeyGroups
		case *metadata.KeyGroups:
			r.Start, r.Count = int32(k.Range().Start), int32(k.Range().End-k.Range().Start+1)
		}
		return r.Count == 0 || int(r.Start) <= groups.End && int(r.Start)+int(r.Count)-1 >= groups.Start
	}
	for _, k := range h.Managed {
		if some(k) {
			clipped.Managed = append(clipped.Managed, k)
		}
	}
	for _, k := range h.Raw {
		if some(k) {
			clipped.Raw = append(clipped.Raw, k)
		}
	}
	return clipped
}

// check compares all state with what it must be.
func (s *soak) check(what string, subtasks []*soakTask, content []uint32) {
	s.t.Helper()
	values, mapped, lists, briefs, timers := 0, 0, 0, 0, 0
	expired := func(version uint32) bool { return s.ttl().Expired(int64(version), s.clock.Load()) }
	for _, k := range subtasks {
		for _, state := range k.b.States() {
			for e, err := range k.b.Entries(state.Name, k.b.KeyGroups()) {
				s.must(err)
				key := int64(binary.BigEndian.Uint64(e.Key))
				version := content[key]
				ok := version != 0
				switch e.State.Type {
				case backend.TypeValue:
					if state.Name == "brief" {
						ok = ok && soakBrief(key) && string(e.Value) == string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(version)), uint64(version)))
						if !expired(version) { // else it may be there or not
							briefs++
						}
						break
					}
					values++
					ok = ok && len(e.Value) == 4+48 && string(e.Value[4:]) == string(soakValue(key, version))
				case backend.TypeMap:
					mapped++
					at := int(int32(binary.BigEndian.Uint32(e.UserKey)))
					ok = ok && at < soakMapped(key, version) && int64(binary.BigEndian.Uint64(e.Value)) == int64(version)
				case backend.TypeList:
					lists++
					ok = ok && string(e.Value) == string(soakList(soakListed(key, version)))
				case backend.TypeTimers:
					timers++
					ok = ok && soakTimed(key) && e.Timestamp == int64(version)
				}
				if !ok {
					s.t.Fatalf("%s: key %d, which must be of version %d: %s has %x %x at %d", what, key, version, state.Name, e.UserKey, e.Value, e.Timestamp)
				}
			}
		}
	}
	for key, version := range content {
		if version == 0 {
			continue
		}
		values--
		mapped -= soakMapped(int64(key), version)
		if soakListed(int64(key), version) != nil {
			lists--
		}
		if soakBrief(int64(key)) && !expired(version) {
			briefs--
		}
		if soakTimed(int64(key)) {
			timers--
		}
	}
	if values != 0 || mapped != 0 || lists != 0 || briefs != 0 || timers != 0 {
		s.t.Fatalf("%s: %+d values, %+d entries of maps, %+d lists, %+d values that expire, %+d timers", what, values, mapped, lists, briefs, timers)
	}
}

// change changes some keys: here and there, or side by side.
func (s *soak) change() {
	s.t.Helper()
	n := int(float64(s.keys) * s.changes * []float64{0.1, 1, 1, 3}[s.d.IntN(4)])
	if s.tick == 0 {
		n = s.keys
	}
	side, start := s.chance(0.4), s.d.IntN(s.keys)
	for i := range n {
		key := int64(start+i) % int64(s.keys)
		if !side && n < s.keys {
			key = int64(s.d.IntN(s.keys))
		}
		s.tick++
		s.clock.Store(int64(s.tick))
		version := s.tick
		if s.chance(0.1) {
			version = 0
		}
		s.set(key, version)
	}
}

func (s *soak) set(key int64, version uint32) {
	s.t.Helper()
	old := s.content[key]
	k := s.subtasks[keygroup.ForHash(keygroup.LongHash(key), soakGroups)*len(s.subtasks)/soakGroups]
	s.must(k.b.SetKey(key))
	if version == 0 {
		s.must(k.value.Clear())
	} else {
		s.must(k.value.Set(soakValue(key, version)))
	}
	was, is := soakMapped(key, old), soakMapped(key, version)
	for u := range is {
		s.must(k.maps.Put(int32(u), int64(version)))
	}
	for u := is; u < was; u++ {
		s.must(k.maps.Delete(int32(u)))
	}
	if list := soakListed(key, version); list != nil {
		s.must(k.list.Set(list[:1]))
		s.must(k.list.Add(list[1:]...))
	} else if soakListed(key, old) != nil {
		s.must(k.list.Clear())
	}
	if soakBrief(key) {
		if version == 0 {
			s.must(k.brief.Clear())
		} else {
			s.must(k.brief.Set(int64(version)))
		}
	}
	if soakTimed(key) {
		if old != 0 {
			s.must(k.timer.Delete(struct{}{}, int64(old)))
		}
		if version != 0 {
			s.must(k.timer.Register(struct{}{}, int64(version)))
		}
	}
	s.content[key] = version
}

// begin begins a checkpoint, or a savepoint.
func (s *soak) begin(savepoint bool) {
	s.t.Helper()
	id := s.c.NextID()
	s.count.begun++
	f := &soakFlight{kind: metadata.KindCheckpoint, content: slices.Clone(s.content), gate: make(chan struct{})}
	var err error
	o := backend.SnapshotOptions{Format: backend.FormatIncremental}
	if savepoint {
		f.p, err = s.c.BeginSavepoint(id, storage.Join(s.root, fmt.Sprintf("savepoint-%s-%012x", s.job()[:6], s.d.Uint64()>>16)))
		f.kind, o = metadata.KindCanonicalSavepoint, backend.SnapshotOptions{Compress: s.chance(0.5)}
		if s.chance(0.5) {
			f.kind, o = metadata.KindNativeSavepoint, backend.SnapshotOptions{Format: backend.FormatRocksDB, Savepoint: true}
		}
	} else {
		f.p, err = s.c.Begin(id)
	}
	s.must(err)
	s.toldAll() // a backend must know of what the new one may share with
	o.Rebase = !savepoint && f.p.Full()
	f.states, f.errs = make([]metadata.Keyed, 2*len(s.subtasks)), make([]error, len(s.subtasks))
	job := s.job()
	note := func(uri string) { s.inner.note(uri, "written for %s %d of %s", f.kind, id, job) }
	for i, k := range s.subtasks {
		snapshot, err := k.b.Snapshot(id, o)
		s.must(err)
		t := backend.Target{FS: gatedFS{f.p.FS(), f.gate, note}, Dir: f.p.Dir(), Shared: f.p.SharedDir()}
		var local *localrecovery.Copy
		if !savepoint {
			local = k.task.Begin(id)
			t.FS = local.FS(t.FS)
		}
		f.done.Go(func() {
			f.states[2*i], f.errs[i] = snapshot.Write(s.t.Context(), t)
			f.states[2*i+1] = snapshot.Raw()
			if local != nil && f.errs[i] == nil {
				local.Seal(s.t.Context())
			}
		})
	}
	if !s.chance(0.3) {
		f.open.Do(func() { close(f.gate) }) // else it takes its time
	}
	s.flights = append(s.flights, f)
}

// gone tells the subtasks that a checkpoint won't complete.
func (s *soak) gone(f *soakFlight) {
	if f.savepoint() {
		return
	}
	s.tell(func() {
		for _, k := range s.subtasks {
			k.b.CheckpointAborted(f.p.ID())
			k.task.Discard(f.p.ID())
		}
	})
}

// abort ends a checkpoint while it is written, or after.
func (s *soak) abort(f *soakFlight) {
	s.t.Helper()
	s.count.aborted++
	if s.chance(0.5) {
		_ = f.release()
	}
	if err := f.p.Abort(s.t.Context()); err != nil {
		s.excused(err)
	}
	s.gone(f)
	_ = f.release() // those who write come late
}

// finish completes a checkpoint, if nothing went wrong.
func (s *soak) finish(f *soakFlight) {
	s.t.Helper()
	if err := f.release(); err != nil {
		s.excused(err)
		if errors.Is(f.p.Err(), incremental.ErrSubsumed) {
			s.count.subsumed++
		} else {
			s.count.failed++
		}
		if err := f.p.Abort(s.t.Context()); err != nil {
			s.excused(err)
		}
		s.gone(f)
		return
	}
	id := f.p.ID()
	op := metadata.Operator{ID: metadata.UIDHash("soak"), Parallelism: int32(len(f.errs)), MaxParallelism: soakGroups, ChainLength: 1}
	for i := range f.errs {
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: &metadata.SubtaskState{ManagedKeyed: f.states[2*i], RawKeyed: f.states[2*i+1]}})
	}
	uri := storage.Join(f.p.Dir(), MetadataName)
	s.models[storage.Key(uri)] = f.content // also if nobody is told that it completed
	m := &metadata.Snapshot{Version: metadata.Version4, CheckpointID: id, Properties: metadata.PropertiesOf(f.kind), Operators: []metadata.Operator{op}}
	done, err := f.p.Complete(s.t.Context(), m)
	if err != nil {
		s.excused(err)
		if errors.Is(err, incremental.ErrSubsumed) {
			s.count.subsumed++
		} else {
			s.count.failed++
		}
		s.gone(f)
		return
	}
	if f.savepoint() {
		s.count.savepoints++
		if f.kind == metadata.KindNativeSavepoint {
			s.count.native++
		}
		s.tell(func() { // which says nothing to a backend; its local copies are those of the checkpoint before
			for _, k := range s.subtasks {
				k.b.CheckpointCompleted(id)
			}
		})
		s.savepoints = append(s.savepoints, uri)
		return
	}
	s.count.completed++
	s.count.uploaded += done.CheckpointedSize
	s.count.full += done.FullSize
	s.completed = id
	for ref := range m.Refs() {
		s.inner.named(storage.Key(uri), storage.Key(ref.Path))
		delete(s.litter, storage.Key(ref.Path))
	}
	s.tell(func() {
		for _, k := range s.subtasks {
			k.b.CheckpointCompleted(id)
			k.task.Confirm(id)
		}
	})
	s.forget()
}

// forget drops the content of snapshots that are gone.
func (s *soak) forget() {
	if len(s.models) < 40 {
		return
	}
	files := s.files()
	pending := func(uri string) bool {
		return slices.ContainsFunc(s.flights, func(f *soakFlight) bool { return storage.Key(f.p.Dir()) == storage.Dir(uri) })
	}
	maps.DeleteFunc(s.models, func(uri string, _ []uint32) bool { return !files[uri] && !pending(uri) })
}

// orderly ends the job in peace: nothing may be there but what snapshots name, and what crashes left.
func (s *soak) orderly() {
	s.t.Helper()
	s.calm.Store(true)
	defer s.calm.Store(false)
	for {
		s.stop()
		err := s.c.Close(s.t.Context())
		if err == nil {
			break
		}
		s.excused(err)
		s.crash()
	}
	s.must(s.local.Close())
	unnamed := s.unnamed()
	for uri := range unnamed {
		switch {
		case s.litter[uri]:
		case s.ownerless(uri):
			s.litter[uri] = true
			s.count.ownerless++
		default:
			s.t.Errorf("left behind: %s", s.inner.story(uri))
		}
	}
	for uri := range s.litter {
		if !unnamed[uri] {
			s.t.Errorf("gone: %s", s.inner.story(uri))
		}
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
	s.c = nil
}

// ownerless says that a file is none of the job's, as it is in the directory of one before from which it claimed nothing, and that snapshots
// named it which are gone: those of a job that had claimed it, which were claimed in turn without a word of that.
func (s *soak) ownerless(uri string) bool {
	s.inner.mu.Lock()
	defer s.inner.mu.Unlock()
	return !s.owns(uri) && len(s.inner.namers[uri]) > 0 && slices.ContainsFunc(s.ended, func(dir string) bool { return soakBelow(dir, uri) })
}

// owns says that a file is the job's: what it wrote, and what it claimed.
func (s *soak) owns(uri string) bool {
	if soakBelow(s.dir, uri) {
		return true
	}
	return slices.ContainsFunc(s.claimed, func(claimed string) bool {
		dir := storage.Dir(metadataFile(claimed))
		_, checkpoint := incremental.CheckpointNumber(storage.Base(dir))
		return soakBelow(dir, uri) || checkpoint && soakBelow(storage.Join(storage.Dir(dir), "shared"), uri)
	})
}

// another job goes on from a checkpoint or savepoint of this one.
func (s *soak) another() {
	s.t.Helper()
	latest, ok := s.c.Latest()
	if !ok {
		return
	}
	source := latest.URI
	if n := len(s.savepoints); n > 0 && s.chance(0.4) {
		source = s.savepoints[s.d.IntN(n)]
	}
	if s.completed == 0 || !s.files()[storage.Key(source)] {
		return // it has nothing of its own yet
	}
	s.orderly()
	s.count.jobs++
	s.number++
	s.ended = append(s.ended, s.dir)
	s.dir = storage.Join(s.root, soakJob(s.number))
	s.mode = incremental.ClaimMode(s.d.IntN(3))
	handed := s.claimed
	s.sourced, s.claimed, s.completed = source, nil, 0
	switch s.mode {
	case incremental.Claim:
		s.count.claims++
		if source == latest.URI && len(handed) > 0 && s.chance(0.6) {
			s.count.handed++
			s.claimed = handed // with the checkpoint go files that the job before had claimed
		}
		s.savepoints = slices.DeleteFunc(s.savepoints, func(uri string) bool { return uri == source })
	case incremental.Legacy:
		s.count.legacies++
	}
	s.start()
	s.restart()
}

// present forgets the directories of old jobs in which nothing is left.
func (s *soak) present() {
	s.t.Helper()
	files := slices.Collect(maps.Keys(s.files()))
	s.ended = slices.DeleteFunc(s.ended, func(dir string) bool {
		return !slices.ContainsFunc(files, func(uri string) bool { return soakBelow(dir, uri) })
	})
}

// tidy is what a user does who needs disk space: the directories of old jobs go as soon as nobody uses anything in them.
func (s *soak) tidy() {
	s.t.Helper()
	if s.completed == 0 {
		return
	}
	s.present()
	s.ended = slices.DeleteFunc(s.ended, func(dir string) bool {
		p, err := PlanGC(s.t.Context(), s.inner, []string{s.root}, GCOptions{
			AuditOptions: AuditOptions{Grace: -1}, Retire: []string{dir}, Only: []string{dir}, AcceptMismatch: true,
		})
		s.must(err)
		if len(p.Refused) > 0 {
			if !strings.Contains(strings.Join(p.Refused, "\n"), "uses") {
				s.t.Fatalf("retire %s: %q", dir, p.Refused)
			}
			return false
		}
		named := s.named()
		s.execute(p)
		s.orphaned(dir, named)
		return true
	})
	for uri := range s.litter {
		if !s.files()[uri] {
			delete(s.litter, uri)
		}
	}
}

// orphaned notes what nobody deletes any more as only snapshots in a directory named it that is gone. The job that runs may have
// claimed it, but these were not its own.
func (s *soak) orphaned(dir string, named map[string]map[string]bool) {
	s.t.Helper()
	unnamed := s.unnamed()
	for by, uris := range named {
		if !soakBelow(dir, by) {
			continue
		}
		for uri := range uris {
			if unnamed[uri] && !s.litter[uri] {
				s.litter[uri] = true
				s.count.ownerless++
			}
		}
	}
}

func (s *soak) execute(p *GCPlan) {
	s.t.Helper()
	s.inner.enter("garbage collection, job %s", s.job())
	run, err := p.Execute(s.t.Context(), s.inner, GCExecuteOptions{})
	s.must(err)
	if run.Failed.Files+run.Skipped.Files > 0 || run.Stopped != "" {
		s.t.Fatalf("%+v", run)
	}
}

// restoreAll restores every snapshot that there is, and compares it. It gives how many files came from where.
func (s *soak) restoreAll() {
	s.t.Helper()
	for key := range s.named() {
		data, err := storage.ReadAll(s.t.Context(), s.inner, key, 0)
		s.must(err)
		m, err := metadata.Decode(data)
		s.must(err)
		subtasks, err := s.deploy(s.inner, m, storage.Dir(key), 1+s.d.IntN(4))
		s.must(err)
		s.check(key, subtasks, s.models[key])
		for _, k := range subtasks {
			s.close(k)
		}
	}
}

// run begins n checkpoints, and more until enough of them have completed.
func (s *soak) run(n, completed int) {
	s.t.Helper()
	s.start()
	s.restart()
	for i := 0; i < n || s.count.completed < completed; i++ {
		if i == 4*n {
			s.t.Fatalf("%d checkpoints were begun, and only %d have completed", i, s.count.completed)
		}
		s.inner.enter("turn %d, job %s", i, s.job())
		if i > 0 && i%100 == 0 {
			s.t.Logf("%d checkpoints were begun, %d have completed", i, s.count.completed)
		}
		if s.faulty.Crashed() {
			s.crash()
			s.restart()
		}
		s.change()
		s.begin(s.chance(0.04))
		for len(s.flights) > 0 && (len(s.flights) > 3 || s.chance(0.6)) {
			at := 0
			if s.chance(0.2) {
				at = s.d.IntN(len(s.flights)) // out of order
			}
			f := s.flights[at]
			s.flights = slices.Delete(s.flights, at, at+1)
			if s.chance(0.12) {
				s.abort(f)
			} else {
				s.finish(f)
			}
		}
		if s.chance(0.05) {
			s.c.Rebase()
		}
		switch p := s.d.Float64(); {
		case p < 0.05:
			s.crash()
			s.restart()
		case p < 0.12:
			s.count.failovers++
			s.stop()
			s.damage()
			s.restart()
		case p < 0.16:
			s.another()
		case p < 0.20:
			s.tidy()
		}
	}
}

// checkpoint is one from beginning to end.
func (s *soak) checkpoint() {
	s.t.Helper()
	s.begin(false)
	f := s.flights[len(s.flights)-1]
	s.flights = s.flights[:len(s.flights)-1]
	s.finish(f)
}

// audited gives how many files there are of no snapshot, those included that are too young or undecided.
func (s *soak) audited() int64 {
	s.t.Helper()
	r, err := Audit(s.t.Context(), s.inner, []string{s.root}, AuditOptions{Grace: -1})
	s.must(err)
	if r.Missing+r.WrongSize+r.Unseen > 0 || !r.Decided() {
		s.t.Errorf("audit: %d files are missing, %d of wrong size, %d not seen", r.Missing, r.WrongSize, r.Unseen)
	}
	// What lies in the directory of a job without a snapshot is undecided, as it could be in progress.
	return r.Totals.Unreferenced.Files + r.Totals.Undecided.Files + r.Totals.Young.Files
}

// collect deletes what nobody uses. All of it must be what crashes left.
func (s *soak) collect(o GCOptions) {
	s.t.Helper()
	o.AuditOptions, o.KeepSavepoints, o.EmptyDirs, o.AcceptMismatch = AuditOptions{Grace: -1}, 1000, true, true
	p, err := PlanGC(s.t.Context(), s.inner, []string{s.root}, o)
	s.must(err)
	unnamed := s.unnamed()
	for _, uri := range planned(s.t, p) {
		retired := slices.ContainsFunc(o.Retire, func(dir string) bool { return soakBelow(dir, uri) })
		if key := storage.Key(uri); !retired && !(s.litter[key] && unnamed[key]) {
			s.t.Errorf("to be deleted: %s, which no crash left", uri)
		}
	}
	s.execute(p)
	files := s.files()
	maps.DeleteFunc(s.litter, func(uri string, _ bool) bool { return !files[uri] })
}

// soakJob is the id of a job. Savepoints have the beginning of it in their names.
func soakJob(number int) string { return fmt.Sprintf("%06x%026x", number+1, 0) }

func soakBelow(dir, uri string) bool {
	_, ok := storage.Rel(storage.Key(dir), storage.Key(uri))
	return ok
}

// end checks what is there after all.
func (s *soak) end() {
	s.t.Helper()
	s.peace.Store(true)
	for n := s.count.completed; s.count.completed == n; { // the newest, with local copies
		if s.faulty.Crashed() || s.memoryCopies {
			s.crash()
			s.restart()
		}
		s.checkpoint()
	}
	s.toldAll()
	latest, _ := s.c.Latest()
	parallelism, retained := len(s.subtasks), s.c.Retained()
	s.orderly()
	s.start()
	now := s.c.Retained()
	for _, r := range retained {
		if !slices.ContainsFunc(now, func(n incremental.Completed) bool { return n.URI == r.URI }) {
			s.t.Errorf("%s was retained", r.URI)
		}
	}
	m, err := s.c.Restore(s.t.Context(), latest.URI, incremental.NoClaim)
	s.must(err)
	local, remote := s.count.localFiles, s.count.remoteFiles
	s.subtasks, err = s.deploy(s.inner, m, latest.Dir, parallelism)
	s.must(err)
	s.check("the local copy", s.subtasks, s.models[storage.Key(latest.URI)])
	if local, remote = s.count.localFiles-local, s.count.remoteFiles-remote; local == 0 || remote > 0 {
		s.t.Errorf("%d files were local, %d not", local, remote)
	}
	s.stop()
	s.local.Clean(func(localrecovery.TaskID) bool { return false })
	s.restoreAll()
	s.must(s.c.Close(s.t.Context()))

	if unused := s.audited(); unused != int64(len(s.litter)) {
		s.t.Errorf("%d files are unused, crashes left %d", unused, len(s.litter))
	}
	var o GCOptions
	used, files := map[string]bool{}, s.files()
	for _, uris := range s.named() {
		maps.Copy(used, uris)
	}
	for _, dir := range s.ended {
		below := func(uri string) bool { return soakBelow(dir, uri) }
		// Of one from which the job has claimed, all metadata may be gone, and files in use.
		if slices.ContainsFunc(slices.Collect(maps.Keys(files)), below) && !slices.ContainsFunc(slices.Collect(maps.Keys(used)), below) {
			o.Retire = append(o.Retire, dir) // only who knows that the job has ended can say so
		}
	}
	s.collect(o)
	// What may belong to a checkpoint or savepoint in progress stays, as nobody says here that a job has ended.
	if unused := s.audited(); unused != int64(len(s.litter)) {
		s.t.Errorf("after garbage collection %d files are unused; crashes left %d", unused, len(s.litter))
	}
	for uri := range s.litter {
		savepoint := strings.HasPrefix(storage.Base(storage.Dir(uri)), "savepoint-")
		if !savepoint && !slices.ContainsFunc(s.ended, func(dir string) bool { return soakBelow(dir, uri) }) {
			s.t.Errorf("not deleted: %s", uri)
		}
	}
	s.restoreAll()
	s.must(s.local.Close())

	// Once the job has no more use for what earlier ones left, these can go.
	s.start()
	s.restart()
	s.c.Rebase()
	for range 3 {
		s.change()
		s.checkpoint()
	}
	s.orderly()
	s.present()
	s.collect(GCOptions{Retire: s.ended})
	left := 0 // savepoints that a crash left may be in progress for all that is known
	for uri := range s.unnamed() {
		if left++; !s.litter[uri] || !strings.HasPrefix(storage.Base(storage.Dir(uri)), "savepoint-") {
			s.t.Errorf("unused at last: %s", uri)
		}
	}
	if unused := s.audited(); unused != int64(left) {
		s.t.Errorf("%d files are unused at last, the audit says %d", left, unused)
	}
	s.start() // for its local copies
	s.local.Clean(func(localrecovery.TaskID) bool { return false })
	s.restoreAll()
	s.must(s.c.Close(s.t.Context()))
	s.must(s.local.Close())
	c := s.count
	s.t.Logf("checkpoints: %d begun, %d completed, %d aborted, %d subsumed, %d failed; %d savepoints, %d of them native; %d notices came late", c.begun, c.completed,
		c.aborted, c.subsumed, c.failed, c.savepoints, c.native, c.late)
	s.t.Logf("%d crashes, which left %d files; %d failovers, %d jobs, of which %d claimed (%d with what the one before had claimed), %d legacy, which left %d files to nobody",
		c.crashes, c.litter, c.failovers, c.jobs+1, c.claims, c.handed, c.legacies, c.ownerless)
	s.t.Logf("%d restores, %d that failed and were tried again", c.restores, c.failedRestores)
	s.t.Logf("restored: %d files, %d MB local; %d files, %d MB remote", c.localFiles, c.localBytes>>20, c.remoteFiles, c.remoteBytes>>20)
	s.t.Logf("uploaded: %d MB; all checkpoints in full: %d MB", c.uploaded>>20, c.full>>20)
}

// TestSoak is the life of some jobs on a real disk, with everything that happens to them. Afterwards each snapshot restores to what it
// must, and garbage collection finds what crashes left, and nothing else. DREY_SEED repeats a run as far as time does not decide,
// DREY_SOAK=1 makes it a long one.
func TestSoak(t *testing.T) {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("DREY_SEED"), strconv.FormatInt(time.Now().UnixNano()%1_000_000, 10)), 10, 64)
	if err != nil {
		t.Fatalf("DREY_SEED: %v", err)
	}
	t.Logf("DREY_SEED=%d", seed)
	n, completed, keys, changes, steps := 60, 0, 20_000, 0.05, 3000
	switch {
	case os.Getenv("DREY_SOAK") == "1":
		n, completed, keys, changes, steps = 500, 500, 1_000_000, 0.005, 15_000
	case raceEnabled:
		n, keys = 25, 2_000
	}
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 64 << 20, Backends: 4})
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	s := &soak{
		t: t, d: rand.New(rand.NewPCG(seed, 0)), keys: keys, changes: changes, steps: steps, base: base, root: "file://" + filepath.ToSlash(filepath.Join(base, "flink")), memory: memory,
		inner: &soakDisk{
			Local: storage.NewLocal(storage.LocalOptions{NoSync: true}), events: map[string][]string{}, namers: map[string]map[string]bool{},
		},
		life: int64(20 * changes * float64(keys)), models: map[string][]uint32{}, litter: map[string]bool{},
		running: map[*pebble.Backend[int64]]bool{},
	}
	t.Cleanup(func() { // before the directory goes, if the test failed
		for _, f := range s.flights {
			_ = f.release()
		}
		for b := range s.running {
			_ = b.Close()
		}
		memory.Close()
	})
	s.dir = storage.Join(s.root, soakJob(s.number))
	s.run(n, completed)
	s.inner.enter("the end, job %s", s.job())
	s.end()
}
