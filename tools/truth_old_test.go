package tools

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/drey-state/drey/storage"
)

// oldTruth is the truth of the fixtures by old Flink versions, which has its
// own form.
type oldTruth struct {
	WrittenAt      string            `json:"writtenAt"`
	Parallelism    int32             `json:"parallelism"`
	MaxParallelism int32             `json:"maxParallelism"`
	OperatorIDs    map[string]string `json:"operatorIds"`
	Snapshots      []oldSnapshot     `json:"snapshots"`
}

type oldSnapshot struct {
	Path  string `json:"path"`
	Keyed []struct {
		Key              string         `json:"key"`
		KeyGroup         int            `json:"keyGroup"`
		Processed        int            `json:"processedPhase"`
		InFlight         int            `json:"inFlightFromSource"`
		Total            json.Number    `json:"total"`
		History          []any          `json:"history"`
		ByPhase          map[string]any `json:"by-phase"`
		EventTimers      []any          `json:"eventTimers"`
		ProcessingTimers []any          `json:"processingTimers"`
	} `json:"keyed"`
	Rich []struct {
		Key       json.Number `json:"key"`
		KeyGroup  int         `json:"keyGroup"`
		Sum       json.Number `json:"rsum"`
		AvgSum    json.Number `json:"avg.sum"`
		AvgCount  json.Number `json:"avg.count"`
		TTL       json.Number `json:"ttl-val(without its timestamp)"`
		PojoName  string      `json:"pojo.name"`
		PojoCount json.Number `json:"pojo.count"`
		PojoLast  json.Number `json:"pojo.last"`
	} `json:"rich"`
	Window []struct {
		Key      string `json:"key"`
		KeyGroup int    `json:"keyGroup"`
		Contents []struct {
			Start json.Number `json:"start"`
			End   json.Number `json:"end"`
			F0    string      `json:"value.f0"`
			F1    json.Number `json:"value.f1"`
			Timer json.Number `json:"timer"`
		} `json:"window-contents"`
	} `json:"window"`
	Operator []struct {
		Offsets []any          `json:"src.src-offsets"`
		Union   []any          `json:"src.src-union"`
		List    []any          `json:"keyed.op-list"`
		Rules   map[string]any `json:"keyed.bcast"`
	} `json:"operator"`
}

const (
	eventTimers      = "_timer_state/event_user-timers"
	processingTimers = "_timer_state/processing_user-timers"
	windowTimers     = "_timer_state/event_window-timers"
)

// TestTruthOldVersions compares the snapshots of Flink 1.8, 1.12, 1.15 and
// 1.17 with what the job held.
func TestTruthOldVersions(t *testing.T) {
	total := newTruthTally()
	t.Run("cases", func(t *testing.T) {
		for _, dir := range fixtureDirs(t, "old", 46) {
			t.Run(caseName(dir), func(t *testing.T) {
				t.Parallel()
				compareOldFixture(t, dir, total)
			})
		}
	})
	total.log(t, "old")
}

// compareOldFixture compares all snapshots of a fixture with its truth.
func compareOldFixture(t *testing.T, dir string, total *truthTally) {
	var truth oldTruth
	readTruth(t, filepath.Join(dir, "truth.json"), &truth)
	fsys := newFixtureFS(dir, truth.WrittenAt)
	for _, s := range truth.Snapshots {
		got, err := readContent(t.Context(), fsys, storage.Join("file:"+filepath.ToSlash(dir), s.Path))
		if err != nil {
			t.Errorf("%s: %v", s.Path, err)
			continue
		}
		c := newComparer(false, false)
		c.compare(s.operators(&truth), got)
		for _, k := range s.Keyed {
			if k.InFlight > 0 && got.channels == 0 {
				c.diff(k.Key, "%d records in flight, but no channel state", k.InFlight)
			}
		}
		for _, d := range c.diffs {
			t.Errorf("%s: %s", s.Path, d)
		}
		total.add(c)
	}
	total.fixture()
}

