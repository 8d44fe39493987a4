// Package backend reads keyed and operator state from the files in which
// Flink's state backends save it, as entries of named states.
package backend
