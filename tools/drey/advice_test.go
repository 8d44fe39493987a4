package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/tools"
)

// TestAdvice keeps the words of refusals, and the options that help, in step with the library and the commands.
func TestAdvice(t *testing.T) {
	var source strings.Builder
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(data)
	}
	option := regexp.MustCompile(`--([a-z-]+)`)
	for _, a := range advices {
		if !strings.Contains(source.String(), a.words) {
			t.Errorf("no refusal says %q", a.words)
		}
		for _, operation := range []string{"gc", "dispose"} {
			if a.operation != "" && a.operation != operation {
				continue
			}
			for _, m := range option.FindAllStringSubmatch(a.text, -1) {
				if flagSet(find(operation), &env{}).Lookup(m[1]) == nil {
					t.Errorf("%s has no %s", operation, m[0])
				}
			}
			got := whatHelps(&tools.GCPlan{Operation: operation, Refused: []string{"x: " + a.words + " y"}})
			if !slices.Contains(got, a.text) {
				t.Errorf("%s, %q: %q", operation, a.words, got)
			}
		}
	}
}
