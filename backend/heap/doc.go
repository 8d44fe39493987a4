// Package heap is the keyed state backend that holds Go values in memory, and whose snapshots are those of Flink's hashmap backend.
package heap
