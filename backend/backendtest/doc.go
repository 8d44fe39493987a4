// Package backendtest is the conformance suite of keyed state backends: [Run] tests what
// [backend.Keyed] promises, and that backends of all kinds restore each other's snapshots.
package backendtest
