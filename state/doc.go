// Package state opens the states of an operator on whichever keyed state backend holds them.
package state
