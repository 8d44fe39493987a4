package metadata

import "testing"

// The vectors come from Flink's own hash function.
func TestUIDHash(t *testing.T) {
	for uid, want := range map[string]string{
		"":                  "00000000000000000000000000000000",
		"a":                 "897859f6655555855a890e51483ab5e6",
		"source":            "e5a72f353fc1e6bbf3bd96a41384998c",
		"my-operator-uid":   "4a0e6dd79906c200056e3630371c5f92",
		"0123456789abcdefg": "def945aa2d61328eee72c306c2f40008",
		"été-中文-😀":          "f04bced86bf11ae7459a1d5d21fe0f0b",
	} {
		if got := UIDHash(uid).String(); got != want {
			t.Errorf("UIDHash(%q) = %s, want %s", uid, got, want)
		}
	}
}
