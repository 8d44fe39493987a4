package localrecovery

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/drey-state/drey/storage"
)

// errDamaged says that something on local disk is not what was written.
var errDamaged = errors.New("damaged")

const (
	indexMagic = "drey local copy 1"
	indexLimit = 256 << 20 // bytes; some million files
	noValue    = "-"
)

// file is the local copy of an object.
type file struct {
	uri    string
	name   string // in the directory of the copy
	size   int64
	sum    uint64 // XXH3 of the bytes
	summed bool
	data   pieces // where copies are in memory
}

// index is the list of what is in a copy. It is written last, so that a directory that has one is complete.
type index struct {
	boot  string // see bootID
	files []file
}

func (x *index) encode() []byte {
	var b bytes.Buffer
	boot := x.boot
	if boot == "" {
		boot = noValue
	}
	fmt.Fprintf(&b, "%s\nboot %s\n", indexMagic, boot)
	for _, f := range x.files {
		sum := noValue
		if f.summed {
			sum = fmt.Sprintf("%016x", f.sum)
		}
		fmt.Fprintf(&b, "%s %d %s %s\n", f.name, f.size, sum, strconv.Quote(f.uri))
	}
	fmt.Fprintf(&b, "end %d %016x\n", len(x.files), xxh3.Hash(b.Bytes()))
	return b.Bytes()
}

// decodeIndex reads what encode writes, and nothing else. Names are those that a copy gives its files,
// so that none leads out of its directory.
func decodeIndex(data []byte) (*index, error) {
	bad := func(line int, what string) error { return fmt.Errorf("%w: line %d: %s", errDamaged, line, what) }
	body := bytes.TrimSuffix(data, []byte("\n"))
	at := bytes.LastIndexByte(body, '\n') + 1
	if len(body) == len(data) {
		return nil, fmt.Errorf("%w: no end", errDamaged)
	}
	lines := strings.Split(string(data[:at]), "\n")
	lines = lines[:len(lines)-1]
	if want := fmt.Sprintf("end %d %016x", max(0, len(lines)-2), xxh3.Hash(data[:at])); string(body[at:]) != want {
		return nil, fmt.Errorf("%w: the last line is not %q", errDamaged, want)
	}
	if len(lines) < 2 || lines[0] != indexMagic {
		return nil, bad(1, "not "+indexMagic)
	}
	boot, ok := strings.CutPrefix(lines[1], "boot ")
	if !ok || boot != noValue && !validID(boot) {
		return nil, bad(2, "no boot id")
	}
	x := &index{}
	if boot != noValue {
		x.boot = boot
	}
	uris, names := map[string]bool{}, map[string]bool{}
	for i, line := range lines[2:] {
		fields := strings.SplitN(line, " ", 4)
		if len(fields) != 4 {
			return nil, bad(3+i, "not four fields")
		}
		_, okName := parseNumber(fields[0], 32)
		size, okSize := parseNumber(fields[1], 64)
		uri, err := strconv.Unquote(fields[3])
		if !okName || !okSize || err != nil || strconv.Quote(uri) != fields[3] {
			return nil, bad(3+i, "a name, size or URI that was not written so")
		}
		f := file{uri: uri, name: fields[0], size: size}
		if fields[2] != noValue {
			f.sum, err = strconv.ParseUint(fields[2], 16, 64)
			f.summed = true
			if err != nil || fmt.Sprintf("%016x", f.sum) != fields[2] {
				return nil, bad(3+i, "a checksum that was not written so")
			}
		}
		if uris[storage.Key(uri)] || names[f.name] {
			return nil, bad(3+i, "named twice")
		}
		uris[storage.Key(uri)], names[f.name] = true, true
		x.files = append(x.files, f)
	}
	return x, nil
}
