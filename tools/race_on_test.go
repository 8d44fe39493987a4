//go:build race

package tools

// raceEnabled says that the race detector is at work, which takes much time and memory.
const raceEnabled = true

// sweepStep has sweeps through all fixtures take every so-manieth of them. The code that runs for one runs for all.
const sweepStep = 4
