package pebble

import (
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

func TestBasic(t *testing.T) {
	b, err := Open(serializer.ForString(), Options[string]{MaxParallelism: 128, KeyGroups: keygroup.Range{End: 127}, Dir: t.TempDir() + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	v, err := OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetKey("a"); err != nil {
		t.Fatal(err)
	}
	if err := v.Set(7); err != nil {
		t.Fatal(err)
	}
	n, ok, err := v.Get()
	if n != 7 || !ok || err != nil {
		t.Fatal(n, ok, err)
	}
}
