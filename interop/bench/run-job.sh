#!/bin/bash
# run-job.sh [LINES]: builds both programs, runs a keyed count and a windowed aggregation on Flink's local cluster and on drey's runtime by turns, and prints a
# Markdown table. LINES (default: target/job.jsonl) gets the measurements, one JSON line each. FLINK (2.3.0) or 1.20.5; RECORDS (5000000), KEYS (500000), PARALLELISM (2);
# EVERY ("0 1000"): milliseconds between checkpoints; JOBS ("count window"); ROUNDS (2): in each second round drey comes first; LAPS (3) of each measurement;
# GC ("G1 Parallel"): collectors, of which Flink gets the better; WORK (target/work).
set -eu
here=$(dirname "$(readlink -f "$0")")
export FLINK=${FLINK:-2.3.0}
mkdir -p "$here/target"
lines=$(readlink -f "${1:-$here/target/job.jsonl}")
records=${RECORDS:-5000000} keys=${KEYS:-500000} parallelism=${PARALLELISM:-2} laps=${LAPS:-3} work=${WORK:-$here/target/work}
bench=$here/target/bench run=$here/run.sh
"$here/build.sh" "$FLINK"

flink() { for gc in ${GC:-G1 Parallel}; do GC=$gc "$run" job "$1" "$2" "$parallelism" "$records" "$keys" "$3" "$laps" "$work"; done; }
drey() { "$bench" job "$1" "$2" "$parallelism" "$records" "$keys" "$3" "$laps" "$work"; }

for round in $(seq "${ROUNDS:-2}"); do
  for job in ${JOBS:-count window}; do
    for every in ${EVERY:-0 1000}; do
      for pair in "hashmap heap" "rocksdb pebble"; do
        set -- $pair
        mkdir -p "$work"
        if ((round % 2)); then
          flink "$job" "$1" "$every"
          drey "$job" "$2" "$every"
        else
          drey "$job" "$2" "$every"
          flink "$job" "$1" "$every"
        fi
        rm -rf "$work"
      done
    done
  done
done > "$lines"
"$bench" job-table "$lines"
