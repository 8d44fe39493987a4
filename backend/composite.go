package backend

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/drey-state/drey/serializer"
)

// composite is how the keys of a state are made of key, namespace and user
// key (SerializedCompositeKeyBuilder).
type composite struct {
	// ambiguous says that key and namespace are followed by their lengths.
	ambiguous bool
	// guess says that it is not known whether they are: at least one of the
	// serializers is not known, and the other one does not settle it.
	guess bool
	// namespace and userKey are the lengths of every such part in bytes, -1 if they vary.
	namespace, userKey int
	// plain says that key and namespace have these lengths, whatever their bytes are, and nothing else is with them.
	plain               bool
	plainKey, plainHead int // of the key, and of both
}

// newComposite is for a state whose serializers are set. The flags say of
// which of them the length is not known.
func newComposite(s *State, noKey, noNamespace bool) composite {
	c := composite{namespace: trueLen(s.Namespace)}
	if s.UserKey != nil {
		c.userKey = trueLen(s.UserKey)
	}
	key, namespace := s.Key.Len() < 0, s.Namespace.Len() < 0
	c.ambiguous = key && namespace
	c.guess = c.ambiguous && (noKey || noNamespace)
	if k, n := serializer.Width(s.Key), serializer.Width(s.Namespace); k >= 0 && n >= 0 && !c.ambiguous {
		c.plain, c.plainKey, c.plainHead = true, k, k+n
	}
	return c
}

// maxTrueLen bounds what trueLen tries, in bytes: a length in a header may be any number.
const maxTrueLen = 1 << 16

// trueLen is the length of every value. Len may say something else:
// VoidNamespace has one byte, but declares none.
func trueLen(s serializer.Serializer) int {
	n := s.Len()
	if n < 0 || n > maxTrueLen {
		return n
	}
	in := serializer.NewInput(make([]byte, n+1))
	s.Skip(in)
	if in.Lost() {
		return n
	}
	return int(in.Offset())
}

// AppendComposite appends key, namespace and user key joined as RocksDB and
// canonical files have them (SerializedCompositeKeyBuilder), without the key
// group in front. ambiguous is what [Ambiguous] says of the state; userKey is empty unless it is a map.
func AppendComposite(dst []byte, ambiguous bool, key, namespace, userKey []byte) []byte {
	dst = append(dst, key...)
	if ambiguous {
		dst = appendSuffix(dst, len(key))
	}
	dst = append(dst, namespace...)
	if ambiguous {
		dst = appendSuffix(dst, len(namespace))
	}
	return append(dst, userKey...)
}

// appendSuffix appends the length of a part, as [suffix] reads it.
func appendSuffix(dst []byte, n int) []byte {
	for {
		dst = append(dst, byte(n))
		if n >>= 8; n == 0 {
			return dst
		}
	}
}

// Ambiguous says whether a state's composite keys hold the lengths of key and
// namespace: if neither serializer declares one.
func Ambiguous(key, namespace serializer.Serializer) bool {
	return key.Len() < 0 && namespace.Len() < 0
}

// AppendTimer appends a timer as RocksDB and canonical files have it in place
// of a composite key, without the key group in front (TimerSerializer). The
// timestamp is in milliseconds since 1970; bytes are in the order of timestamps.
func AppendTimer(dst []byte, timestamp int64, key, namespace []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(timestamp^math.MinInt64))
	dst = append(dst, key...)
	return append(dst, namespace...)
}

// AppendKeyGroup appends a key group as it stands in front of composite keys:
// in one byte if there are at most 128, else in two (CompositeKeySerializationUtils).
func AppendKeyGroup(dst []byte, group, maxParallelism int) []byte {
	if prefixLen(maxParallelism) == 2 {
		dst = append(dst, byte(group>>8))
	}
	return append(dst, byte(group))
}

// suffix reads a length that follows a part: at least one byte, the low one
// first, until the rest is 0. It gives the number of its bytes, 0 if b does
// not begin with the length n.
func suffix(b []byte, n int) int {
	for i := 0; ; i++ {
		if i == len(b) || b[i] != byte(n) {
			return 0
		}
		if n >>= 8; n == 0 {
			return i + 1
		}
	}
}

// suffixLen is the number of bytes of the length n.
func suffixLen(n int) int {
	size := 1
	for n >>= 8; n > 0; n >>= 8 {
		size++
	}
	return size
}

// split takes a composite key apart, from which the key group was removed. A
// key that cannot be taken apart because a serializer is not known is left
// joined. An error says that its bytes are not what their serializers write.
func (e *Entry) split(b []byte) error {
	s := e.State
	e.Key, e.Namespace, e.UserKey, e.Timestamp, e.Unsplit, e.Joined = nil, nil, nil, 0, false, false
	if s.Type == TypeTimers {
		if len(b) < 8 {
			return fmt.Errorf("timer of %d bytes: %w", len(b), serializer.ErrCorrupt)
		}
		e.Timestamp = int64(binary.BigEndian.Uint64(b) ^ 1<<63)
		return e.splitTimer(b[8:])
	}
	c := &s.keys
	if c.plain && (len(b) == c.plainHead || len(b) > c.plainHead && s.UserKey != nil) {
		e.Key, e.Namespace = b[:c.plainKey:c.plainKey], b[c.plainKey:c.plainHead:c.plainHead]
		if s.UserKey != nil {
			e.UserKey = b[c.plainHead:]
		}
		return nil
	}
	in := e.in
	in.Reset(b)
	s.Key.Skip(in)
	if in.Err() != nil {
		return fmt.Errorf("key: %w", in.Err())
	}
	if in.Lost() {
		return e.splitBack(b)
	}
	n := int(in.Offset())
	e.Key = b[:n:n]
	b = b[n:]
	if c.guess {
		e.Namespace, e.Joined = b, true
		return nil
	}
	if c.ambiguous {
		k := suffix(b, n)
		if k == 0 {
			return fmt.Errorf("the length after a key of %d bytes: %w", n, serializer.ErrCorrupt)
		}
		b = b[k:]
	}
	return e.splitNamespace(b)
}

