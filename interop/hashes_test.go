package interop

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// TestHashes lets Flink serialize and Java hash random objects of classes with every kind of hashCode that there is
// a rule for. DREY_SEED repeats a run.
func TestHashes(t *testing.T) {
	const each = 300
	seed := seedOf(t)
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Logf("DREY_SEED=%d", seed)
			var s *serializer.Snapshot
			seen := map[string]int{}
			for line := range strings.Lines(v.run(t, nil, "hashes", strconv.FormatUint(seed, 10), strconv.Itoa(each))) {
				f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
				if len(f) != 7 {
					t.Fatalf("a line of %d columns: %s", len(f), line)
				}
				rules := serializer.HashRules{}
				for rule := range strings.FieldsSeq(f[1]) {
					if err := rules.Set(rule); err != nil {
						t.Fatal(err)
					}
				}
				snapshot, err1 := hex.DecodeString(strings.Trim(f[2], "-"))
				key, err2 := hex.DecodeString(f[3])
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				if len(snapshot) > 0 { // it is not that of the line before
					s = serializer.ReadSnapshot(serializer.NewInput(snapshot))
				}
				h := serializer.NewHasherBy(s, rules)
				code, err := h.Hash(key)
				got := []string{strconv.Itoa(int(code)), strconv.Itoa(keygroup.ForHash(code, 128)), strconv.Itoa(keygroup.ForHash(code, keygroup.UpperBound))}
				if err != nil || strings.Join(got, " ") != strings.Join(f[4:], " ") {
					t.Errorf("%s of %x: hash and key groups %v, %v; want %v", f[0], key, got, err, f[4:])
				}
				seen[f[0]]++
			}
			if len(seen) != 13 || seen["Lombok"] != each {
				t.Errorf("objects of %d types: %v", len(seen), seen)
			}
			t.Logf("Flink %s: %d objects of each of %d types", v, each, len(seen))
		})
	}
}
