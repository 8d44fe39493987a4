package backend

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Channel is the in-flight data of one channel or subpartition of an unaligned
// checkpoint, as it stands in a file (ChannelStateSerializerImpl).
type Channel struct {
	// Group is the gate or the partition, Channel the channel in it or the subpartition.
	Group, Channel int32
	// Offsets of its buffers in the file, in bytes, in the order of arrival.
	Offsets []int64
}

// ChannelBuffer is one network buffer. Data is valid until the next one.
type ChannelBuffer struct {
	Channel *Channel
	// Index is the position in the channel, Offset that in the file.
	Index  int
	Offset int64
	// Data is a part of the channel's stream of records. A record may go on in the next buffer.
	Data []byte
}

// ChannelReader reads the in-flight data of one handle. It may be used concurrently.
type ChannelReader struct {
	obj      *object
	o        Options
	channels []Channel
}

// OpenChannel opens a handle of in-flight data, of one channel or merged of
// several. Offsets outside of the file are an error that unwraps to
// [serializer.ErrCorrupt]. The caller closes it.
func OpenChannel(ctx context.Context, files Files, h *metadata.ChannelState, o Options) (*ChannelReader, error) {
	r := &ChannelReader{o: o}
	if h.Merged {
		parts, err := h.Channels()
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			r.channels = append(r.channels, Channel{p.Group, p.Channel, p.Offsets})
		}
	} else {
		r.channels = []Channel{{h.Group, h.Channel, h.Offsets}}
	}
	obj, err := files.open(ctx, h.Delegate)
	if err != nil {
		return nil, err
	}
	r.obj = obj
	for i := range r.channels {
		for _, off := range r.channels[i].Offsets {
			if off < 0 || off > obj.Size()-4 {
				obj.Close()
				return nil, fmt.Errorf("%s: %s: buffer at %d in a file of %d bytes: %w", obj.name, &r.channels[i], off, obj.Size(), serializer.ErrCorrupt)
			}
		}
	}
	return r, nil
}

// String names the channel.
func (c *Channel) String() string { return fmt.Sprintf("channel %d:%d", c.Group, c.Channel) }

// Channels are those of the handle. The result must not be changed.
func (r *ChannelReader) Channels() []Channel { return r.channels }

// Size is that of the file in bytes.
func (r *ChannelReader) Size() int64 { return r.obj.Size() }

// Close closes the file.
func (r *ChannelReader) Close() error { return r.obj.Close() }

// Buffers yields the buffers, channel by channel. It ends after an error.
func (r *ChannelReader) Buffers(ctx context.Context) iter.Seq2[*ChannelBuffer, error] {
	return func(yield func(*ChannelBuffer, error) bool) {
		src := newSource(ctx, r.obj, &r.o)
		in := serializer.NewInput(nil)
		for i := range r.channels {
			c := &r.channels[i]
			for j, off := range c.Offsets {
				in.ResetStream(&span{src, off, src.limit}, off)
				b := ChannelBuffer{Channel: c, Index: j, Offset: off, Data: in.Bytes32()}
				if err := in.Err(); err != nil {
					yield(nil, fmt.Errorf("%s: %s: %w", r.obj.name, c, err))
					return
				}
				if !yield(&b, nil) {
					return
				}
			}
		}
	}
}

// ChannelCount says how much is in flight in a channel.
type ChannelCount struct {
	Channel *Channel
	Buffers int
	// Bytes are those of the records and their lengths.
	Bytes int64
	// Records are whole ones; -1 if they cannot be told apart.
	Records int64
	// Lead is how many bytes come before the first whole record: the rest of
	// one whose start has reached the receiver already, and is in its channel.
	Lead int64
	// Cut is how many bytes of a last record are there without its end.
	Cut int64
}

// maxAligned is the most data of a channel, in bytes, in which the start of a
// record is looked for. Flink itself buffers less.
const maxAligned = 64 << 20

// Counts reads the data and counts the records in each channel. It holds the
// data of one channel in memory, up to 64 MiB of it.
func (r *ChannelReader) Counts(ctx context.Context) ([]ChannelCount, error) {
	counts := make([]ChannelCount, len(r.channels))
	for i := range counts {
		counts[i].Channel = &r.channels[i]
	}
	var data []byte
	i := 0
	for b, err := range r.Buffers(ctx) {
		if err != nil {
			return nil, err
		}
		for counts[i].Channel != b.Channel {
			counts[i].count(data)
			i++
			data = data[:0]
		}
		counts[i].Buffers++
		counts[i].Bytes += int64(len(b.Data))
		if len(data)+len(b.Data) <= maxAligned {
			data = append(data, b.Data...)
		}
	}
	if i < len(counts) {
		counts[i].count(data)
	}
	return counts, nil
}

// count tells the records in data apart. Data that begins in the midst of a
// record ends with a whole one, since its sender wrote it.
func (c *ChannelCount) count(data []byte) {
	if int64(len(data)) != c.Bytes {
		c.Records = -1
		return
	}
	var ok bool
	if c.Records, c.Cut, ok = records(data); ok {
		return
	}
	// Where records from one place on do not reach to the end, those from a
	// place that they passed do not either: no byte is looked at twice.
	failed := make([]uint64, len(data)/64+1)
	for lead := 1; lead < len(data); lead++ {
		n, at := int64(0), lead
		for at < len(data) && failed[at/64]>>(at%64)&1 == 0 {
			failed[at/64] |= 1 << (at % 64)
			size, ok := record(data[at:])
			if !ok || size > len(data)-at {
				break
			}
			n++
			at += size
		}
		if at == len(data) {
			c.Records, c.Lead, c.Cut = n, int64(lead), 0
			return
		}
	}
	c.Records, c.Cut = -1, 0
}

// lastElementTag is the highest tag of what goes through a channel
// (StreamElementSerializer, with the attributes of Flink 2).
const lastElementTag = 6

// records counts the whole records in data and the bytes behind the last one.
func records(data []byte) (n, cut int64, ok bool) {
	for len(data) >= recordHead {
		size, ok := record(data)
		if !ok {
			return 0, 0, false
		}
		if size > len(data) {
			break
		}
		n++
		data = data[size:]
	}
	return n, int64(len(data)), true
}

// recordHead is the length of a record, in four bytes, and its tag.
const recordHead = 5

// record gives the bytes that the record takes with which data begins; false if none does.
func record(data []byte) (size int, ok bool) {
	if len(data) < recordHead {
		return 0, false
	}
	size = int(int32(binary.BigEndian.Uint32(data)))
	return 4 + size, size >= 1 && data[4] <= lastElementTag
}
