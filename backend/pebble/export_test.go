package pebble

import "github.com/cockroachdb/pebble/v2"

// DB is the database, which tests compare with what is said about it.
func (b *Backend[K]) DB() *pebble.DB { return b.db }
