// Package fuzz holds a fuzz test for each decoder: it is given the real files of the decoders' testdata, and keeps the inputs that once broke one.
package fuzz
