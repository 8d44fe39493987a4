#!/bin/bash
# run-backend.sh [LINES]: builds both programs, measures state access, snapshots and restores on the keyed state backends of Flink and of drey by turns,
# and prints Markdown tables. LINES (default: target/backend.jsonl) gets the measurements, one JSON line each. FLINK (2.3.0) or 1.20.5; OPS (.*): a regular
# expression of operations; KEYS (500000; 5000000 for the record): of snapshots; ROUNDS (2): in each second round drey comes first; LAPS (3) of each
# measurement; WHAT ("state snap"): what of it; GC ("G1 Parallel"): collectors, of which Flink's hashmap gets the better; WORK (target/work): where backends and snapshots are.
set -eu
here=$(dirname "$(readlink -f "$0")")
export FLINK=${FLINK:-2.3.0}
mkdir -p "$here/target"
lines=$(readlink -f "${1:-$here/target/backend.jsonl}")
ops=${OPS:-.*} keys=${KEYS:-500000} laps=${LAPS:-3} work=${WORK:-$here/target/work}
bench=$here/target/bench run=$here/run.sh
"$here/build.sh" "$FLINK"

# A snapshot is restored through buf:, see Fairness in README.md. RocksDB doesn't work on Java's heap: its collector is of no matter.
state_hashmap() { for gc in ${GC:-G1 Parallel}; do GC=$gc JAVA_OPTS="-Dlaps=$laps" "$run" state hashmap "$work" "$ops"; done; }
state_rocksdb() { GC=Parallel JAVA_OPTS="-Dlaps=$laps" "$run" state rocksdb "$work" "$ops"; }
snap_hashmap() { for gc in ${GC:-G1 Parallel}; do GC=$gc XMX=6g JAVA_OPTS="-Dscheme=buf -Dlaps=$laps" "$run" snap hashmap "$work/snap" "$keys" 0; done; }
snap_rocksdb() { GC=Parallel JAVA_OPTS="-Dscheme=buf -Dlaps=$laps" "$run" snap rocksdb "$work/snap" "$keys" 0; }

state_heap() { "$bench" state heap "$work" "$ops" "$laps" 500000; }
state_pebble() { "$bench" state pebble "$work" "$ops" "$laps" 100000; }
snap_heap() { "$bench" snap heap "$work" "$keys" "$laps"; }
snap_pebble() { "$bench" snap pebble "$work" "$keys" "$laps"; }

for round in $(seq "${ROUNDS:-2}"); do
  for what in ${WHAT:-state snap}; do
    for pair in "hashmap heap" "rocksdb pebble"; do
      set -- $pair
      ((round % 2)) || set -- "$2" "$1"
      for side in "$@"; do
        mkdir -p "$work"
        "${what}_$side"
        rm -rf "$work"
      done
    done
  done
done > "$lines"
"$bench" backend-table "$lines"