// operators is the truth in the form of the newer fixtures.
func (s *oldSnapshot) operators(truth *oldTruth) map[string]truthOperator {
	states := map[string]map[string]truthState{}
	add := func(operator, state, kind, keyType, namespaceType, valueType string) truthState {
		if states[operator] == nil {
			states[operator] = map[string]truthState{}
		}
		st := truthState{Kind: kind, KeyType: keyType, NamespaceType: namespaceType, ValueType: valueType, TTL: state == "ttl-val", Entries: map[string]any{}, KeyGroups: map[string]int{}}
		states[operator][state] = st
		return st
	}
	s.keyed(add)
	if s.Rich != nil {
		s.rich(add)
		s.window(add)
	}
	s.operator(add)
	out := map[string]truthOperator{}
	for name, id := range truth.OperatorIDs {
		out[name] = truthOperator{OperatorID: id, Parallelism: truth.Parallelism, MaxParallelism: truth.MaxParallelism, States: states[name]}
	}
	return out
}

// addState makes an empty state of an operator.
type addState func(operator, state, kind, keyType, namespaceType, valueType string) truthState

func (s *oldSnapshot) keyed(add addState) {
	total := add("keyed", "total", "value", "String", voidNamespace, "Long")
	history := add("keyed", "history", "list", "String", voidNamespace, "String")
	byPhase := add("keyed", "by-phase", "map", "String", voidNamespace, "String,Long")
	event := add("keyed", eventTimers, "timers", "String", voidNamespace, "")
	processing := add("keyed", processingTimers, "timers", "String", voidNamespace, "")
	for _, k := range s.Keyed {
		for _, e := range []struct {
			state truthState
			value any
			empty bool
		}{
			{total, k.Total, false},
			{history, k.History, len(k.History) == 0},
			{byPhase, k.ByPhase, len(k.ByPhase) == 0},
			{event, k.EventTimers, len(k.EventTimers) == 0},
			{processing, k.ProcessingTimers, len(k.ProcessingTimers) == 0},
		} {
			if !e.empty {
				e.state.Entries[k.Key] = e.value
				e.state.KeyGroups[k.Key] = k.KeyGroup
			}
		}
	}
}

func (s *oldSnapshot) rich(add addState) {
	sum := add("rich", "rsum", "reducing", "Long", voidNamespace, "Long")
	avg := add("rich", "avg", "aggregating", "Long", voidNamespace, "Tuple2<Long,Long>")
	ttl := add("rich", "ttl-val", "value", "Long", voidNamespace, "Long")
	pojo := add("rich", "pojo", "value", "Long", voidNamespace, "Pojo")
	for _, k := range s.Rich {
		key := k.Key.String()
		sum.Entries[key] = k.Sum
		avg.Entries[key] = []any{k.AvgSum, k.AvgCount}
		ttl.Entries[key] = k.TTL
		pojo.Entries[key] = map[string]any{"class": "Old$Pojo", "name": k.PojoName, "count": k.PojoCount, "last": k.PojoLast}
		for _, st := range []truthState{sum, avg, ttl, pojo} {
			st.KeyGroups[key] = k.KeyGroup
		}
	}
}

func (s *oldSnapshot) window(add addState) {
	contents := add("window", "window-contents", "reducing", "String", "TimeWindow", "Tuple2<String,Long>")
	timers := add("window", windowTimers, "timers", "String", "TimeWindow", "")
	for _, k := range s.Window {
		for _, w := range k.Contents {
			key := fmt.Sprintf("%s@%s..%s", k.Key, w.Start, w.End)
			contents.Entries[key] = []any{w.F0, w.F1}
			timers.Entries[key] = []any{w.Timer}
			contents.KeyGroups[key], timers.KeyGroups[key] = k.KeyGroup, k.KeyGroup
		}
	}
}

func (s *oldSnapshot) operator(add addState) {
	var offsets, union, list []any
	rules := add("keyed", "bcast", "operator-broadcast", "String", "", "Long")
	for _, sub := range s.Operator {
		offsets = append(offsets, sub.Offsets...)
		union = append(union, sub.Union...)
		list = append(list, sub.List...)
		for k, v := range sub.Rules {
			rules.Entries[k] = v
		}
	}
	add("Source: src", "src-offsets", "operator-list", "", "", "Long").Entries[""] = offsets
	add("Source: src", "src-union", "operator-union", "", "", "String").Entries[""] = union
	add("keyed", "op-list", "operator-list", "", "", "String").Entries[""] = list
}
