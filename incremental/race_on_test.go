//go:build race

package incremental

// histories is the number of histories that are compared with the model. The race detector takes much time.
const histories = 2000
