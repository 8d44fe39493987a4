//go:build !race

package tools

// raceEnabled says that the race detector is at work, which takes much time and memory.
const raceEnabled = false
