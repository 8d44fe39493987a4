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

func adapterOf[T any](c serializer.Codec[T]) adapter {
	return func(old *serializer.Snapshot) (transcode, error) {
		read, err := serializer.Adapt(c, old)
		if err != nil || read == nil {
			return nil, err
		}
		return func(in *serializer.Input, out *serializer.Output) { c.Write(out, read(in)) }, nil
	}
}

// parts are the adapters of what the entries of a state are made of; of what it has not, nil.
type parts struct{ namespace, userKey, value adapter }

// migration rewrites the entries of a state.
type migration struct {
	namespace, userKey, value transcode

	to                *backend.State
	list              bool
	in                serializer.Input
	n, u, v           serializer.Output
	joined, rewritten []byte
}

// migrate gives what rewrites the entries of a state that was restored, nil if they are as they should be.
func (p parts) migrate(is, was *backend.State) (*migration, error) {
	if was.Type != is.Type {
		return nil, fmt.Errorf("it is %s state, and was %s state: %w", is.Type, was.Type, backend.ErrState)
	}
	m := &migration{to: is, list: is.Type == backend.TypeList}
	old := was.Parts()
	for _, part := range []struct {
		what string
		to   *transcode
		of   adapter
		old  *serializer.Snapshot
	}{
		{"namespace", &m.namespace, p.namespace, old.Namespace},
		{"user key", &m.userKey, p.userKey, old.UserKey},
		{"value", &m.value, p.value, old.Value},
	} {
		if part.of == nil {
			continue
		}
		f, err := part.of(part.old)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.what, err)
		}
		*part.to = f
	}
	if m.namespace == nil && m.userKey == nil && m.value == nil {
		return nil, nil
	}
	return m, nil
}

// apply gives the joined key and the stored value of an entry as they should be, valid until the next.
func (m *migration) apply(e *backend.Entry) (key, value []byte, err error) {
	to := backend.Entry{State: m.to, KeyGroup: e.KeyGroup, Timestamp: e.Timestamp, Null: e.Null, Key: e.Key}
	if to.Namespace, err = m.part(&m.n, m.namespace, e.Namespace); err != nil {
		return nil, nil, fmt.Errorf("namespace: %w", err)
	}
	if to.UserKey, err = m.part(&m.u, m.userKey, e.UserKey); err != nil {
		return nil, nil, fmt.Errorf("user key: %w", err)
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
	if err := filled(&m.in); err != nil {
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
