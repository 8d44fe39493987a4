// Package keygroup says which key group a key is in and which subtask owns a
// key group, as Flink's KeyGroupRangeAssignment does.
//
// The key group of a key follows from the hashCode of its Java object, which
// functions of this package compute. Some objects have none that
// lasts: enum constants and arrays have the hash of their address. Flink's API refuses them
// as keys, alone or in a tuple. Jobs help themselves by a key that stands for the
// object, and then its hash counts: for an enum the [StringHash] of its name
// or its ordinal as int; for a byte[] a string, or a Row, which hashes
// arrays by content since Flink 1.11 ([BytesHash]), or the RowData of a Table job ([RowDataHash]).
// What a POJO's hashCode says only its class knows; [ListHash],
// [TupleHash], [LombokHash] and [ScalaHash] are what compilers and tools generate. Package serializer computes them
// from bytes, by rules.
package keygroup
