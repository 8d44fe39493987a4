package tools

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// InspectOptions are the options of [Inspect]; the zero value is the default.
type InspectOptions struct {
	// UIDs are candidates for the uids of operators; those of metadata
	// before version 5 are known by hash only.
	UIDs []string
	// Top is how many of the largest inline handles to list; with a positive
	// Top the bytes of the metadata file are broken down as well.
	Top int
	// States reads the headers of the state files, for names, types and serializers of states.
	States bool
	// Jobs is the number of files to read at once with States; 0 means 4 for each CPU, at least 16.
	Jobs int
	// Partial accepts a damaged file, and shows what comes before the damage.
	Partial bool
}

// Inspection is what a metadata file says.
type Inspection struct {
	// Snapshot is the metadata file, Directory the directory that holds it.
	Snapshot  string `json:"snapshot"`
	Directory string `json:"directory"`
	// Chosen says which checkpoint was taken if a job's directory was named.
	Chosen string `json:"chosen,omitempty"`
	// Damage is the error that ended the decoding; only with Partial.
	Damage string `json:"damage,omitempty"`

	MetadataBytes int64            `json:"metadataBytes"`
	Version       metadata.Version `json:"version"`
	Dialect       string           `json:"dialect,omitempty"`
	// WrittenBy and ReadBy are releases of Flink.
	WrittenBy    string `json:"writtenBy"`
	ReadBy       string `json:"readBy"`
	CheckpointID int64  `json:"checkpointID"`
	// Kind is what the snapshot is; KindGuessed says that its properties don't tell.
	Kind        string `json:"kind"`
	KindGuessed bool   `json:"kindGuessed,omitempty"`
	Stop        string `json:"stop,omitempty"`
	Retention   string `json:"retention,omitempty"`

	SelfContained SelfContained  `json:"selfContained"`
	Files         FileSums       `json:"files"`
	Places        []PlaceInfo    `json:"places"`
	MasterStates  []MasterInfo   `json:"masterStates,omitempty"`
	Operators     []OperatorInfo `json:"operators"`
	// UnmatchedUIDs are the candidates that no operator has.
	UnmatchedUIDs []string `json:"unmatchedUIDs,omitempty"`
	// Classes says what the metadata file's bytes are, Largest which inline handles are the largest.
	Classes  map[string]int64 `json:"metadataClasses,omitempty"`
	Largest  []LargeField     `json:"largest,omitempty"`
	Warnings []string         `json:"warnings"`
	Notes    []string         `json:"notes"`
	// Problems are state files of which the header could not be read; only with States.
	Problems []*StateProblem `json:"problems,omitempty"`
}

// SelfContained says whether a snapshot can be moved by copying its directory.
type SelfContained struct {
	Yes bool `json:"yes"`
	// Headline says it in a sentence.
	Headline string `json:"headline"`
	// Handles that name a file or directory: relative ones, and absolute ones by place.
	Relative int           `json:"relativeHandles"`
	Absolute int           `json:"absoluteHandles"`
	ByPlace  map[Place]int `json:"absoluteByPlace,omitempty"`
	// Scattered are those that entropy injection put elsewhere.
	Scattered int `json:"scatteredHandles,omitempty"`
	// Convertible says that relocate --make-relative can make the handles relative.
	Convertible bool `json:"convertible,omitempty"`
	// Blockers are the reasons why it is not self-contained.
	Blockers []Blocker `json:"blockers,omitempty"`
}

// Blocker is a group of handles that keep a snapshot from being self-contained.
type Blocker struct {
	Place     Place  `json:"place"`
	Directory string `json:"directory"`
	Handle    string `json:"handle"`
	Handles   int    `json:"handles"`
	// Example describes the first one, Field is where it stands.
	Example string `json:"example"`
	Path    string `json:"path"`
	Field   string `json:"field"`
}

// FileSums sums up files.
type FileSums struct {
	// Handles name a file; Files are the distinct ones.
	Handles int `json:"handles"`
	Files   int `json:"files"`
	// PhysicalBytes is the size of the files, each counted once; of a merged
	// file as far as segments reach into it. LogicalBytes is the size of the
	// state in all handles, inline ones too. InlineBytes is in the metadata itself.
	PhysicalBytes int64 `json:"physicalBytes"`
	LogicalBytes  int64 `json:"logicalBytes"`
	InlineBytes   int64 `json:"inlineBytes"`
	// Directories are those of file merging.
	Directories int `json:"directories,omitempty"`
	// UnknownSizes is the number of handles that give no size.
	UnknownSizes int `json:"unknownSizes,omitempty"`
}

