// Package rocksdb reads and writes the files of a RocksDB checkpoint (CURRENT, MANIFEST and tables) as column families of rows in key order, in pure Go; it knows nothing of what Flink keeps in them.
package rocksdb
