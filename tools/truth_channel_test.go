package tools

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// link is the exchange between two subtasks: what the receiver had not
// processed, then what the sender had not sent.
type link struct{ sender, receiver int32 }

// inFlight gives the records in flight between two operators, by link.
func inFlight(ctx context.Context, fsys storage.FS, s *Snapshot, sender, receiver string) (map[link][][]byte, error) {
	files := backend.Files{FS: fsys, Dir: s.Dir}
	received, sent := map[link][]byte{}, map[link][]byte{}
	for i := range s.Operators {
		o := &s.Operators[i]
		for _, sub := range o.Subtasks {
			var err error
			switch {
			case sub.State == nil:
			case o.ID.String() == receiver:
				err = channelData(ctx, files, sub.State.InputChannels, func(c *backend.Channel, data []byte) {
					l := link{c.Channel, sub.Index}
					received[l] = append(received[l], data...)
				})
			case o.ID.String() == sender:
				err = channelData(ctx, files, sub.State.OutputChannels, func(c *backend.Channel, data []byte) {
					l := link{sub.Index, c.Channel}
					sent[l] = append(sent[l], data...)
				})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	records := map[link][][]byte{}
	for _, part := range []map[link][]byte{received, sent} {
		for l := range part {
			if records[l] == nil {
				in := serializer.NewInput(append(received[l], sent[l]...))
				for !in.AtEnd() {
					records[l] = append(records[l], in.Bytes32())
				}
				if in.Err() != nil {
					return nil, fmt.Errorf("from subtask %d to %d: %w", l.sender, l.receiver, in.Err())
				}
			}
		}
	}
	return records, nil
}

func channelData(ctx context.Context, files backend.Files, handles []metadata.ChannelState, add func(*backend.Channel, []byte)) error {
	for i := range handles {
		r, err := backend.OpenChannel(ctx, files, &handles[i], backend.Options{})
		if err != nil {
			return err
		}
		for b, err := range r.Buffers(ctx) {
			if err != nil {
				return errors.Join(err, r.Close())
			}
			add(b.Channel, b.Data)
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

// eventOf gives what comes behind the tag and timestamp of a record, nil for
// other elements of a stream.
func eventOf(record []byte) *serializer.Input {
	in := serializer.NewInput(record)
	switch in.U8() {
	case 0:
		in.I64()
		return in
	case 1:
		return in
	}
	return nil
}

// TestTruthInFlight counts the records that unaligned checkpoints of Flink 1.12
// and 1.15 have in flight, by key, and looks whether each is one that the keyed
// operator had not processed.
func TestTruthInFlight(t *testing.T) {
	str := serializer.Of(&serializer.Snapshot{Class: "org.apache.flink.api.common.typeutils.base.StringSerializer$StringSerializerSnapshot", Version: 3})
	snapshots, total := 0, 0
	for _, dir := range fixtureDirs(t, "old", 46) {
		if !strings.HasSuffix(dir, "-unaligned") {
			continue
		}
		var truth oldTruth
		readTruth(t, filepath.Join(dir, "truth.json"), &truth)
		fsys := newFixtureFS(dir, truth.WrittenAt)
		for _, s := range truth.Snapshots {
			opened, err := Open(t.Context(), fsys, storage.Join("file:"+filepath.ToSlash(dir), s.Path))
			if err != nil {
				t.Fatal(err)
			}
			records, err := inFlight(t.Context(), fsys, opened, truth.OperatorIDs["Source: src"], truth.OperatorIDs["keyed"])
			if err != nil {
				t.Errorf("%s: %s: %v", caseName(dir), s.Path, err)
				continue
			}
			snapshots++
			phases := map[string][]int64{}
			for _, list := range records {
				for _, r := range list {
					if in := eventOf(r); in != nil {
						key, _ := str.Read(in).(string)
						phases[key] = append(phases[key], in.I64()/100)
						total++
						if in.Err() != nil || !in.AtEnd() {
							t.Errorf("%s: %s: record %x", caseName(dir), s.Path, r)
						}
					}
				}
			}
			for _, k := range s.Keyed {
				if len(phases[k.Key]) != k.InFlight {
					t.Errorf("%s: %s: %d records of %s in flight, want %d", caseName(dir), s.Path, len(phases[k.Key]), k.Key, k.InFlight)
				}
				for i, p := range phases[k.Key] {
					if p != int64(k.Processed+1+i) {
						t.Errorf("%s: %s: record %d of %s is event %d, want %d", caseName(dir), s.Path, i, k.Key, p, k.Processed+1+i)
						break
					}
				}
			}
		}
	}
	if snapshots < 6 || total == 0 {
		t.Errorf("only %d snapshots with %d records", snapshots, total)
	}
	t.Logf("%d snapshots with %d records in flight, each the next one for its key", snapshots, total)
}

// TestTruthInFlightTotal compares unaligned checkpoints of today, whose truth
// is the number of all events: what the keyed operator had not processed is in flight.
func TestTruthInFlightTotal(t *testing.T) {
	const keys = 24
	snapshots := 0
	for _, dir := range fixtureDirs(t, "flink", 88) {
		var truth truthFile
		readTruth(t, filepath.Join(dir, "truth.json"), &truth)
		for _, s := range truth.Snapshots {
			if !s.Inflight {
				continue
			}
			fsys := newFixtureFS(dir, truth.WrittenAt)
			opened, err := Open(t.Context(), fsys, storage.Join("file:"+filepath.ToSlash(dir), s.Dir))
			if err != nil {
				t.Fatal(err)
			}
			keyed := s.Operators["kv-long"].OperatorID
			records, err := inFlight(t.Context(), fsys, opened, s.Operators["src"].OperatorID, keyed)
			if err != nil {
				t.Errorf("%s: %v", caseName(dir), err)
				continue
			}
			snapshots++
			n := 0
			for _, list := range records {
				for _, r := range list {
					if eventOf(r) != nil {
						n++
					}
				}
			}
			processed := 0
			for _, e := range decodeContent(t.Context(), fsys, opened).operators[keyed].keyed["events"].entries {
				list, _ := e.value.([]any)
				processed += len(list)
			}
			if n+processed != keys*s.Rounds || n == 0 {
				t.Errorf("%s: %d records in flight and %d processed, want %d in all", caseName(dir), n, processed, keys*s.Rounds)
			}
			t.Logf("%s: %d records in flight, %d processed", caseName(dir), n, processed)
		}
	}
	if snapshots < 2 {
		t.Errorf("only %d snapshots", snapshots)
	}
}
