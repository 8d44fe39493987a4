// Package tools holds the operations on snapshots behind the drey command: each takes stores and options, and returns what it found or did.
package tools
