#!/bin/bash
# run-audit.sh: builds drey, makes a tree of checkpoints on local disk and one on an S3 server, and prints for each a Markdown table of
# drey audit and drey gc beside find and rclone (apt-get install rclone), which only list it, by turns.
# OBJECTS (1000000), SNAPSHOTS (200), REFERENCES (50000) of each: the local tree; S3_OBJECTS (200000), S3_SNAPSHOTS (40), S3_REFERENCES (10000):
# the one on S3, where writing takes long; ROUNDS (3); DATA (target/data): where the local tree goes, which is made once.
# On S3 only with DREY_S3_B, as .ci/s3-servers prints it; the bucket is drey-bench. DELETE=1: drey gc deletes in the end; then both trees are removed.
set -eu
here=$(dirname "$(readlink -f "$0")")
data=${DATA:-$here/target/data}
mkdir -p "$here/target" "$data"
(cd "$here" && go build -o target/bench . && go build -o target/drey ../../tools/drey)
bench=$here/target/bench
last=()
[ -z "${DELETE:-}" ] || last=(-delete)
command -v rclone > /dev/null || { echo "rclone is needed" >&2; exit 1; }

run() { # run ROOT OPTION...
  "$bench" audit "${@:2}" -rounds "${ROUNDS:-3}" "${last[@]}" "$here/target/drey" "$1"
}

size=(-objects "${OBJECTS:-1000000}" -snapshots "${SNAPSHOTS:-200}" -references "${REFERENCES:-50000}")
tree=$data/tree-${OBJECTS:-1000000}
[ -d "$tree" ] || "$bench" depot "${size[@]}" "$tree"
run "$tree" "${size[@]}"
[ -z "${DELETE:-}" ] || rm -r "$tree"

[ -n "${DREY_S3_B:-}" ] || exit 0
export AWS_ACCESS_KEY_ID=$DREY_S3_B_KEY AWS_SECRET_ACCESS_KEY=$DREY_S3_B_SECRET AWS_REGION=us-east-1
export RCLONE_CONFIG_BENCH_TYPE=s3 RCLONE_CONFIG_BENCH_PROVIDER=Other RCLONE_CONFIG_BENCH_ENV_AUTH=true
export RCLONE_CONFIG_BENCH_FORCE_PATH_STYLE=true RCLONE_CONFIG_BENCH_ENDPOINT=$DREY_S3_B
size=(-endpoint "$DREY_S3_B" -objects "${S3_OBJECTS:-200000}" -snapshots "${S3_SNAPSHOTS:-40}" -references "${S3_REFERENCES:-10000}")
tree=drey-bench/tree-${S3_OBJECTS:-200000}
rclone -q mkdir bench:drey-bench
[ -n "$(rclone -q lsf "bench:$tree")" ] || "$bench" depot "${size[@]}" "s3://$tree"
echo
run "s3://$tree" "${size[@]}"
[ -z "${DELETE:-}" ] || rclone -q purge "bench:$tree"