// splitNamespace splits what follows the key.
func (e *Entry) splitNamespace(b []byte) error {
	s, in := e.State, e.in
	c := &s.keys
	in.Reset(b)
	s.Namespace.Skip(in)
	n := int(in.Offset())
	switch {
	case in.Err() != nil:
		return fmt.Errorf("namespace: %w", in.Err())
	case in.Lost() && s.UserKey != nil && c.userKey < 0:
		// Both reach to the end.
		e.Namespace, e.Joined = b, true
		return nil
	case in.Lost():
		n = len(b)
		if s.UserKey != nil {
			n -= c.userKey
		}
		if c.ambiguous {
			n = withoutSuffix(n)
		}
		if n < 0 {
			return fmt.Errorf("namespace: %w: %d bytes", serializer.ErrCorrupt, len(b))
		}
	}
	e.Namespace = b[:n:n]
	b = b[n:]
	if c.ambiguous {
		k := suffix(b, n)
		if k == 0 {
			return fmt.Errorf("the length after a namespace of %d bytes: %w", n, serializer.ErrCorrupt)
		}
		b = b[k:]
	}
	if s.UserKey != nil {
		e.UserKey = b
	} else if len(b) > 0 {
		return fmt.Errorf("%d bytes after the namespace: %w", len(b), serializer.ErrCorrupt)
	}
	return nil
}

// withoutSuffix is the length of a part that has with its length n bytes, -1 if none has.
func withoutSuffix(n int) int {
	for k := 1; k <= 4 && k <= n; k++ {
		if suffixLen(n-k) == k {
			return n - k
		}
	}
	return -1
}

// splitBack splits a key of unknown length by what follows it.
func (e *Entry) splitBack(b []byte) error {
	s := e.State
	c := &s.keys
	if c.guess || s.UserKey != nil && c.userKey < 0 {
		e.Key, e.Unsplit = b, true
		return nil
	}
	end := len(b)
	if s.UserKey != nil {
		end -= c.userKey
	}
	if c.namespace >= 0 {
		n := end - c.namespace
		if n < 0 {
			return fmt.Errorf("key and namespace of %d bytes: %w", len(b), serializer.ErrCorrupt)
		}
		e.Key, e.Namespace = b[:n:n], b[n:end:end]
		if s.UserKey != nil {
			e.UserKey = b[end:]
		}
		return nil
	}
	// Both are followed by their lengths. There may be several ways to read them.
	found := 0
	var key, namespace []byte
	for k := 1; k <= 4 && k < end; k++ {
		n := lengthAt(b[end-k : end])
		keyEnd := end - k - n
		if n < 0 || keyEnd < 2 {
			continue
		}
		m := withoutSuffix(keyEnd)
		if m < 0 || suffix(b[m:keyEnd], m) == 0 || !e.fits(s.Namespace, b[keyEnd:end-k]) {
			continue
		}
		found++
		key, namespace = b[:m:m], b[keyEnd:end-k:end-k]
	}
	switch found {
	case 0:
		return fmt.Errorf("the lengths after key and namespace: %w", serializer.ErrCorrupt)
	case 1:
		e.Key, e.Namespace = key, namespace
		if s.UserKey != nil {
			e.UserKey = b[end:]
		}
	default:
		e.Key, e.Unsplit = b, true
	}
	return nil
}

// lengthAt reads a whole suffix, -1 if it is none.
func lengthAt(b []byte) int {
	n := 0
	for i, c := range b {
		n |= int(c) << (8 * i)
	}
	if suffixLen(n) != len(b) {
		return -1
	}
	return n
}

// fits says whether b can be one value.
func (e *Entry) fits(s serializer.Serializer, b []byte) bool {
	e.in.Reset(b)
	s.Skip(e.in)
	return e.in.Err() == nil && e.in.AtEnd()
}

// splitTimer splits what follows the time of a timer: a key and a namespace.
func (e *Entry) splitTimer(b []byte) error {
	s, in := e.State, e.in
	in.Reset(b)
	s.Key.Skip(in)
	switch {
	case in.Err() != nil:
		return fmt.Errorf("key: %w", in.Err())
	case in.Lost() && s.keys.namespace < 0:
		e.Key, e.Unsplit = b, true
		return nil
	}
	n := int(in.Offset())
	if in.Lost() {
		if n = len(b) - s.keys.namespace; n < 0 {
			return fmt.Errorf("key and namespace of %d bytes: %w", len(b), serializer.ErrCorrupt)
		}
	}
	e.Key, e.Namespace = b[:n:n], b[n:]
	if !e.fits(s.Namespace, e.Namespace) {
		return fmt.Errorf("namespace: %w", serializer.ErrCorrupt)
	}
	return nil
}
