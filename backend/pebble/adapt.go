package pebble

import (
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// transcode reads a value as an older serializer wrote it, and writes it as the codec does.
type transcode func(in *serializer.Input, out *serializer.Output)

// adapter gives what transcodes values of an older serializer, nil if there is no need.
type adapter func(old *serializer.Snapshot) (transcode, error)

func namespaceAdapter[N any](c serializer.Codec[N]) adapter {
	return func(old *serializer.Snapshot) (transcode, error) {
		read, err := backend.AdaptNamespace(c, old)
		return rewriter(c, read), err
	}
}

func valueAdapter[V any](c serializer.Codec[V], now backend.Clock) adapter {
	return func(old *serializer.Snapshot) (transcode, error) {
		read, err := backend.AdaptValue(c, old, now)
		return rewriter(c, read), err
	}
}

func userKeyCheck[U any](c serializer.Codec[U]) func(old *serializer.Snapshot) error {
	return func(old *serializer.Snapshot) error { return backend.SameUserKeys(c, old) }
}

func rewriter[T any](c serializer.Codec[T], read func(*serializer.Input) T) transcode {
	if read == nil {
		return nil
	}
	return func(in *serializer.Input, out *serializer.Output) { c.Write(out, read(in)) }
}

// parts are the adapters of what the entries of a state are made of, and the check of user keys; of what it has not, nil.
type parts struct {
	namespace, value adapter
	userKey          func(old *serializer.Snapshot) error
}

// migration rewrites the entries of a state.
type migration struct {
	namespace, value transcode

	to                *backend.State
	list              bool
	in                serializer.Input
	n, v              serializer.Output
	joined, rewritten []byte
}

// migrate gives what rewrites the entries of a state that was restored, nil if they are as they should be.
func (p parts) migrate(is, was *backend.State) (*migration, error) {
	if err := backend.SameType(is, was); err != nil {
		return nil, err
	}
	m := &migration{to: is, list: is.Type == backend.TypeList}
	old := was.Parts()
	var err error
	if m.namespace, err = p.namespace(old.Namespace); err != nil {
		return nil, err
	}
	if p.userKey != nil {
		if err = p.userKey(old.UserKey); err != nil {
			return nil, err
		}
	}
	if p.value != nil {
		if m.value, err = p.value(old.Value); err != nil {
			return nil, err
		}
	}
	if m.namespace == nil && m.value == nil {
		return nil, nil
	}
	return m, nil
}

// apply gives the joined key and the stored value of an entry as they should be, valid until the next.
func (m *migration) apply(e *backend.Entry) (key, value []byte, err error) {
	to := backend.Entry{State: m.to, KeyGroup: e.KeyGroup, Timestamp: e.Timestamp, Null: e.Null, Key: e.Key, UserKey: e.UserKey}
	if to.Namespace, err = m.part(&m.n, m.namespace, e.Namespace); err != nil {
		return nil, nil, fmt.Errorf("namespace: %w", err)
	}
	switch {
	case m.value == nil || e.Null:
		to.Value = e.Value
	case m.list:
		to.Value, err = m.elements(e.Value)
	default:
		to.Value, err = m.part(&m.v, m.value, e.Value)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("value: %w", err)
	}
	m.joined, m.rewritten = to.AppendStoredKey(m.joined[:0]), to.AppendStoredValue(m.rewritten[:0])
	return m.joined, m.rewritten, nil
}

func (m *migration) part(out *serializer.Output, f transcode, b []byte) ([]byte, error) {
	if f == nil {
		return b, nil
	}
	out.Reset()
	m.in.Reset(b)
	f(&m.in, out)
	if err := m.in.Finish(); err != nil {
		return nil, err
	}
	return out.Bytes(), out.Err()
}

func (m *migration) elements(b []byte) ([]byte, error) {
	m.v.Reset()
	m.in.Reset(b)
	for i := 0; !m.in.AtEnd() && m.in.Err() == nil; i++ {
		if i > 0 {
			if d := m.in.U8(); d != ',' {
				m.in.Failf("list", "byte %#02x between elements", d)
				break
			}
			m.v.U8(',')
		}
		m.value(&m.in, &m.v)
	}
	if err := m.in.Err(); err != nil {
		return nil, err
	}
	return m.v.Bytes(), m.v.Err()
}
