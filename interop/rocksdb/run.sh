#!/bin/bash
# rocksdb/run.sh VERSION DIR...: runs Check.java on the RocksDB of that Flink release (after ../build.sh VERSION)
here=$(dirname "$(readlink -f "$0")")
v=${1:-}
for target in "$here/../target/$v" "$here/../old/target/$v"; do
  [ -n "$v" ] && [ -e "$target/.built" ] && break
  target=
done
[ -n "$target" ] || { echo "usage: rocksdb/run.sh VERSION DIR... (after ../build.sh VERSION)" >&2; exit 2; }
shift
exec 9>"$here/../target/.lock-$v"
flock -s 9 # until the program ends; see ../build.sh
exec java -Djava.io.tmpdir="${TMPDIR:-/tmp}" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -cp "$(echo "$target"/lib/frocksdbjni-*.jar)" "$here/Check.java" "$@"
