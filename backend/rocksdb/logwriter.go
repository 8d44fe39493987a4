package rocksdb

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// logWriter frames records as a log.
type logWriter struct {
	w   io.Writer
	off int64
}

// add writes a record, in as many pieces as blocks of the log it goes through.
func (l *logWriter) add(rec []byte) error {
	for first := true; ; first = false {
		room := int(logBlock - l.off%logBlock)
		if room < logHeader {
			if err := l.write(make([]byte, room)); err != nil {
				return err
			}
			room = logBlock
		}
		n := min(len(rec), room-logHeader)
		last := n == len(rec)
		if err := l.piece(pieceType(first, last), rec[:n]); err != nil || last {
			return err
		}
		rec = rec[n:]
	}
}

func pieceType(first, last bool) byte {
	switch {
	case first && last:
		return logFull
	case first:
		return logFirst
	case last:
		return logLast
	}
	return logMiddle
}

func (l *logWriter) piece(kind byte, data []byte) error {
	h := make([]byte, logHeader, logHeader+len(data))
	binary.LittleEndian.PutUint16(h[4:], uint16(len(data)))
	h[6] = kind
	h = append(h, data...)
	binary.LittleEndian.PutUint32(h, mask(crc32.Checksum(h[6:], castagnoli)))
	return l.write(h)
}

func (l *logWriter) write(b []byte) error {
	n, err := l.w.Write(b)
	l.off += int64(n)
	return err
}

// The edits of a MANIFEST that are written.

// firstEdit says what holds for the whole database.
func firstEdit(nextFile uint64) []byte {
	b := appendText([]byte{tagComparator}, Bytewise)
	b = append(b, tagLogNumber, 0, tagPrevLogNumber, 0)
	b = binary.AppendUvarint(append(b, tagNextFile), nextFile)
	return binary.AppendUvarint(append(b, tagLastSequence), writtenSequence)
}

// familyEdit adds a column family.
func familyEdit(id uint32, name string) []byte {
	b := appendText([]byte{tagComparator}, Bytewise)
	b = append(b, tagLogNumber, 0)
	b = appendTag(b, tagFamilyID, uint64(id))
	return appendText(binary.AppendUvarint(b, tagFamilyAdd), name)
}

// maxFamilyEdit says which id is the highest.
func maxFamilyEdit(id uint32) []byte { return appendTag(nil, tagMaxFamily, uint64(id)) }

// fileEdit adds a table to a column family.
func fileEdit(family uint32, f *File) []byte {
	b := appendTag(nil, tagNewFile4, uint64(f.Level))
	b = binary.AppendUvarint(b, f.Number)
	b = binary.AppendUvarint(b, uint64(f.Size))
	for _, k := range []ikey{f.smallest, f.largest} {
		b = binary.AppendUvarint(b, uint64(len(k.user)+trailerSize))
		b = binary.LittleEndian.AppendUint64(append(b, k.user...), k.trailer)
	}
	b = binary.AppendUvarint(b, f.SmallestSequence)
	b = binary.AppendUvarint(b, f.LargestSequence)
	b = append(b, fieldEnd)
	return appendTag(b, tagFamilyID, uint64(family))
}

func appendTag(b []byte, tag int, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(tag)), n)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
