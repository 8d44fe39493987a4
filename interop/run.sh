#!/bin/bash
# run.sh VERSION ARGS...: runs the program (README.md) on Flink 1.20.5 (or 1 for short) or 2.3.0 (2)
here=$(dirname "$(readlink -f "$0")")
case ${1:-} in
  1|1.20.5) v=1.20.5 ;;
  2|2.3.0) v=2.3.0 ;;
  *) echo "usage: run.sh 1.20.5|2.3.0 ARGS..." >&2; exit 2 ;;
esac
shift
[ -e "$here/target/$v/.built" ] || { echo "run.sh: not built: run $here/build.sh $v" >&2; exit 1; }
exec 9>"$here/target/.lock-$v"
flock -s 9 # until the program ends; see build.sh
opens=()
for p in lang lang.reflect net io nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks; do
  opens+=("--add-opens=java.base/java.$p=ALL-UNNAMED")
done
[ -z "${S3_ENDPOINT:-}" ] || export FLINK_PLUGINS_DIR="$here/target/$v/plugins"
exec java -Djava.io.tmpdir="${TMPDIR:-/tmp}" -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "${opens[@]}" ${INTEROP_JAVA_OPTS:-} \
  -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG:-off}" -Dorg.slf4j.simpleLogger.logFile=System.err \
  -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
  -cp "$here/target/$v/classes:$here/target/$v/lib/*" lab.Main "$@"
