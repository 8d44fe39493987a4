// Package backend reads keyed and operator state from the files in which
// Flink's state backends save it, as entries of named states, and writes such files. It says what a keyed state
// backend is ([Keyed]); packages heap and pebble are two.
//
// # Limits
//
// Flink holds keys, values and lists in arrays of Java, which have at most 2^31-1 elements ([MaxSize]). Its hashmap
// backend finds out when it writes a savepoint, and its RocksDB backend fails to read a list that grew beyond it. Here,
// what is too large gives an error that names the state and the sizes, and unwraps to [ErrTooLarge]:
//
//	                             pebble                                  heap
//	key with namespace,          at most half of MaxSize, because key    when a snapshot is written
//	user key, or a timer         and value together must stay below
//	                             4 GiB; refused by the call
//	value, accumulator,          refused by the call                     when a snapshot is written
//	value in a map
//	elements of one Add or Set   refused by the call                     when a snapshot is written, and by
//	                                                                     Add beyond 2^31-1 elements
//	list that grows by Add,      by whatever reads it: Get, Merge,       as above; Get gives all of it
//	which does not read          Entries, a snapshot. Set and Clear
//	                             make it usable; its content is lost
//	state's name                 of more than 65535 bytes: refused when it is opened
//	number of states             of more than 32767: refused when one more is opened
//	number of elements or        of more than 2^31-1 in one block of FormatFull: when a snapshot is written
//	entries
//
// A snapshot that is refused leaves no files, and the backend is as before. FormatFull of the heap
// has no length in front of values, so that it bounds only those of which the serializer writes one. FormatRocksDB has
// a key and its value in one array of Java: together they must stay below 2^31-8 bytes. A JVM may give a
// few bytes less than 2^31-1 to an array; and what is that large needs several times as much memory, here as there.
// [MaxSize] may be set lower for a backend, so that an engine finds out what grows before it is too late.
//
// # Concurrency
//
// One goroutine at a time uses a backend with its states and what they yield. There is no lock: the race detector tells
// of mistakes, because every call reads which key is set. What other goroutines may do meanwhile:
//
//   - Write and Release of the snapshots that the backend gave, each snapshot by one at a time, any number of them;
//   - Close, on Pebble, waits for Writes that are on their way, which fail with [ErrClosed]. On heap they go on.
//
// In a loop over a sequence, Close ends it with ErrClosed. After Close everything gives ErrClosed, but
// what can't fail: Key, KeyGroups, MaxParallelism, States.
package backend
