package metadata

import (
	"bytes"
	"errors"
	"testing"
)

// TestDecodeErrors damages the example of FORMAT.md in one place each.
func TestDecodeErrors(t *testing.T) {
	whole := read(t, "testdata/2.3.0/small-v6._metadata")
	const sub = "operators[0].subtasks[0]."
	for _, c := range []struct {
		at     int
		with   string
		offset int64
		field  string
		says   string
		is     error
	}{
		{0x008, "\xff", 0x008, "checkpointID", "-72057594037927931 is negative", nil},
		{0x010, "\xff\xff\xff\xff", 0x010, "masterStates", "negative count -1", nil},
		{0x010, "\x00\x00\x00\x10", 0x010, "masterStates", "file ends at byte 302 of at least 308", ErrTruncated},
		{0x014, "\x00", 0x014, "masterStates[0].magic", "0x006b1696 instead of 0xc96b1696", nil},
		{0x018, "\x00\x00\x00\x00", 0x018, "masterStates[0].length", "0 is not positive", nil},
		{0x01b, "\x0e", 0x018, "masterStates[0].length", "14 bytes announced, but the fields take 13", nil},
		{0x02d, "\x7f", 0x02d, "operators[0].name", "file ends at byte 302 of at least 32562", ErrTruncated},
		{0x02f, "\xff", 0x02d, "operators[0].name", "malformed modified UTF-8", nil},
		{0x04d, "\x05", 0x04a, "operators[0].parallelism", "5 is more than the max parallelism 4", nil},
		{0x052, "\x63", 0x052, "operators[0].coordinator", "handle tag 99: unknown: bad handle tag", ErrTag},
		{0x052, "\x04", 0x052, "operators[0].coordinator", "handle tag 4: not a handle of stream: bad handle tag", ErrTag},
		{0x052, "\x10", 0x052, "operators[0].coordinator", "tag 16 is not a byte stream: bad handle tag", ErrTag},
		{0x05f, "\x01\x00\x00\x00", 0x05f, "operators[0].subtasks", "file ends at byte 302 of at least 67108963", ErrTruncated},
		{0x063, "\x00\x00\x00\x02", 0x063, sub + "index", "subtask 2 of an operator with parallelism 2", nil},
		{0x063, "\xff\xff\xff\xfd", 0x063, sub + "index", "subtask 2 of an operator with parallelism 2", nil},
		{0x06b, "\x01", 0x06b, sub + "managedOperator", "handle tag 1: not a handle of operator state: bad handle tag", ErrTag},
		{0x06c, "\x7f", 0x06c, sub + "managedOperator.states", "file ends at byte 302 of at least 14914945143", ErrTruncated},
		{0x074, "\x03", 0x074, sub + "managedOperator.states[0].mode", "3 is unknown", nil},
		{0x075, "\x01", 0x075, sub + "managedOperator.states[0].offsets", "file ends at byte 302 of at least 134217857", ErrTruncated},
		{0x081, "\x00", 0x081, sub + "managedOperator.delegate", "null handle: bad handle tag", ErrTag},
		{0x091, "\x06", 0x091, sub + "managedKeyed", "handle tag 6: not a handle of keyed state: bad handle tag", ErrTag},
		{0x091, "\x63", 0x091, sub + "managedKeyed", "handle tag 99: unknown: bad handle tag", ErrTag},
		{0x092, "\xff\xff\xff\xff", 0x092, sub + "managedKeyed.keyGroups", "2 key groups from -1 on", nil},
		{0x092, "\x7f\xff\xff\xff", 0x092, sub + "managedKeyed.keyGroups", "2 key groups from 2147483647 on", nil},
		{0x0ab, "\xff\xff\xff\xff\xff\xff\xff\xfe", 0x0ab, sub + "managedKeyed.delegate.size", "-2 is less than -1", nil},
		{0x0be, "\x0f", 0x0be, sub + "rawKeyed", "handle tag 15: not a handle of keyed state: bad handle tag", ErrTag},
		{0x0c3, "\x04", 0x0c3, sub + "inputChannels[0]", "handle tag 4: not a handle of channel state: bad handle tag", ErrTag},
		{0x0dc, "\x00\x00\x00\x1f", 0x0f4, sub + "inputChannels[0].channels[0].offsets", "the list of channels ends at byte 31 of at least 32", nil},
		{0x0f7, "\x00", 0x0f8, sub + "inputChannels[0].channels.end", "8 bytes are left over", nil},
		{0x124, "\x01\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", 0x12b, "operators[1].subtasks", "a fully finished operator has a coordinator state", nil},
		{0x12d, "", 0x129, "properties", "file ends at byte 301 of at least 302", ErrTruncated},
	} {
		data := append(bytes.Clone(whole[:c.at]), c.with...)
		if end := c.at + len(c.with); c.with != "" && end < len(whole) {
			data = append(data, whole[end:]...)
		}
		_, err := checkLaw(t, c.field, data)
		var e *Error
		if !errors.As(err, &e) || e.Offset != c.offset || e.Field != c.field || e.Err.Error() != c.says || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%#x: %v (%#x)\nwant %s: %s (%#x)", c.at, err, e.Offset, c.field, c.says, c.offset)
		}
	}
}

// TestDecodePartial gives what came before the damage.
func TestDecodePartial(t *testing.T) {
	data := read(t, "testdata/2.3.0/small-v6._metadata")
	for _, c := range []struct{ length, masters, operators, subtasks int }{
		{8, 0, 0, 0}, {0x10, 0, 0, 0}, {0x2d - 4, 1, 0, 0}, {0x2d, 1, 1, 0}, {0x67, 1, 1, 1}, {0x108, 1, 2, 2},
	} {
		s, err := DecodePartial(data[:c.length])
		if err == nil || s == nil {
			t.Errorf("cut to %#x: %v, %v", c.length, s, err)
			continue
		}
		subtasks := 0
		if len(s.Operators) > 0 {
			subtasks = len(s.Operators[0].Subtasks)
		}
		if s.Version != Version6 || len(s.MasterStates) != c.masters || len(s.Operators) != c.operators || subtasks != c.subtasks {
			t.Errorf("cut to %#x: %+v", c.length, s)
		}
	}
	// Damaged, not cut: all that stands before is there.
	bad := bytes.Clone(data)
	bad[0x104] = 0x7F // index of the second subtask
	s, err := DecodePartial(bad)
	if err == nil || len(s.MasterStates) != 1 || len(s.Operators) != 1 || len(s.Operators[0].Subtasks) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	n := 0
	for range s.Refs() {
		n++
	}
	if n != 3 {
		t.Errorf("%d references of 3", n)
	}
	if full, err := Decode(bad); full != nil || err == nil {
		t.Errorf("Decode gives a partial snapshot: %v, %v", full, err)
	}
}
