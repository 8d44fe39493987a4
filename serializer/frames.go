package serializer

import "bytes"

// Frame is an entry of an optional map (LinkedOptionalMapSerializer): a name
// with a key and a value that stand in frames of their own, so that what
// cannot be read can be passed over.
type Frame struct {
	Name string
	// Key is the content of the key's frame; nil if there is none.
	Key []byte
	// Snapshot is the value, if it is a serializer and can be read.
	Snapshot *Snapshot
	// Value is the content of the value's frame if Snapshot is nil; nil if there is none.
	Value []byte
}

const framesMagic = 0x4f2c69a3d70

// readFrames reads an optional map. With snapshots, its values are serializers.
func readFrames(in *Input, snapshots bool) []Frame {
	off := in.Offset()
	if magic := in.I64(); magic != framesMagic && in.err == nil {
		in.FailAt(off, "magic number of a map", ErrCorrupt)
	}
	n := in.Length()
	var frames []Frame
	for ; n > 0 && in.err == nil; n-- {
		f := Frame{Name: in.name()}
		if in.flag("flag of a key") {
			f.Key = append([]byte{}, in.Bytes32()...)
		}
		if in.flag("flag of a value") {
			f.Value = append([]byte{}, in.Bytes32()...)
			if snapshots {
				f.parse(in.depth)
			}
		}
		frames = append(frames, f)
	}
	return frames
}

// parse makes a snapshot of the value, if that gives back the same bytes.
func (f *Frame) parse(depth int) {
	in := NewInput(f.Value)
	in.depth = depth
	s := ReadSnapshot(in)
	if s == nil || !in.AtEnd() {
		return
	}
	var out Output
	if s.Write(&out); out.err == nil && bytes.Equal(out.buf, f.Value) {
		f.Snapshot, f.Value = s, nil
	}
}

func writeFrames(out *Output, frames []Frame) {
	out.I64(framesMagic)
	out.I32(int32(len(frames)))
	for _, f := range frames {
		out.UTF(f.Name)
		out.Bool(f.Key != nil)
		if f.Key != nil {
			out.Bytes32(f.Key)
		}
		out.Bool(f.Value != nil || f.Snapshot != nil)
		switch {
		case f.Snapshot != nil:
			var frame Output
			if f.Snapshot.Write(&frame); frame.err != nil {
				out.Fail(frame.err)
			}
			out.Bytes32(frame.buf)
		case f.Value != nil:
			out.Bytes32(f.Value)
		}
	}
}

// serializer is for values of the frame's snapshot.
func (f *Frame) serializer() Serializer {
	switch {
	case f.Snapshot != nil:
		return Of(f.Snapshot)
	case f.Value == nil:
		return unknown{reason: "the snapshot has no serializer for it"}
	}
	return unknown{class: NewInput(f.Value).name(), reason: "the serializer is not known"}
}

// PojoField is the frame of a field that class declares.
func PojoField(class, name string, s *Snapshot) Frame {
	var key Output
	key.UTF(class)
	key.UTF(name)
	return Frame{Name: name, Key: key.buf, Snapshot: s}
}
