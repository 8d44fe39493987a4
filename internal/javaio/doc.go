// Package javaio reads and writes the primitives of java.io.DataInput and DataOutput: big-endian numbers and modified UTF-8.
package javaio
