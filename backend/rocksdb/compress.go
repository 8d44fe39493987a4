package rocksdb

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression types, the byte behind a block.
const (
	compressNone    = 0
	compressSnappy  = 1
	compressZlib    = 2
	compressBZip2   = 3
	compressLZ4     = 4
	compressLZ4HC   = 5
	compressXpress  = 6
	compressZSTD    = 7
	compressZSTDOld = 0x40
)

// The most that one byte of input can become, so that no size is believed
// that the bytes cannot give.
const (
	ratioSnappy = 64
	ratioLZ4    = 255
	ratioZlib   = 1032
	ratioZSTD   = 1 << 15
	ratioBZip2  = 1 << 16
	ratioSlack  = 1 << 10
)

// zstdMagic begins a trained dictionary.
const zstdMagic = "\x37\xa4\x30\xec"

// plainZSTD decodes frames that need no dictionary; safe for concurrent use.
var plainZSTD = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
})

// decompressor decodes the blocks of a table. The zero value has no dictionary.
type decompressor struct {
	version uint32 // of the format
	dict    []byte
	zstd    *zstd.Decoder // with the dictionary
	zlib    io.ReadCloser
	in      bytes.Reader
}

// close frees what a dictionary took.
func (d *decompressor) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// withSize splits off the uncompressed size before compressed bytes.
func withSize(src []byte) (uint64, []byte, error) {
	n, used := binary.Uvarint(src)
	if used <= 0 {
		return 0, nil, corrupt("uncompressed size")
	}
	return n, src[used:], nil
}

// room makes dst n bytes long if the input can give them. No block is empty,
// and not every decoder bears an empty dst.
func room(dst []byte, n uint64, src []byte, ratio uint64) ([]byte, error) {
	if n == 0 || n > uint64(len(src))*ratio+ratioSlack || n > 1<<32 {
		return nil, corrupt("%d bytes compressed cannot be %d", len(src), n)
	}
	return slices.Grow(dst[:0], int(n))[:n], nil
}

// decode decompresses src into dst's memory, or gives src where it is not compressed.
func (d *decompressor) decode(dst, src []byte, kind byte) ([]byte, error) {
	switch kind {
	case compressNone:
		return src, nil
	case compressSnappy:
		n, err := snappy.DecodedLen(src)
		if err != nil {
			return nil, corrupt("snappy: %v", err)
		}
		if dst, err = room(dst, uint64(n), src, ratioSnappy); err != nil {
			return nil, err
		}
		out, err := snappy.Decode(dst, src)
		if err != nil {
			return nil, corrupt("snappy: %v", err)
		}
		return out, nil
	case compressZlib:
		return d.inflate(dst, src)
	case compressBZip2:
		return d.bunzip2(dst, src)
	case compressLZ4, compressLZ4HC:
		return d.lz4(dst, src)
	case compressZSTD, compressZSTDOld:
		return d.unzstd(dst, src)
	case compressXpress:
		return nil, unsupported("compression XPRESS of Windows")
	}
	return nil, unsupported("compression type %d", kind)
}

func (d *decompressor) lz4(dst, src []byte) ([]byte, error) {
	var n uint64
	var err error
	if d.version >= 2 {
		n, src, err = withSize(src)
	} else if len(src) < 8 {
		err = corrupt("uncompressed size")
	} else {
		n, src = binary.LittleEndian.Uint64(src), src[8:]
	}
	if err != nil {
		return nil, err
	}
	if dst, err = room(dst, n, src, ratioLZ4); err != nil {
		return nil, err
	}
	got, err := lz4.UncompressBlockWithDict(src, dst, d.dict)
	if err != nil {
		return nil, corrupt("lz4: %v", err)
	}
	if uint64(got) != n {
		return nil, corrupt("lz4: %d bytes instead of %d", got, n)
	}
	return dst, nil
}

func (d *decompressor) unzstd(dst, src []byte) ([]byte, error) {
	n, src, err := withSize(src)
	if err != nil {
		return nil, err
	}
	if dst, err = room(dst, n, src, ratioZSTD); err != nil {
		return nil, err
	}
	dec := d.zstd
	if dec == nil {
		if dec, err = d.openZSTD(); err != nil {
			return nil, err
		}
	}
	// The capacity is the limit.
	out, err := dec.DecodeAll(src, dst[:0:n])
	if err != nil {
		return nil, corrupt("zstd: %v", err)
	}
	if uint64(len(out)) != n {
		return nil, corrupt("zstd: %d bytes instead of %d", len(out), n)
	}
	return out, nil
}

func (d *decompressor) openZSTD() (*zstd.Decoder, error) {
	if len(d.dict) == 0 {
		return plainZSTD()
	}
	option := zstd.WithDecoderDictRaw(0, d.dict)
	if bytes.HasPrefix(d.dict, []byte(zstdMagic)) {
		option = zstd.WithDecoderDicts(d.dict)
	}
	dec, err := zstd.NewReader(nil, option, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, corrupt("zstd dictionary: %v", err)
	}
	d.zstd = dec
	return dec, nil
}

func (d *decompressor) inflate(dst, src []byte) ([]byte, error) {
	n, sized := uint64(0), d.version >= 2
	if sized {
		var err error
		if n, src, err = withSize(src); err != nil {
			return nil, err
		}
		if dst, err = room(dst, n, src, ratioZlib); err != nil {
			return nil, err
		}
	}
	d.in.Reset(src)
	if d.zlib == nil {
		d.zlib = flate.NewReaderDict(&d.in, d.dict)
	} else if err := d.zlib.(flate.Resetter).Reset(&d.in, d.dict); err != nil {
		return nil, fmt.Errorf("zlib: %w", err)
	}
	return d.drain(dst, d.zlib, n, sized, uint64(len(src))*ratioZlib+ratioSlack, "zlib")
}

func (d *decompressor) bunzip2(dst, src []byte) ([]byte, error) {
	n, sized := uint64(0), d.version >= 2
	if sized {
		var err error
		if n, src, err = withSize(src); err != nil {
			return nil, err
		}
		if dst, err = room(dst, n, src, ratioBZip2); err != nil {
			return nil, err
		}
	}
	d.in.Reset(src)
	return d.drain(dst, bzip2.NewReader(&d.in), n, sized, uint64(len(src))*ratioBZip2+ratioSlack, "bzip2")
}

// drain reads a stream to its end: n bytes if that is known, else at most limit.
func (d *decompressor) drain(dst []byte, r io.Reader, n uint64, sized bool, limit uint64, what string) ([]byte, error) {
	if !sized {
		b := bytes.NewBuffer(dst[:0])
		got, err := b.ReadFrom(io.LimitReader(r, int64(limit)+1))
		if err != nil {
			return nil, corrupt("%s: %v", what, err)
		}
		if uint64(got) > limit {
			return nil, corrupt("%s: more than %d bytes", what, limit)
		}
		return b.Bytes(), nil
	}
	if got, err := io.ReadFull(r, dst[:n]); err != nil {
		return nil, corrupt("%s: %d bytes instead of %d: %v", what, got, n, err)
	}
	var one [1]byte
	if got, err := io.ReadFull(r, one[:]); got != 0 || !errors.Is(err, io.EOF) {
		return nil, corrupt("%s: more than %d bytes (%v)", what, n, err)
	}
	return dst[:n], nil
}
