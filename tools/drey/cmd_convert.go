package main

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/rewrite"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

const convertHelp = `
Makes a savepoint in the directory DST from the snapshot SRC: in another format,
for the other state backend, for another release of Flink, with another max
parallelism. SRC may be any snapshot whose state drey reads: canonical and native savepoints,
full, incremental and changelog checkpoints, savepoints of one backend by Flink 1.8 to 1.12. The
result is self-contained: it uses no file of SRC, and its paths are relative, so that it can be moved.

  canonical       every state backend restores it
  native-heap     the hashmap backend's own format
  native-rocksdb  the files of RocksDB databases, which the RocksDB backend opens without reading entry by entry

Operator state, timers, raw state, coordinators and records in flight are carried over. What can't be
carried is named, and nothing is written then; so is nothing if anything fails on the way. SRC is only read.
DST must be empty; _metadata comes last.

--max-parallelism moves each key to its new key group, which no running Flink can do. That needs
the hash that Java computes of the keys, which is known for numbers, texts, times, tuples, rows, lists and maps
of them. For classes of the job, say with --key-hash how their hashCode() is made:
  objects(a,b)  java.util.Objects.hash(a, b), and what Eclipse generates
  record(a,b)   a record, a data class of Kotlin, what IntelliJ generates without Objects.hash
  lombok(a,b)   @EqualsAndHashCode, @Data or @Value of Lombok
  field(a)      the hash of one field
The fields are those of the class in the order in which hashCode() takes them. After a colon it may be said what a
field counts as: boolean, Boolean, bit, array or name (of an enum). "*" is for all classes. Every key is checked to
be in the key group that the hash says before it is moved, so that a wrong rule does no harm. See serializer/FORMAT.md.

Sorting, which native-rocksdb and --max-parallelism need, is done in bounded memory, with temporary
files in TMPDIR if there is more state. Two snapshots can't be merged into one.

EXAMPLES
  drey convert --format canonical s3://prod/ck/JOB/chk-42 /tmp/sp
  drey convert --format native-rocksdb --flink 2.3 /old/savepoint-1.8-rocksdb s3://prod/sp/new
  drey convert --max-parallelism 1024 --parallelism 200 SRC DST
  drey convert --max-parallelism 1024 --key-hash 'com.example.Key=objects(id,region)' SRC DST
  drey convert -n --json --format canonical SRC DST | jq .problems

`

// rewriteFlags are the options that convert and edit share.
type rewriteFlags struct {
	dryRun      bool
	compression string
	flink       string
	memory      string
	absolute    bool
	tableSize   string
	keyHash     serializer.HashRules
	target      targetStore
	set         *pflag.FlagSet
}

func (o *rewriteFlags) add(f *pflag.FlagSet) {
	f.StringVar(&o.compression, "compression", "as-is", "of key groups: as-is, none or snappy")
	f.StringVar(&o.flink, "flink", "", "the `RELEASE` that is to restore it, 1.20 or 2.3; default: the version of metadata that SRC has")
	o.keyHash = serializer.HashRules{}
	f.Func("key-hash", "`CLASS=RULE`: how hashCode() of the class of keys is made; may be repeated", o.keyHash.Set)
	f.BoolVar(&o.absolute, "absolute-paths", false, "write whole paths into the metadata: a native-rocksdb savepoint needs them to be restored in claim mode (FLINK-39964)")
	f.StringVar(&o.memory, "sort-memory", "256M", "`SIZE` of the memory for sorting")
	f.StringVar(&o.tableSize, "table-size", "64M", "`SIZE` from which on a table of RocksDB ends")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "show what would be done")
	o.target.add(f)
	o.set = f
}

// options gives what the flags say.
func (o *rewriteFlags) options(e *env, local storage.FS) (opts tools.RewriteOptions, err error) {
	switch o.compression {
	case "as-is":
	case "none":
		opts.Compression = rewrite.CompressionNone
	case "snappy":
		opts.Compression = rewrite.CompressionSnappy
	default:
		return opts, usagef("--compression is as-is, none or snappy")
	}
	if o.flink != "" && o.flink != "1.20" && o.flink != "2.3" {
		return opts, usagef("--flink is 1.20 or 2.3")
	}
	opts.Flink, opts.Absolute, opts.Jobs, opts.KeyHashes = o.flink, o.absolute, e.jobs, o.keyHash
	if opts.Memory, err = parseSize("sort-memory", o.memory); err != nil {
		return opts, err
	}
	if opts.TableSize, err = parseSize("table-size", o.tableSize); err != nil {
		return opts, err
	}
	opts.Target = o.target.store(e, local)
	return opts, nil
}

func cmdConvert() *command {
	var o rewriteFlags
	var format string
	var parallelism, maxParallelism int
	return &command{
		name: "convert", args: "SRC DST", short: "another format, backend, max parallelism, Flink release", long: convertHelp,
		minArgs: 2, maxArgs: 2,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&format, "format", "", "canonical, native-heap or native-rocksdb; default: that of each operator's state")
			f.IntVar(&maxParallelism, "max-parallelism", 0, "new number `N` of key groups of all operators but those that have one")
			f.IntVar(&parallelism, "parallelism", 0, "into how many subtasks `N` keyed state is written; a job may restore it with any other")
			o.add(f)
		},
		run: func(ctx context.Context, e *env, args []string) error {
			local := storage.NewLocal(storage.LocalOptions{})
			opts, err := o.options(e, local)
			if err != nil {
				return err
			}
			if opts.Format, err = formatOf(format); err != nil {
				return err
			}
			inRange := func(n int) bool { return n >= 1 && n <= keygroup.UpperBound }
			if f := o.set; f.Changed("max-parallelism") && !inRange(maxParallelism) || f.Changed("parallelism") && !inRange(parallelism) {
				return usagef("--parallelism and --max-parallelism must be from 1 to %d", keygroup.UpperBound)
			}
			opts.MaxParallelism, opts.Parallelism = maxParallelism, parallelism
			return rewriteSnapshot(ctx, e, local, &o, opts, args)
		},
	}
}

func formatOf(name string) (rewrite.Format, error) {
	if name == "" {
		return rewrite.AsIs, nil
	}
	for _, f := range []rewrite.Format{rewrite.Canonical, rewrite.NativeHeap, rewrite.NativeRocksDB} {
		if name == f.String() {
			return f, nil
		}
	}
	return 0, usagef("--format is canonical, native-heap or native-rocksdb")
}

// parseSize reads a number of bytes such as 64M.
func parseSize(flag, text string) (int64, error) {
	units := map[string]int64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
	number := strings.TrimRight(text, "KMG")
	n, err := strconv.ParseInt(number, 10, 64)
	unit, ok := units[text[len(number):]]
	if err != nil || !ok || n <= 0 || n > math.MaxInt64/unit {
		return 0, usagef("--%s %q: a number of bytes such as 64M is expected", flag, text)
	}
	return n * unit, nil
}
