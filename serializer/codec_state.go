package serializer

// TTLValue is a value of a state with time to live.
type TTLValue[T any] struct {
	// LastAccess in milliseconds since 1970.
	LastAccess int64
	Value      T
}

// ForTTL is the serializer of values with time to live (TtlStateFactory.TtlSerializer).
func ForTTL[T any](value Codec[T]) Codec[TTLValue[T]] {
	return &codec[TTLValue[T]]{
		snapshot: compositeSnapshot(runtimeState+"ttl.TtlStateFactory$TtlSerializerSnapshot", 2, nil, ForLong().Snapshot(), value.Snapshot()),
		len:      sum(8, value.Len()),
		write: func(out *Output, v TTLValue[T]) {
			out.I64(v.LastAccess)
			value.Write(out, v.Value)
		},
		read: func(in *Input) TTLValue[T] { return TTLValue[T]{in.I64(), value.Read(in)} },
		adapt: byParts(2, func(r *resolution, old *Composite) func(*Input) TTLValue[T] {
			lastAccess, read := adapted(r, "last access", ForLong(), old.Nested[0]), adapted(r, "", value, old.Nested[1])
			return func(in *Input) TTLValue[T] { return TTLValue[T]{lastAccess(in), read(in)} }
		}),
		begin: func(r *resolution, old *Snapshot, now func() int64) func(*Input) TTLValue[T] {
			read := adapted(r, "", value, old)
			return func(in *Input) TTLValue[T] { return TTLValue[T]{now(), read(in)} }
		},
	}
}

// TimerValue is a registered timer.
type TimerValue[K, N any] struct {
	// Timestamp in milliseconds since 1970.
	Timestamp int64
	Key       K
	Namespace N
}

// TimerSnapshot is the snapshot of TimerSerializer for timers whose keys and namespaces have these.
func TimerSnapshot(key, namespace *Snapshot) *Snapshot {
	return compositeSnapshot(operators+"TimerSerializerSnapshot", 2, nil, key, namespace)
}

// ForTimer is TimerSerializer. Timers sort by their bytes as by time.
func ForTimer[K, N any](key Codec[K], namespace Codec[N]) Codec[TimerValue[K, N]] {
	return &codec[TimerValue[K, N]]{
		snapshot: TimerSnapshot(key.Snapshot(), namespace.Snapshot()),
		len:      sum(8, key.Len(), namespace.Len()),
		write: func(out *Output, v TimerValue[K, N]) {
			out.I64(v.Timestamp ^ -1<<63)
			key.Write(out, v.Key)
			namespace.Write(out, v.Namespace)
		},
		read: func(in *Input) TimerValue[K, N] {
			return TimerValue[K, N]{in.I64() ^ -1<<63, key.Read(in), namespace.Read(in)}
		},
		adapt: byParts(2, func(r *resolution, old *Composite) func(*Input) TimerValue[K, N] {
			key, namespace := adapted(r, "key", key, old.Nested[0]), adapted(r, "namespace", namespace, old.Nested[1])
			return func(in *Input) TimerValue[K, N] {
				return TimerValue[K, N]{in.I64() ^ -1<<63, key(in), namespace(in)}
			}
		}),
	}
}
