package metadata

import "github.com/drey-state/drey/internal/javaio"

// Text is a string field as it stands in the file: raw modified UTF-8, kept
// because a character can be encoded in several ways. Text in ASCII without
// NUL is the same as the Go string.
type Text string

// NewText encodes a Go string. It fails if s is not valid UTF-8 or its
// encoding is longer than the 65,535 bytes that the format can hold.
func NewText(s string) (Text, error) {
	raw, err := javaio.EncodeUTF(s)
	if err != nil {
		return "", err
	}
	if len(raw) > javaio.MaxUTF {
		return "", &javaio.UTFTooLongError{Bytes: len(raw)}
	}
	return Text(raw), nil
}

// String decodes the text to UTF-8. A lone surrogate, which UTF-8 can't
// express, becomes its three-byte form; [NewText] turns it back.
func (t Text) String() string { return javaio.DecodeUTF(string(t)) }

// MarshalText makes Text a plain string in JSON.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
