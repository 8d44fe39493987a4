package backend

import (
	"encoding/binary"
	"io"

	"github.com/drey-state/drey/serializer"
)

const (
	// maxSearched is the largest header, in bytes, in which the ends of
	// snapshots of unknown classes are searched.
	maxSearched = 4 << 20
	// maxRead is how much is read in that search, in bytes.
	maxRead = 64 << 20
)

// endFinder reads a header that has snapshots of unknown classes. Such a
// snapshot has no length, but where the whole header ends is known, and
// behind the snapshot stands a serializer's name, a state or nothing: the one
// place from which the rest can be read to exactly that end is its own.
type endFinder struct {
	data []byte
	r    *headerReader
	read func(*headerReader)
	left int // of maxRead
}

// readHeader reads a header that reaches to end, by calling read, perhaps
// several times, of which the last one counts. The result tells how it went.
func readHeader(src *source, end int64, read func(*headerReader)) *serializer.Input {
	r := newHeaderReader(serializer.NewStreamInput(&span{src, 0, end}, 0))
	read(r)
	if r.failed < 0 || src.err != nil || end > maxSearched {
		return r.in
	}
	data, err := io.ReadAll(&span{src, 0, end})
	if err != nil {
		return r.in
	}
	f := &endFinder{data, newHeaderReader(serializer.NewInput(data)), read, maxRead}
	f.r.unread = map[int64]int64{}
	if !f.find() {
		f.r = newHeaderReader(serializer.NewInput(data))
		read(f.r)
	}
	return f.r.in
}

func (f *endFinder) find() bool {
	in := f.r.in
	in.Reset(f.data)
	f.r.failed = -1
	f.read(f.r)
	if in.Err() == nil {
		return in.AtEnd()
	}
	start := f.r.failed
	if start < 0 {
		return false
	}
	in.ResetAt(f.data[start:], start)
	in.UTF()
	in.I32()
	if in.Err() != nil {
		return false
	}
	for end := int(in.Offset()); end <= len(f.data); end++ {
		if !mayFollow(f.data[end:]) {
			continue
		}
		if f.left -= len(f.data); f.left < 0 {
			return false
		}
		f.r.unread[start] = int64(end)
		if f.find() {
			return true
		}
	}
	delete(f.r.unread, start)
	return false
}

// mayFollow says whether b begins with something that can follow a snapshot.
func mayFollow(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	name, rest, ok := cutUTF(b)
	if ok && (mayBeSerializer(name) || mayBeState(name, rest)) {
		return true
	}
	if len(b) < 2 {
		return false
	}
	// A number of states, and the states.
	if len(b) == 2 {
		return binary.BigEndian.Uint16(b) == 0
	}
	name, rest, ok = cutUTF(b[2:])
	return ok && mayBeState(name, rest)
}

func mayBeSerializer(name []byte) bool {
	switch string(name) {
	case SerializerKey, SerializerNamespace, SerializerValue, SerializerUserKey:
		return true
	}
	return false
}

// mayBeState says whether the start of a state's description may be this.
func mayBeState(name, rest []byte) bool {
	if len(name) == 0 || len(rest) < 8 {
		return false
	}
	kind, options := binary.BigEndian.Uint32(rest), binary.BigEndian.Uint32(rest[4:])
	return kind <= uint32(KindKeyValueV2) && options <= 16
}

// cutUTF cuts text with its length off.
func cutUTF(b []byte) (text, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b)-2 < n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}