// PlaceInfo is a directory that handles name.
type PlaceInfo struct {
	// Directory has "*" in the place of injected entropy.
	Directory string `json:"directory"`
	Place     Place  `json:"place"`
	// Prefixes is the number of different characters in the place of "*".
	Prefixes int   `json:"entropyPrefixes,omitempty"`
	Handles  int   `json:"handles"`
	Files    int   `json:"files"`
	Bytes    int64 `json:"bytes"`
}

// MasterInfo is the state of a master hook.
type MasterInfo struct {
	Name    string `json:"name"`
	Version int32  `json:"version"`
	Bytes   int    `json:"bytes"`
}

// Inspect decodes the metadata file of a snapshot and sums it up. Without o.States no other file is read.
func Inspect(ctx context.Context, fsys storage.FS, arg string, o InspectOptions) (*Inspection, error) {
	s, err := OpenPartial(ctx, fsys, arg)
	switch {
	case err != nil && s != nil && o.Partial:
	case err != nil && s != nil:
		return nil, fmt.Errorf("%w (--partial shows what comes before it)", err)
	case err != nil:
		return nil, err
	}
	r := inspect(s, o)
	if err != nil {
		r.Damage = err.Error()
	}
	if o.States {
		var ops []*metadata.Operator
		for i := range s.Operators {
			ops = append(ops, &s.Operators[i])
		}
		headers, problems, err := headersOf(ctx, fsys, s, ops, o.Jobs)
		if err != nil {
			return nil, err
		}
		for i, op := range ops {
			r.Operators[i].Headers = headers[op]
		}
		r.Problems = problems
	}
	return r, nil
}

func inspect(s *Snapshot, o InspectOptions) *Inspection {
	r := &Inspection{
		Snapshot: s.URI, Directory: s.Dir, Chosen: s.Chosen, MetadataBytes: int64(len(s.Data)),
		Version: s.Version, WrittenBy: s.Version.Writers(), ReadBy: readBy(s.Snapshot), CheckpointID: s.CheckpointID,
		Warnings: []string{}, Notes: []string{}, Operators: []OperatorInfo{}, Places: []PlaceInfo{},
	}
	switch s.Dialect {
	case metadata.Dialect111:
		r.Dialect, r.WrittenBy = s.Dialect.String(), "1.11"
	case metadata.Dialect114:
		r.Dialect, r.WrittenBy = s.Dialect.String(), "1.14"
	}
	p := newPlaces(s)
	info := s.Properties.Info()
	r.Stop, r.Retention = info.Stop, info.Retention
	r.Kind, r.KindGuessed = kindOf(s, p)
	for _, m := range s.MasterStates {
		r.MasterStates = append(r.MasterStates, MasterInfo{m.Name.String(), m.Version, len(m.Payload)})
	}

	uids := newUIDs(o.UIDs)
	var large smallest
	for i := range s.Operators {
		op := summarize(i, &s.Operators[i], o.Top, &large)
		if op.UID == "" {
			op.MatchedUID = uids.match(op.ID)
		} else {
			uids.match(op.ID)
		}
		r.Files.LogicalBytes += op.Bytes
		r.Files.InlineBytes += op.InlineBytes
		r.Files.UnknownSizes += op.UnknownSizes
		r.Operators = append(r.Operators, op)
	}
	r.UnmatchedUIDs = uids.unmatched()
	r.countFiles(s, p)
	r.SelfContained.judge(r.Kind, p)
	if r.SelfContained.Convertible && s.Version <= metadata.Version2 {
		r.SelfContained.forOldVersion(s.Version)
	}
	if o.Top > 0 {
		r.breakDown(s, large)
	}
	r.remark(s, p, info)
	return r
}

