package rocksdb

import (
	"bytes"
	"fmt"
	"math"
)

// Tags of a VersionEdit.
const (
	tagComparator     = 1
	tagLogNumber      = 2
	tagNextFile       = 3
	tagLastSequence   = 4
	tagCompactCursor  = 5
	tagDeletedFile    = 6
	tagNewFile        = 7
	tagPrevLogNumber  = 9
	tagMinLogToKeep   = 10
	tagNewFile2       = 100
	tagNewFile3       = 102
	tagNewFile4       = 103
	tagFamilyID       = 200
	tagFamilyAdd      = 201
	tagFamilyDrop     = 202
	tagMaxFamily      = 203
	tagInAtomicGroup  = 300
	tagBlobFile       = 400
	tagBlobGarbage    = 401
	tagIgnorable      = 1 << 13 // set in tags that a reader may skip by their length
	tagBlobFileOld    = 8194
	tagBlobGarbageOld = 8195
	tagWalAddition    = 8196
	tagWalDeletion    = 8197
)

// Custom fields of tag 103.
const (
	fieldEnd            = 1
	fieldOldestBlobFile = 4
	fieldMustKnow       = 1 << 6 // set in fields that a reader must know
	fieldPathID         = 65
)

// maxLevel bounds levels; RocksDB has 7 unless told otherwise.
const maxLevel = 1 << 10

// fileID is how edits name a table.
type fileID struct {
	level  int
	number uint64
}

// edit is a VersionEdit: a change of the set of live files.
type edit struct {
	family       uint32
	add          *string // name of a new family
	drop         bool
	comparator   *string
	logNumber    *uint64
	lastSequence *uint64
	deleted      []fileID
	added        []*File
	group        *uint32 // edits that follow in an atomic group
}

// decodeEdit reads one record of a MANIFEST. It copies what it keeps.
func decodeEdit(c *cursor) *edit {
	e := new(edit)
	for c.err == nil && c.remaining() > 0 {
		off := c.off
		tag := c.varint32("tag")
		if c.err != nil {
			break
		}
		switch tag {
		case tagComparator:
			s := string(c.lp("comparator"))
			e.comparator = &s
		case tagLogNumber:
			v := c.varint("log number")
			e.logNumber = &v
		case tagNextFile:
			c.varint("next file number")
		case tagLastSequence:
			v := c.varint("last sequence")
			if v > maxSequence {
				c.fail(off, "last sequence", corrupt("%d has more than 56 bits", v))
			}
			e.lastSequence = &v
		case tagCompactCursor:
			c.varint32("compact cursor.level")
			c.lp("compact cursor.key")
		case tagDeletedFile:
			level := c.level("deleted file.level")
			e.deleted = append(e.deleted, fileID{level, c.varint("deleted file.number")})
		case tagNewFile, tagNewFile2, tagNewFile3, tagNewFile4:
			f := decodeNewFile(c, tag)
			c.within("new file")
			e.added = append(e.added, f)
		case tagPrevLogNumber:
			c.varint("previous log number")
		case tagMinLogToKeep:
			c.varint("min log to keep")
		case tagFamilyID:
			e.family = c.varint32("column family id")
		case tagFamilyAdd:
			s := string(c.lp("column family name"))
			e.add = &s
		case tagFamilyDrop:
			e.drop = true
		case tagMaxFamily:
			c.varint32("max column family id")
		case tagInAtomicGroup:
			v := c.varint32("atomic group")
			e.group = &v
		case tagBlobFile, tagBlobGarbage, tagBlobFileOld, tagBlobGarbageOld:
			c.fail(off, "tag", unsupported("tag %d: BlobDB", tag))
		case tagWalAddition:
			c.varint("wal addition.number")
			for c.err == nil {
				if c.varint32("wal addition.tag") == 1 {
					break
				}
				c.varint("wal addition.size")
			}
		case tagWalDeletion:
			c.varint("wal deletion.number")
		default:
			if tag&tagIgnorable == 0 {
				c.fail(off, "tag", unsupported("tag %d is unknown; a newer RocksDB?", tag))
				break
			}
			c.lp(fmt.Sprintf("tag %d", tag))
		}
	}
	return e
}

func (c *cursor) level(field string) int {
	off := c.off
	v := c.varint32(field)
	if v > maxLevel {
		c.fail(off, field, corrupt("level %d", v))
		return 0
	}
	return int(v)
}

// decodeNewFile reads the fields of a new table after its tag.
func decodeNewFile(c *cursor, tag uint32) *File {
	f := &File{Level: c.level("level"), Number: c.varint("number")}
	if tag == tagNewFile3 {
		c.varint32("path id")
	}
	off := c.off
	size := c.varint("size")
	if size > math.MaxInt64 {
		c.fail(off, "size", corrupt("%d bytes", size))
	}
	f.Size = int64(size)
	f.smallest = c.boundary("smallest key")
	f.largest = c.boundary("largest key")
	f.LargestSequence = maxSequence
	if tag != tagNewFile {
		f.SmallestSequence = c.varint("smallest sequence")
		f.LargestSequence = c.varint("largest sequence")
	}
	if c.err == nil && f.smallest.compare(f.largest) > 0 {
		c.fail(off, "smallest key", corrupt("behind the largest key"))
	}
	if tag != tagNewFile4 {
		return f
	}
	for c.err == nil {
		off := c.off
		field := c.varint32("field tag")
		if c.err != nil || field == fieldEnd {
			break
		}
		value := c.lp(fmt.Sprintf("field %d", field))
		switch {
		case c.err != nil:
		case field == fieldOldestBlobFile:
			for _, b := range value {
				if b != 0 {
					c.fail(off, "oldest blob file", unsupported("BlobDB"))
				}
			}
		case field&fieldMustKnow != 0 && field != fieldPathID:
			c.fail(off, "field tag", unsupported("field %d is unknown; a newer RocksDB?", field))
		}
	}
	return f
}

// boundary reads an internal key.
func (c *cursor) boundary(field string) ikey {
	off := c.off
	b := c.lp(field)
	if c.err != nil {
		return ikey{}
	}
	k, ok := splitKey(bytes.Clone(b))
	if !ok {
		c.fail(off, field, corrupt("internal key of %d bytes", len(b)))
	}
	return k
}
