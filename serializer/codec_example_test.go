package serializer_test

import (
	"fmt"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// purchase is a POJO of a job: public class Order { public String item; public int count; }
type purchase struct {
	Item  *string
	Count int32
}

func ExampleForPojo() {
	codec := serializer.ForPojo("com.example.Order",
		serializer.NewNullMember("item", serializer.ForString(), func(o *purchase) **string { return &o.Item }),
		serializer.NewMember("count", serializer.ForInt(), func(o *purchase) *int32 { return &o.Count }),
	)
	var out serializer.Output
	item := "tea"
	codec.Write(&out, purchase{Item: &item, Count: 3})
	fmt.Printf("%x\n", out.Bytes())

	in := serializer.NewInput(out.Bytes())
	back := codec.Read(in)
	fmt.Println(*back.Item, back.Count, in.Err())

	// Without Go types, the snapshot is enough.
	in.Reset(out.Bytes())
	fmt.Println(string(serializer.AppendRead(nil, serializer.Of(codec.Snapshot()), in)))
	// Output:
	// 0200000000030004746561
	// tea 3 <nil>
	// {"count":3,"item":"tea"}
}

func ExampleNewHasher() {
	codec := serializer.ForTuple2(serializer.ForString(), serializer.ForInt())
	var key serializer.Output
	codec.Write(&key, serializer.Tuple2[string, int32]{F0: "a", F1: 1})

	hash, err := serializer.NewHasher(codec.Snapshot()).Hash(key.Bytes())
	fmt.Println(hash, err, keygroup.ForHash(hash, 128))
	// Output: 3008 <nil> 29
}

func ExampleEncodeJSON() {
	snapshot := serializer.ForMap(serializer.ForString(), serializer.ForLong()).Snapshot() // as it stands in a state file
	value, err := serializer.EncodeJSON(serializer.Of(snapshot), []byte(`{"tea": 3}`))
	fmt.Printf("%x %v\n", value, err)

	_, err = serializer.EncodeJSON(serializer.Of(snapshot), []byte(`{"tea": 3.5}`))
	fmt.Println(err != nil)
	// Output:
	// 0000000104746561000000000000000003 <nil>
	// true
}
