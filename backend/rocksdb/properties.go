package rocksdb

import (
	"encoding/binary"
)

// Names of blocks in the metaindex.
const (
	metaProperties    = "rocksdb.properties"
	metaPropertiesOld = "rocksdb.stats"
	metaRangeDel      = "rocksdb.range_del"
	metaDict          = "rocksdb.compression_dict"
	metaIndex         = "rocksdb.index"
)

// propGlobalSequence may be patched in a file, without its block's checksum.
const propGlobalSequence = "rocksdb.external_sst_file.global_seqno"

// Types of index.
const (
	indexBinarySearch = 0
	indexHash         = 1
	indexTwoLevel     = 2
	indexFirstKey     = 3
)

// Properties are what a table says of itself, as far as it is of use here.
// What a file does not have is zero.
type Properties struct {
	// Entries counts what is in the table, deletions and old versions
	// included; range deletions too, except in files before RocksDB 6.
	Entries uint64
	// Deletions, Merges and RangeDeletions are parts of it.
	Deletions, Merges, RangeDeletions uint64
	// DataBlocks and DataSize count blocks and their bytes in the file.
	DataBlocks, DataSize uint64
	// RawKeySize and RawValueSize are bytes before compression.
	RawKeySize, RawValueSize uint64
	// FormatVersion is the footer's.
	FormatVersion uint32
	// FamilyName, Comparator, MergeOperator and Compression are names.
	FamilyName, Comparator, MergeOperator, Compression string

	indexType      uint32
	userKeys       bool
	delta          bool
	externalFile   uint32 // version; such a file was ingested
	globalSequence uint64
}

// decodeProperties reads a properties block.
func decodeProperties(b block) (*Properties, error) {
	p := new(Properties)
	numbers := map[string]*uint64{
		"rocksdb.num.entries":                  &p.Entries,
		"rocksdb.deleted.keys":                 &p.Deletions,
		"rocksdb.merge.operands":               &p.Merges,
		"rocksdb.num.range-deletions":          &p.RangeDeletions,
		"rocksdb.num.data.blocks":              &p.DataBlocks,
		"rocksdb.data.size":                    &p.DataSize,
		"rocksdb.raw.key.size":                 &p.RawKeySize,
		"rocksdb.raw.value.size":               &p.RawValueSize,
		"rocksdb.index.key.is.user.key":        new(uint64),
		"rocksdb.index.value.is.delta.encoded": new(uint64),
	}
	texts := map[string]*string{
		"rocksdb.column.family.name": &p.FamilyName,
		"rocksdb.comparator":         &p.Comparator,
		"rocksdb.merge.operator":     &p.MergeOperator,
		"rocksdb.compression":        &p.Compression,
	}
	var it blockIter
	it.reset(b)
	for {
		ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		name := string(it.key)
		switch name {
		case "rocksdb.block.based.table.index.type":
			if len(it.value) != 4 {
				return nil, corrupt("property %s of %d bytes", name, len(it.value))
			}
			p.indexType = binary.LittleEndian.Uint32(it.value)
			continue
		case "rocksdb.external_sst_file.version":
			if len(it.value) != 4 {
				return nil, corrupt("property %s of %d bytes", name, len(it.value))
			}
			p.externalFile = binary.LittleEndian.Uint32(it.value)
			continue
		case propGlobalSequence:
			if len(it.value) != 8 {
				return nil, corrupt("property %s of %d bytes", name, len(it.value))
			}
			p.globalSequence = binary.LittleEndian.Uint64(it.value)
			continue
		}
		if t := texts[name]; t != nil {
			*t = string(it.value)
		}
		if v := numbers[name]; v != nil {
			n, used := binary.Uvarint(it.value)
			if used <= 0 {
				return nil, corrupt("property %s", name)
			}
			*v = n
		}
	}
	p.userKeys = *numbers["rocksdb.index.key.is.user.key"] != 0
	p.delta = *numbers["rocksdb.index.value.is.delta.encoded"] != 0
	if p.indexType > indexFirstKey {
		return nil, unsupported("index type %d", p.indexType)
	}
	return p, nil
}

// form is how the index is written.
func (p *Properties) form() indexForm {
	return indexForm{userKeys: p.userKeys, delta: p.delta, firstKey: p.indexType == indexFirstKey}
}

// globalSequencePlace finds the bytes of a properties block that may have been patched.
func globalSequencePlace(data []byte) (int, bool) {
	b, err := parseBlock(data)
	if err != nil {
		return 0, false
	}
	var it blockIter
	it.reset(b)
	for {
		if ok, err := it.next(); err != nil || !ok {
			return 0, false
		}
		if string(it.key) == propGlobalSequence && len(it.value) == 8 {
			return it.off - 8, true
		}
	}
}
