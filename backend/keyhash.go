package backend

import (
	"fmt"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// HashFunc gives the function that computes hashCode of the Java objects that keys stand for. An
// error, which unwraps to [serializer.ErrNoHash], says why it can't be known from the codec. Of numbers and strings the function
// doesn't allocate. It may not be used concurrently.
func HashFunc[K any](c serializer.Codec[K]) (func(K) (int32, error), error) {
	s := c.Snapshot()
	hasher := serializer.NewHasher(s)
	if err := hasher.Err(); err != nil {
		return nil, err
	}
	if f, ok := plainHash(s.Class).(func(K) int32); ok {
		return func(k K) (int32, error) { return f(k), nil }, nil
	}
	out := serializer.NewOutput(nil)
	return func(k K) (int32, error) {
		out.Reset()
		c.Write(out, k)
		if err := out.Err(); err != nil {
			return 0, fmt.Errorf("key: %w", err)
		}
		return hasher.Hash(out.Bytes())
	}, nil
}

// plainHash gives the hash of keys whose bytes need not be made for it, nil for others.
func plainHash(class string) any {
	const base = "org.apache.flink.api.common.typeutils.base."
	switch class {
	case base + "LongSerializer$LongSerializerSnapshot":
		return keygroup.LongHash
	case base + "IntSerializer$IntSerializerSnapshot":
		return func(v int32) int32 { return v }
	case base + "StringSerializer$StringSerializerSnapshot":
		return keygroup.StringHash
	}
	return nil
}
