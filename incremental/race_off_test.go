//go:build !race

package incremental

// histories is the number of histories that are compared with the model.
const histories = 10_000
