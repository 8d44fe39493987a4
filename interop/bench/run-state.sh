#!/bin/bash
# run-state.sh [LINES]: builds both programs, lets Flink write a savepoint and an incremental checkpoint, reads them by turns with Flink's State
# Processor API and with drey, and their tables with RocksDB's own Java iterator and with drey; prints Markdown tables. LINES (default:
# target/state.jsonl) gets the measurements, one JSON line each. FLINK (2.3.0) or 1.20.5; KEYS (200000; 5000000 for the record); ROUNDS (3);
# LAP_SECONDS (10): CPU time for a scan of tables, half of it to warm up; DATA (target/data): where the snapshots go; UNBUFFERED=1: Flink on file: too.
set -eu
here=$(dirname "$(readlink -f "$0")")
export FLINK=${FLINK:-2.3.0}
lines=$(readlink -f "${1:-$here/target/state.jsonl}")
keys=${KEYS:-200000} data=${DATA:-$here/target/data}/$FLINK/state-${KEYS:-200000} seconds=${LAP_SECONDS:-10}
bench=$here/target/bench drey=$here/target/drey
"$here/build.sh" "$FLINK"
(cd "$here" && go build -o target/drey ../../tools/drey)

if [ ! -e "$data/.done" ]; then
  rm -rf "$data"
  mkdir -p "$data"
  "$here/run.sh" gen "$data" "$keys" 0 rocksdb-inc > /dev/null
  "$bench" unpack "$(ls -d "$data"/checkpoints/*/chk-*)" "$data/snappy"
  "$here/run.sh" rocks-copy "$data/snappy" "$data/zstd" ZSTD_COMPRESSION
  rm -rf "$data"/cluster*
  touch "$data/.done"
fi
savepoint=$(ls -d "$data"/savepoints/*) checkpoint=$(ls -d "$data"/checkpoints/*/chk-*)
work=$data/work

flink() {
  local run=$here/run.sh
  "$run" sp "buf:$savepoint" hashmap false "$work"
  "$run" sp "buf:$savepoint" hashmap false "$work" "$work/csv"
  "$run" sp "buf:$savepoint" rocksdb false "$work"
  "$run" sp "$checkpoint" rocksdb false "$work"
  [ -z "${UNBUFFERED:-}" ] || "$run" sp "$savepoint" hashmap false "$work"
  for c in snappy zstd; do "$run" rocks "$seconds" "$data/$c"; done
  rm -rf "$work"
}
drey() {
  for s in "$savepoint" "$checkpoint"; do
    "$bench" exec "dump --count" "$s" "$keys" "$drey" dump --operator state --count "$s"
    for f in csv json; do "$bench" exec "dump --format $f" "$s" "$keys" "$drey" dump --operator state --format $f "$s"; done
  done
  for c in snappy zstd; do "$bench" rocks "$seconds" "$data/$c"; done
}
for round in $(seq "${ROUNDS:-3}"); do
  cat "$savepoint"/* "$data"/*/*/*.sst > /dev/null # both sides read from the page cache
  find "$(dirname "$checkpoint")" -type f -exec cat {} + > /dev/null
  if ((round % 2)); then flink; drey; else drey; flink; fi
done > "$lines"
"$bench" state-table "$lines"
