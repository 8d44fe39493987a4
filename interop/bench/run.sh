#!/bin/bash
# The Flink side of the comparison; see README.md.
# FLINK=2.3.0|1.20.5 (default 2.3.0), XMX (default 4g), GC (default G1), JAVA_OPTS, LOG=off|warn|info
here=$(dirname "$(readlink -f "$0")")
v=${FLINK:-2.3.0}
opens=()
for p in lang lang.reflect net io nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks; do
  opens+=("--add-opens=java.base/java.$p=ALL-UNNAMED")
done
main=bench.Main
[ "$1" = cold ] && { main=bench.Cold; shift; }
exec ${TASKSET:+taskset -c $TASKSET} java -Xms${XMS:-${XMX:-4g}} -Xmx${XMX:-4g} -XX:+Use${GC:-G1}GC "${opens[@]}" ${JAVA_OPTS:-} \
  -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG:-off}" -Dorg.slf4j.simpleLogger.logFile=System.err \
  -cp "${CLASSES:-$here/target/$v/flink-bench.jar}:$here/target/$v/lib/*" $main "$@"
