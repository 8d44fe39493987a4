#!/bin/bash
# Cold start: the wall and CPU time of whole processes (median of N) that load one _metadata; see README.md. usage: cold.sh FILE [N]
here=$(dirname "$(readlink -f "$0")")
file=$1 n=${2:-9} v=${FLINK:-2.3.0}
export XMX=256m XMS=64m GC=Serial FLINK=$v
measure() { # NAME COMMAND...
  local name=$1; shift
  "$@" > /dev/null 2>&1 || exit 1 # warms the page cache
  for i in $(seq "$n"); do
    { /usr/bin/env bash -c 'TIMEFORMAT="%R %U %S"; time "$@" > /dev/null 2>&1' _ "$@"; } 2>&1
  done | sort -n | awk -v name="$name" -v v="$v" '{w[NR]=$1; c[NR]=$2+$3} END {
    for (i=1;i<=NR;i++) for (j=i+1;j<=NR;j++) if (c[j]<c[i]) {t=c[i];c[i]=c[j];c[j]=t}
    printf "{\"name\":\"cold\",\"what\":\"%s\",\"wall_s\":%.3f,\"wall_min\":%.3f,\"cpu_s\":%.3f,\"n\":%d,\"flink\":\"%s\"}\n", name, w[int((NR+1)/2)], w[1], c[int((NR+1)/2)], NR, v}'
}
measure jvm-version java -Xmx256m -XX:+UseSerialGC -version
measure loader "$here/run.sh" cold "$file"
JAVA_OPTS="-XX:TieredStopAtLevel=1" measure loader-c1 "$here/run.sh" cold "$file"
jsa=$(mktemp -u -t flink-bench-XXXX.jsa)
JAVA_OPTS="-XX:ArchiveClassesAtExit=$jsa" "$here/run.sh" cold "$file" > /dev/null 2>&1
[ -f "$jsa" ] && JAVA_OPTS="-XX:SharedArchiveFile=$jsa -XX:TieredStopAtLevel=1" measure loader-appcds-c1 "$here/run.sh" cold "$file"
rm -f "$jsa"
