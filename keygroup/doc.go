// Package keygroup says which key group a key is in and which subtask owns a key group, as Flink's KeyGroupRangeAssignment does.
package keygroup
