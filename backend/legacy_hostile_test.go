package backend_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
)

// Flipped bits and cut files of old state are an error, lost entries or other
// values, but never a panic, and a header that is read is written as it was.
func TestHostileOldState(t *testing.T) {
	needPublic(t)
	var keyed []*metadata.KeyGroups
	var raw []bool
	var lists []*metadata.OperatorState
	add := func(h handles) {
		for i, all := range [][]metadata.Keyed{h.managedKeyed, h.rawKeyed} {
			for _, k := range all {
				keyed, raw = append(keyed, k.(*metadata.KeyGroups)), append(raw, i == 1)
			}
		}
		lists = append(lists, h.managedOperator...)
	}
	for _, name := range []string{
		"1.2/stateful-udf-migration-itcase-flink1.2-savepoint", "1.2/operatorstate-complexKeyed-flink1.2@974e8e",
		"1.4/new-stateful-udf-migration-itcase-flink1.4-savepoint", "1.5/new-stateful-broadcast-udf-migration-itcase-flink1.5-savepoint",
		"1.6/stateful-scala-udf-migration-itcase-flink1.6-jobmanager-savepoint",
	} {
		for _, h := range savepoint(t, filepath.Join(public, "flink-tests", name, "_metadata"))[:8] {
			add(h)
		}
	}
	for _, name := range []string{"1.2/flink-cep--cep-starting-1.2-snapshot", "1.7/flink-connector-kinesis--kinesis-consumer-migration-test-flink1.7-snapshot"} {
		add(operatorSnapshot(t, filepath.Join(public, "operator-snapshots", name)))
	}
	random := rand.New(rand.NewPCG(1, 2))
	runs := 0
	for i, k := range keyed {
		for data := range damaged(random, k.Delegate.(*metadata.ByteStream).Data) {
			runs++
			h := *k
			h.Delegate = &metadata.ByteStream{Data: data}
			readKeyed(t, &h, raw[i])
		}
	}
	for _, l := range lists {
		if l == nil {
			continue
		}
		for data := range damaged(random, l.Delegate.(*metadata.ByteStream).Data) {
			runs++
			h := *l
			h.Delegate = &metadata.ByteStream{Data: data}
			readList(t, &h)
		}
	}
	t.Logf("%d damaged files", runs)
}

// damaged gives copies of data with a flipped bit or byte, or cut.
func damaged(random *rand.Rand, data []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for i := range 40 {
			b := slices.Clone(data)
			at := random.IntN(len(b))
			switch i % 4 {
			case 0:
				b = b[:at]
			case 1:
				b[at] = byte(random.Uint32())
			default:
				b[at] ^= 1 << random.IntN(8)
			}
			if !yield(b) {
				return
			}
		}
	}
}

func readKeyed(t *testing.T, h *metadata.KeyGroups, raw bool) {
	t.Helper()
	ctx := context.Background()
	r, err := backend.OpenKeyed(ctx, backend.Files{}, h, backend.Options{MaxParallelism: int(h.Start) + len(h.Offsets), Raw: raw})
	if err != nil {
		return
	}
	defer r.Close()
	if header := r.Header(); header != nil && r.HeaderErr() == nil {
		checkHeader(t, h.Delegate, header)
	}
	var dst []byte
	for e, err := range r.Entries(ctx, backend.Filter{}) {
		if err == nil {
			dst, _ = e.AppendKeyJSON(dst[:0])
			dst, _ = e.AppendNamespaceJSON(dst)
			dst, _ = e.AppendValueJSON(dst)
		}
	}
}

func readList(t *testing.T, h *metadata.OperatorState) {
	t.Helper()
	ctx := context.Background()
	r, err := backend.OpenOperator(ctx, backend.Files{}, h, backend.Options{})
	if err != nil {
		return
	}
	defer r.Close()
	checkHeader(t, h.Delegate, r.Header())
	var dst []byte
	for e, err := range r.Entries(ctx, nil) {
		if err == nil {
			dst, _ = e.AppendKeyJSON(dst[:0])
			dst, _ = e.AppendValueJSON(dst)
		}
	}
}
