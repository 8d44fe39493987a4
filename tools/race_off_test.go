//go:build !race

package tools

// raceEnabled says that the race detector is at work, which takes much time and memory.
const raceEnabled = false

// sweepStep has sweeps through all fixtures take every so-manieth of them.
const sweepStep = 1
