#!/bin/bash
# run-metadata.sh [LINES]: builds both programs, writes _metadata files with Flink, measures Flink and drey on these same files by
# turns, and prints Markdown tables. LINES (default: target/metadata.jsonl) gets the measurements, one JSON line each.
# FLINK (2.3.0) or 1.20.5; HANDLES ("1000 10000 100000 1000000"); ROUNDS (2): in each second one drey comes first;
# LAP_SECONDS (10): CPU time for a measurement, half of it to warm up; GC ("G1 Parallel"): collectors, of which Flink gets the
# better; DATA (target/data): where the files go; XMX: see run.sh.
set -eu
here=$(dirname "$(readlink -f "$0")")
export FLINK=${FLINK:-2.3.0}
lines=$(readlink -f "${1:-$here/target/metadata.jsonl}")
data=${DATA:-$here/target/data}/$FLINK
seconds=${LAP_SECONDS:-10}
bench=$here/target/bench
"$here/build.sh" "$FLINK"

files=()
for n in ${HANDLES:-1000 10000 100000 1000000}; do
  file=$data/$n/_metadata
  [ -f "$file" ] || "$here/run.sh" meta-gen "$data/$n" "$n" > /dev/null
  files+=("$file")
done

flink() { # each way in a JVM of its own; file: is bound by system calls, whatever the collector
  JAVA_OPTS=-Dio=flink GC=G1 "$here/run.sh" meta "$seconds" "$1"
  for gc in ${GC:-G1 Parallel}; do
    for io in buffered memory; do JAVA_OPTS=-Dio=$io GC=$gc "$here/run.sh" meta "$seconds" "$1"; done
  done
}
drey() {
  "$bench" meta "$seconds" "$1"
  for what in none load map store; do "$bench" peak $what "$1"; done
}
for round in $(seq "${ROUNDS:-2}"); do
  for file in "${files[@]}"; do
    cat "$file" > /dev/null # both sides read from the page cache
    if ((round % 2)); then flink "$file"; drey "$file"; else drey "$file"; flink "$file"; fi
  done
done > "$lines"
"$bench" table "$lines"
