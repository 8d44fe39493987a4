#!/bin/bash
# run-convert.sh [LINES]: builds both programs, lets Flink's hashmap backend write a canonical savepoint, and writes it anew with Flink's State Processor API and with
# drey by turns: as native savepoints, and as a canonical one of 1024 key groups; prints a Markdown table. LINES (default: target/convert.jsonl) gets the measurements, one
# JSON line each. FLINK (2.3.0); KEYS (2000000; 20000000 for the record); ROUNDS (2): in each second round drey comes first; SETTINGS ("STREAMING-Parallel BATCH-Parallel"): runtime
# modes and collectors, of which Flink gets the one that takes the least CPU time; XMX (4g; 10g for 20,000,000 keys); DATA (target/data): where the savepoint goes.
# What is written by both in the first round is compared, entry by entry.
set -eu
here=$(dirname "$(readlink -f "$0")")
export FLINK=${FLINK:-2.3.0} XMX=${XMX:-4g}
mkdir -p "$here/target"
lines=$(readlink -f "${1:-$here/target/convert.jsonl}")
keys=${KEYS:-2000000} data=${DATA:-$here/target/data}/$FLINK/convert-${KEYS:-2000000}
bench=$here/target/bench drey=$here/target/drey work=$data/work
"$here/build.sh" "$FLINK"
(cd "$here" && go build -o target/drey ../../tools/drey)

if [ ! -e "$data/.done" ]; then
  rm -rf "$data"
  mkdir -p "$data"
  "$here/run.sh" gen "$data" "$keys" 0 hashmap > /dev/null
  rm -rf "$data"/cluster*
  touch "$data/.done"
fi
savepoint=$(ls -d "$data"/savepoints/*)

# Both: FORMAT MAX-PARALLELISM
flink() {
  for setting in ${SETTINGS:-STREAMING-Parallel BATCH-Parallel}; do
    rm -rf "$work/flink" "$work/tmp"
    JAVA_OPTS="-Dmode=${setting%-*}" GC=${setting#*-} "$here/run.sh" convert "buf:$savepoint" "$work/flink" hashmap "$1" "$2" "$work/tmp"
  done
}
drey() {
  rm -rf "$work/drey"
  "$bench" convert "$savepoint" "$work/drey" "$1" "$2"
}

mkdir -p "$work"
export TMPDIR=$work
for round in $(seq "${ROUNDS:-2}"); do
  for wanted in "canonical 1024" "native-heap 128" "native-rocksdb 128"; do
    cat "$savepoint"/* > /dev/null # both sides read from the page cache
    set -- $wanted
    if ((round % 2)); then
      flink "$@"
      drey "$@"
    else
      drey "$@"
      flink "$@"
    fi
    ((round > 1)) || "$drey" diff --state "$work/flink" "$work/drey" >&2
  done
done > "$lines"
rm -rf "$work"
"$bench" convert-table "$lines"
