//go:build !race

package pebble_test

// raceEnabled says that the race detector is at work, which takes much time.
const raceEnabled = false
