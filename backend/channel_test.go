package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestChannelRecords counts what is in flight in the unaligned checkpoints of
// jobs that had seen at most 8 of 360 records, as their truth says, and joins
// what was cut between a sender and its receiver.
func TestChannelRecords(t *testing.T) {
	for _, version := range []string{"1.20.5", "2.3.0"} {
		dir := filepath.Join(sharedFixtures(t), "flink", version, "ck-unaligned")
		var truth changelogTruth
		data, err := os.ReadFile(filepath.Join(dir, "truth.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &truth); err != nil {
			t.Fatal(err)
		}
		snapshot := filepath.Join(dir, truth.Snapshots[0].Dir)
		data, err = os.ReadFile(filepath.Join(snapshot, "_metadata"))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := metadata.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		files := Files{movedFS{storage.NewLocal(storage.LocalOptions{}), truth.WrittenAt, dir}, snapshot}
		// By sender and receiver, of which one is the subtask and the other the channel.
		streams := map[[2]int32][]byte{}
		var parts, whole int64
		read := func(handles []metadata.ChannelState, ends func(channel int32) [2]int32) {
			for i := range handles {
				r, err := OpenChannel(context.Background(), files, &handles[i], Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				counts, err := r.Counts(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range counts {
					if c.Records < 0 {
						t.Errorf("%s: %s: records not found", version, c.Channel)
					}
					parts += c.Records
					if c.Cut > 0 {
						parts++ // with the lead of the sender's channel
					}
				}
				for b, err := range r.Buffers(context.Background()) {
					if err != nil {
						t.Fatal(err)
					}
					k := ends(b.Channel.Channel)
					streams[k] = append(streams[k], b.Data...)
				}
			}
		}
		for _, op := range meta.Operators { // what a receiver has comes first
			for _, sub := range op.Subtasks {
				read(sub.State.InputChannels, func(c int32) [2]int32 { return [2]int32{c, sub.Index} })
			}
		}
		for _, op := range meta.Operators {
			for _, sub := range op.Subtasks {
				read(sub.State.OutputChannels, func(c int32) [2]int32 { return [2]int32{sub.Index, c} })
			}
		}
		for ends, data := range streams {
			n, cut, ok := records(data)
			if !ok || cut != 0 {
				t.Errorf("%s: from %d to %d: %d records and %d bytes, %v", version, ends[0], ends[1], n, cut, ok)
			}
			whole += n
		}
		if parts != whole || whole < 352 || whole > 360 {
			t.Errorf("%s: %d records in the channels, %d after joining; the job had seen at most 8 of 360", version, parts, whole)
		}
		t.Logf("%s: %d records in flight", version, whole)
	}
}

// TestChannelBounds refuses offsets and lengths that leave the file.
func TestChannelBounds(t *testing.T) {
	file := []byte{0, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 0x7f, 0xff, 0xff, 0xff, 'd'}
	open := func(offsets ...int64) (*ChannelReader, error) {
		h := &metadata.ChannelState{Offsets: offsets, Delegate: &metadata.ByteStream{Name: "f", Data: file}}
		return OpenChannel(context.Background(), Files{}, h, Options{})
	}
	for _, off := range []int64{-1, 13, 16, 1 << 62} {
		if _, err := open(off); !errors.Is(err, serializer.ErrCorrupt) {
			t.Errorf("offset %d: %v", off, err)
		}
	}
	r, err := open(4, 11)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for b, e := range r.Buffers(context.Background()) {
		if err = e; err == nil {
			got = append(got, string(b.Data))
		}
	}
	if len(got) != 1 || got[0] != "abc" || !errors.Is(err, serializer.ErrTruncated) {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestChannelCountDamaged counts many records before damage, and behind the
// rest of another one.
func TestChannelCountDamaged(t *testing.T) {
	small := bytes.Repeat([]byte{0, 0, 0, 1, 2}, 1<<20)
	damaged := ChannelCount{Bytes: int64(len(small)) + 5}
	damaged.count(append(slices.Clone(small), 0xff, 0xff, 0xff, 0xff, 0xff))
	if damaged.Records != -1 || damaged.Lead != 0 || damaged.Cut != 0 {
		t.Errorf("damaged at the end: %+v", damaged)
	}
	late := ChannelCount{Bytes: int64(len(small)) + 7}
	late.count(append([]byte{9, 9, 9, 9, 9, 9, 9}, small...))
	if late.Records != 1<<20 || late.Lead != 7 || late.Cut != 0 {
		t.Errorf("behind the rest of a record: %+v", late)
	}
}