// readBy says which releases of Flink read a snapshot's metadata.
func readBy(s *metadata.Snapshot) string {
	switch s.Dialect {
	case metadata.Dialect111:
		return "1.11 only: later releases can't read its in-flight data"
	case metadata.Dialect114:
		return "1.14 only: later releases can't read its changelog handles"
	}
	if s.Version > metadata.Version2 {
		return s.Version.Readers()
	}
	for r := range s.Refs() {
		if r.Kind != metadata.RefRelative {
			continue
		}
		if s.Version == metadata.Version1 {
			return "none: relative handles came with 1.11, which does not read version 1"
		}
		return "1.11 and later, because of its relative handles"
	}
	return s.Version.Readers()
}

// forOldVersion says what relative handles would cost, which came with Flink 1.11.
func (c *SelfContained) forOldVersion(v metadata.Version) {
	const offer = "can be converted with relocate --make-relative"
	if v == metadata.Version1 {
		c.Convertible = false
		c.Headline = strings.Replace(c.Headline, offer, "use relocate; this version has no relative handles", 1)
		return
	}
	c.Headline = strings.Replace(c.Headline, offer, offer+", for Flink 1.11 and later", 1)
}

// kindOf tells what a snapshot is, from its name and layout if it does not say.
func kindOf(s *Snapshot, p *places) (kind string, guessed bool) {
	if k := s.Properties.Info().Kind; k != metadata.KindUnknown {
		return k.String(), false
	}
	if k := s.Kind(); k != metadata.KindUnknown {
		return k.String(), true
	}
	if savepointPattern.MatchString(storage.Base(s.Dir)) || p.oldDir != "" && savepointPattern.MatchString(storage.Base(p.oldDir)) {
		return "savepoint", true
	}
	if p.job != "" || p.oldJob != "" {
		return metadata.KindCheckpoint.String(), true
	}
	for _, d := range p.known {
		if d.place == PlaceOtherJob {
			return metadata.KindCheckpoint.String(), true
		}
	}
	return metadata.KindUnknown.String(), true
}

// physical is a file, however many handles name it.
type physical struct {
	size int64 // -1 as long as unknown
	// What the operator that named it last has said; references come operator by operator.
	operator *metadata.Operator
	ofIt     int64
}

// physicals are the files of a snapshot by key.
type physicals struct {
	index map[string]int32
	files []physical
}

// get gives a file, and whether it is a new one. It is valid until the next call.
func (p *physicals) get(key string) (f *physical, first bool) {
	i, ok := p.index[key]
	if !ok {
		if p.index == nil {
			p.index = map[string]int32{}
		}
		i = int32(len(p.files))
		p.index[key] = i
		p.files = append(p.files, physical{size: -1})
	}
	return &p.files[i], !ok
}

// extent is how far into its file a reference reaches, -1 if it does not say.
func extent(ref metadata.Ref) int64 {
	if ref.Kind == metadata.RefSegment {
		return ref.Start + ref.Size
	}
	return ref.Size
}

// grow raises a size that is -1 as long as it is unknown.
func grow(size *int64, to int64) (by int64) {
	if to <= *size || to < 0 {
		return 0
	}
	by = to - max(0, *size)
	*size = to
	return by
}

// countFiles counts files once each: over all, by operator and by place.
func (r *Inspection) countFiles(s *Snapshot, p *places) {
	var all physicals
	byPlace := map[string]*PlaceInfo{}
	prefixes := map[string]map[string]bool{}
	byOperator := map[*metadata.Operator]*OperatorInfo{}
	for i := range s.Operators {
		byOperator[&s.Operators[i]] = &r.Operators[i]
	}
	blockers := map[string]*Blocker{}
	c := &r.SelfContained
	c.ByPlace = map[Place]int{}
	for ref := range s.Refs() {
		at := p.of(ref)
		where := storage.Key(at.pattern) // one place in several spellings
		place := byPlace[where]
		if place == nil {
			place = &PlaceInfo{Directory: at.pattern, Place: at.place}
			byPlace[where] = place
			prefixes[where] = map[string]bool{}
		}
		place.Handles++
		if at.scattered() {
			prefixes[where][refDir(ref)] = true
		}
		c.add(ref, at, blockers)
		if ref.Kind == metadata.RefDirectory {
			r.Files.Directories++
			continue
		}
		r.Files.Handles++
		f, first := all.get(storage.Key(actual(s.Dir, ref)))
		if first {
			place.Files++
		}
		by := grow(&f.size, extent(ref))
		r.Files.PhysicalBytes += by
		place.Bytes += by
		op := byOperator[ref.Operator]
		if f.operator != ref.Operator {
			f.operator, f.ofIt = ref.Operator, -1
			op.Files++
		}
		op.FileBytes += grow(&f.ofIt, extent(ref))
	}
	r.Files.Files = len(all.files)
	for where, place := range byPlace {
		place.Prefixes = len(prefixes[where])
		r.Places = append(r.Places, *place)
	}
	sort.Slice(r.Places, func(i, j int) bool {
		a, b := r.Places[i], r.Places[j]
		if a.Handles != b.Handles {
			return a.Handles > b.Handles
		}
		return a.Directory < b.Directory
	})
	for _, b := range blockers {
		c.Blockers = append(c.Blockers, *b)
	}
	sort.Slice(c.Blockers, func(i, j int) bool {
		a, b := c.Blockers[i], c.Blockers[j]
		if a.Handles != b.Handles {
			return a.Handles > b.Handles
		}
		return a.Directory+a.Handle < b.Directory+b.Handle
	})
}

