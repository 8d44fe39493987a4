package serializer_test

import (
	"strconv"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// benchCases are the types that states are mostly made of.
func benchCases(b *testing.B) map[string]struct {
	s     serializer.Serializer
	value []byte
} {
	type benchCase = struct {
		s     serializer.Serializer
		value []byte
	}
	var list, table serializer.Output
	list.I32(100)
	table.I32(100)
	for i := range int32(100) {
		list.I32(i)
		table.FlinkString("key-" + strconv.Itoa(int(i)))
		table.Bool(false)
		table.I64(int64(i))
	}
	return map[string]benchCase{
		"Long":   {serializer.Of(of("Long")), fromHex(b, "0000018bcfe5683c")},
		"String": {serializer.Of(of("String")), fromHex(b, "0a757365722d34373131")},
		"Tuple":  {serializer.Of(tupleOf("Tuple3", of("String"), of("Int"), of("Double"))), fromHex(b, "0261 00000001 3ff8000000000000")},
		"Pojo":   {serializer.Of(order), fromHex(b, "02 00 00000007 01 00 00000001 00 026e")},
		"Row":    {serializer.Of(row(of("String"), of("Int"))), fromHex(b, "00 0261 00000001")},
		"List":   {serializer.Of(listOf(of("Int"))), list.Bytes()},
		"Map":    {serializer.Of(mapOf(of("String"), of("Long"))), table.Bytes()},
		"TTL":    {serializer.Of(ttl(of("Long"))), fromHex(b, "0000018bcfe5683c 000000000000004d")},
		"Avro":   {serializer.Of(avroG), fromHex(b, "000000037e11d669000000056ec3a93135000000000000000102000000037431350000000000010000000170401e00000000000000000000020fff0001020f417800000000004a47")},
	}
}

func benchmark(b *testing.B, run func(s serializer.Serializer, in *serializer.Input)) {
	for name, c := range benchCases(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.value)))
			b.ReportAllocs()
			var in serializer.Input
			for b.Loop() {
				in.Reset(c.value)
				run(c.s, &in)
			}
			if in.Err() != nil {
				b.Fatal(in.Err())
			}
		})
	}
}

func BenchmarkAppendRead(b *testing.B) {
	var dst []byte
	benchmark(b, func(s serializer.Serializer, in *serializer.Input) { dst = serializer.AppendRead(dst[:0], s, in) })
}

func BenchmarkRead(b *testing.B) {
	benchmark(b, func(s serializer.Serializer, in *serializer.Input) { s.Read(in) })
}

func BenchmarkSkip(b *testing.B) {
	benchmark(b, func(s serializer.Serializer, in *serializer.Input) { s.Skip(in) })
}

// TestAllocations checks that numbers, text and what is made of them become
// JSON without garbage.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		s     *serializer.Snapshot
		value string
	}{
		{of("Long"), "0000018bcfe5683c"},
		{of("String"), "0a757365722d34373131"},
		{of("String"), "03 bdb003 80bc03"},
		{tupleOf("Tuple2", of("String"), of("Double")), "0261 3ff8000000000000"},
		{order, "02 00 00000007 01 00 00000001 00 026e"},
		{row(of("String"), of("Int")), "d0 0278"},
		{ttl(of("Long")), "0000018bcfe5683c 000000000000004d"},
		{listOf(of("Int")), "00000002 00000001 00000002"},
		{mapOf(of("String"), of("Long")), "00000002 0261 00 0000000000000001 0262 01"},
	} {
		s, value := serializer.Of(c.s), fromHex(t, c.value)
		in := serializer.NewInput(value)
		dst := make([]byte, 0, 256)
		if n := testing.AllocsPerRun(100, func() {
			in.Reset(value)
			dst = serializer.AppendRead(dst[:0], s, in)
			in.Reset(value)
			s.Skip(in)
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.s, n)
		}
	}
}
