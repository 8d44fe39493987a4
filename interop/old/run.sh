#!/bin/bash
# old/run.sh VERSION ARGS...: runs the program for old releases (../README.md) on Flink 1.8.3, 1.12.7, 1.15.4 or 1.17.2
here=$(dirname "$(readlink -f "$0")")
v=${1:-}
[ -n "$v" ] && [ -e "$here/target/$v/.built" ] || { echo "usage: run.sh VERSION ARGS... (after ../build.sh VERSION)" >&2; exit 2; }
shift
exec 9>"$here/../target/.lock-$v"
flock -s 9 # until the program ends; see ../build.sh
opens=()
for p in java.lang java.lang.reflect java.util java.util.concurrent java.util.concurrent.atomic java.nio java.io java.net java.text java.time \
    sun.nio.ch jdk.internal.misc jdk.internal.ref; do
  opens+=("--add-opens=java.base/$p=ALL-UNNAMED")
done
for p in sun.net.util sun.nio.ch jdk.internal.ref; do
  opens+=("--add-exports=java.base/$p=ALL-UNNAMED")
done
exec java -Djava.io.tmpdir="${TMPDIR:-/tmp}" -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "${opens[@]}" ${INTEROP_JAVA_OPTS:-} \
  -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG:-off}" -cp "$here/target/$v/classes:$here/target/$v/lib/*" Main "$@"