// add counts one handle.
func (c *SelfContained) add(ref metadata.Ref, at placed, blockers map[string]*Blocker) {
	handle := ref.Kind.String()
	place := at.place
	if ref.Kind == metadata.RefRelative {
		c.Relative++
		if escapes(ref.Path) == "" {
			return
		}
		handle, place = "relative file that leads out of the directory", PlaceElsewhere
	} else {
		c.Absolute++
		c.ByPlace[at.place]++
		if at.scattered() {
			c.Scattered++
		}
	}
	key := handle + "\x00" + at.pattern
	b := blockers[key]
	if b == nil {
		b = &Blocker{Place: place, Directory: at.pattern, Handle: handle, Example: describe(ref), Path: ref.Path, Field: ref.Field()}
		blockers[key] = b
	}
	b.Handles++
}

// judge makes the headline. kind is the snapshot's.
func (c *SelfContained) judge(kind string, p *places) {
	total := c.Relative + c.Absolute
	c.Yes = len(c.Blockers) == 0
	if c.Yes {
		c.Headline = fmt.Sprintf("self-contained: yes - %s, 0 absolute; copy the directory as is", count(c.Relative, "relative handle"))
		if total == 0 {
			c.Headline = "self-contained: yes - all state is inline; copy the metadata file"
		}
		return
	}
	noun := "snapshot"
	switch {
	case strings.HasPrefix(kind, "savepoint"):
		noun = "savepoint"
	case strings.Contains(kind, "checkpoint"):
		noun = "checkpoint"
	}
	c.Headline = fmt.Sprintf("NOT self-contained: %d of %d handles are absolute", c.Absolute, total)
	if c.Absolute == 0 {
		c.Headline = "NOT self-contained: relative handles lead out of the directory"
		return
	}
	whole := true
	for _, b := range c.Blockers {
		whole = whole && b.Handle == metadata.RefFile.String()
	}
	own := c.ByPlace[PlaceOwn] == c.Absolute
	switch {
	case own && whole && c.Scattered == 0:
		c.Convertible = true
		c.Headline += fmt.Sprintf(", all inside this %s's own directory", noun)
		if p.oldDir != "" {
			c.Headline += fmt.Sprintf(" as it was recorded, %s", p.oldDir)
		}
		c.Headline += " -> can be converted with relocate --make-relative"
	case c.Scattered > 0:
		c.Convertible = whole
		c.Headline += fmt.Sprintf(", %d of them scattered by entropy injection -> relocate gathers the files in one directory", c.Scattered)
	default:
		c.Convertible = whole
		var parts []string
		for _, place := range []Place{PlaceOwn, PlaceShared, PlaceTaskOwned, PlaceChangelog, PlaceOtherCheckpoint, PlaceOtherJob, PlaceOtherSavepoint, PlaceElsewhere} {
			if n := c.ByPlace[place]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, place.phrase()))
			}
		}
		c.Headline += ": " + strings.Join(parts, ", ") + " -> copying the directory is not enough; use relocate"
	}
}

// phrase is the place after a count.
func (p Place) phrase() string {
	switch p {
	case PlaceOwn:
		return "in its own directory"
	case PlaceShared, PlaceTaskOwned:
		return "in " + string(p) + "/"
	case PlaceChangelog:
		return "in changelog files"
	case PlaceElsewhere:
		return "elsewhere"
	}
	return "of " + string(p)
}

