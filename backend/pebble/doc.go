// Package pebble is the keyed state backend that holds state in a Pebble database on local disk, in one ordered key space.
package pebble
