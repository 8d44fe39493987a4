#!/bin/bash
# run-restore.sh [LINES]: builds the Go program and restores a state of Pebble from the local copy of a checkpoint, from the checkpoint on an S3 server,
# and from a canonical savepoint on local disk; prints a Markdown table. No Flink. Needs DREY_S3_B, as .ci/s3-servers prints it, and curl; the bucket is drey-bench.
# LINES (default: target/restore.jsonl) gets the measurements, one JSON line each. SIZES ("200 2000"): MB of state;
# TABLES ("0 64"): MB of a table, 0 is the default of package pebble and 64 that of Flink; LAPS (3); WORK (target/work).
set -eu
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$here/target"
lines=$(readlink -f "${1:-$here/target/restore.jsonl}")
work=${WORK:-$here/target/work} bench=$here/target/bench
(cd "$here" && go build -o target/bench .)
export AWS_ACCESS_KEY_ID=$DREY_S3_B_KEY AWS_SECRET_ACCESS_KEY=$DREY_S3_B_SECRET AWS_REGION=us-east-1
curl -s -o /dev/null -X PUT --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$DREY_S3_B/drey-bench"

for table in ${TABLES:-0 64}; do
  for mb in ${SIZES:-200 2000}; do
    rm -rf "$work"
    mkdir -p "$work"
    "$bench" restore "$work" "$DREY_S3_B" "s3://drey-bench/restore-$mb" "$mb" "${LAPS:-3}" "$table"
    rm -rf "$work"
  done
done > "$lines"
"$bench" restore-table "$lines"