// breakDown says what makes the metadata file large.
func (r *Inspection) breakDown(s *Snapshot, large smallest) {
	slices.SortFunc(large, func(a, b LargeField) int {
		if a.Bytes != b.Bytes {
			return int(min(1, max(-1, b.Bytes-a.Bytes)))
		}
		return strings.Compare(a.Field, b.Field)
	})
	r.Largest = large
	r.Classes = map[string]int64{}
	rest := r.MetadataBytes
	for i := range r.Operators {
		op := &r.Operators[i]
		op.MetadataBytes = encodedSize(s, &s.Operators[i])
		var known int64
		for class, n := range op.Classes {
			r.Classes[class] += n
			known += n
			rest -= n
		}
		if op.MetadataBytes > known {
			op.Classes[classRest] = op.MetadataBytes - known
		}
	}
	for _, m := range s.MasterStates {
		r.Classes["master states"] += int64(len(m.Payload) + len(m.Name))
		rest -= int64(len(m.Payload) + len(m.Name))
	}
	if n := int64(len(s.Properties) + len(s.Trailing)); n > 0 {
		r.Classes["properties"] = n
		rest -= n
	}
	r.Classes[classRest] = max(0, rest)
}

// encodedSize is how many bytes an operator takes in the metadata file; 0 if it is cut.
func encodedSize(s *Snapshot, o *metadata.Operator) int64 {
	one := &metadata.Snapshot{Version: s.Version, Dialect: s.Dialect}
	if s.Version >= metadata.Version4 {
		one.Properties = metadata.NullProperties
	}
	without, err := metadata.Encode(one)
	if err != nil {
		return 0
	}
	one.Operators = []metadata.Operator{*o}
	with, err := metadata.Encode(one)
	if err != nil {
		return 0
	}
	return int64(len(with) - len(without))
}

// remark adds the warnings and notes.
func (r *Inspection) remark(s *Snapshot, p *places, info metadata.PropertiesInfo) {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if w := trailing(s, info); w != "" {
		warn("%s", w)
	}
	if other, ok := withoutMarker(s.Dir); ok {
		warn("the path holds a literal entropy marker; Flink would look for this snapshot in %s", other)
	}
	for _, place := range r.Places {
		if other, ok := withoutMarker(place.Directory); ok {
			warn("handles name %s, whose path holds a literal entropy marker: the file system did not replace it (without it: %s)", place.Directory, other)
		}
	}
	if r.SelfContained.Scattered > 0 {
		warn("entropy injection scattered the files over other prefixes than the metadata's; what lies there belongs to this snapshot")
	}
	for _, place := range r.Places {
		switch place.Place {
		case PlaceOtherJob, PlaceOtherSavepoint:
			warn("%s name files of %s, %s; the snapshot can't be restored once they are deleted", count(place.Handles, "handle"), place.Place, place.Directory)
		}
	}
	legacy := 0
	for i := range s.Operators {
		for _, t := range s.Operators[i].Subtasks {
			if t.State != nil && len(t.State.Legacy) > 0 {
				legacy++
			}
		}
	}
	if legacy > 0 && s.Version == metadata.Version2 {
		warn("%s hold state of the Checkpointed interface, which Flink 1.4 and later refuse", count(legacy, "subtask"))
	}
	if p.oldDir != "" && !strings.Contains(p.oldDir, "*") {
		note("the handles were recorded for %s, so the snapshot was moved or copied since; relocate rewrites them", p.oldDir)
	}
	if s.Version < metadata.Version5 && len(s.Operators) > 0 {
		note("metadata before version 5 has no uids; give candidates with --uid or --uids to learn which operator is which")
	}
	note("_metadata has no checksum: that it can be read does not prove that it is intact; `drey verify` checks the files that it names")
}

// trailing says what is wrong with the end of the metadata; "" if nothing is.
func trailing(s *Snapshot, info metadata.PropertiesInfo) string {
	n := info.Trailing
	if s.Version < metadata.Version4 {
		n = len(s.Trailing)
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the file goes on after the end of the metadata, for %s; Flink ignores that, but does not write it", count(n, "byte"))
}
