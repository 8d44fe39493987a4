// Package storagetest holds implementations of storage to their guarantees: a conformance suite, and doubles that fail in every way a store can.
package storagetest
