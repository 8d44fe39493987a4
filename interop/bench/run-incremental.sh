#!/bin/bash
# run-incremental.sh [LINES]: builds both programs, takes incremental checkpoints with Flink's RocksDB backend and with drey's on Pebble, by turns: of
# KEYS (1000000) keys, then after 1 %, 10 % and 100 % of them changed; restores from the last one, whole and each half of its key groups; prints Markdown
# tables. LINES (default: target/incremental.jsonl) gets the measurements, one JSON line each. FLINK (2.3.0) or 1.20.5; LAPS (3); ROUNDS (1): in
# each second round drey comes first; WORK (target/work): where backends and checkpoints are.
set -eu
here=$(dirname "$(readlink -f "$0")")
export FLINK=${FLINK:-2.3.0}
mkdir -p "$here/target"
lines=$(readlink -f "${1:-$here/target/incremental.jsonl}")
keys=${KEYS:-1000000} laps=${LAPS:-3} work=${WORK:-$here/target/work}
"$here/build.sh" "$FLINK"

flink() { GC=Parallel JAVA_OPTS="-Dscheme=buf -Dlaps=$laps" "$here/run.sh" snap rocksdb-inc "$work" "$keys" 0; }
drey() { "$here/target/bench" incremental "$work" "$keys" "$laps"; }

for round in $(seq "${ROUNDS:-1}"); do
  set -- flink drey
  ((round % 2)) || set -- drey flink
  for side in "$@"; do
    mkdir -p "$work"
    "$side"
    rm -rf "$work"
  done
done > "$lines"
"$here/target/bench" incremental-table "$lines"
