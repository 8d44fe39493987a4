// Package serializer reads and writes what Flink's type serializers write: the
// snapshot of a serializer, and values, typed or by the snapshot alone.
package serializer
