package backendtest

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
)

// modelSteps is the number of steps of each run. rapid makes 100 runs if it is told nothing else
// (flag -rapid.checks), and the suite runs for two kinds of backends: 12,000 steps in total.
const modelSteps = 60

// testModel does random things to backends and to plain Go values, which must hold the same at last.
// Meanwhile the state goes through snapshots of any format into any number of subtasks of any kind.
func testModel(t *testing.T, all map[string]Opener) {
	kinds := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(r *rapid.T) {
		d := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(r, what) }
		bed := newBed()
		defer func() {
			for _, w := range bed.worlds {
				must(r, w.b.Close())
			}
		}()
		open := func(groups keygroup.Range) backend.Keyed[string] {
			return all[kinds[d("kind", len(kinds))]](t, groups, bed.now)
		}
		bed.settle(r, open(All))
		for range modelSteps {
			if d("what", modelSteps) == 0 {
				o := backend.SnapshotOptions{Format: backend.Format(d("format", 2)), Compress: d("compress", 2) == 0}
				bed.rescale(r, 1+d("parallelism", 3), o, open)
				bed.check(r, "restored")
				continue
			}
			bed.step(r, d)
		}
		bed.check(r, "at last")
	})
}
