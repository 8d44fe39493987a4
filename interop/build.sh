#!/bin/bash
# build.sh [VERSION...]: builds the Java program for these Flink versions (default: all six). Does nothing for a version
# that is up to date; safe to run twice at once; a Maven run that fails (a download that times out, mostly) is tried again.
set -eu
cd "$(dirname "$(readlink -f "$0")")"
[ $# -gt 0 ] || set -- 1.20.5 2.3.0 1.8.3 1.12.7 1.15.4 1.17.2

for tool in java mvn; do
  command -v $tool >/dev/null || { echo "build.sh: $tool is missing: install a JDK 17 and Maven" >&2; exit 1; }
done
java -version 2>&1 | grep -q 'version "17' || { echo "build.sh: Java 17 is needed, found: $(java -version 2>&1 | head -1)" >&2; exit 1; }

mkdir -p target
exec 9>target/.lock
flock 9

for v in "$@"; do
  case $v in
    1.20.5|2.3.0) dir=. ;;
    1.8.3|1.12.7|1.15.4|1.17.2) dir=old ;;
    *) echo "build.sh: no such Flink version: $v" >&2; exit 2 ;;
  esac
  stamp=$dir/target/$v/.built
  if [ -e "$stamp" ] && [ -z "$(find $dir/pom.xml $dir/src -newer "$stamp" -print -quit)" ]; then
    continue
  fi
  rm -rf "$dir/target/$v"
  for try in 1 2 3 4; do
    if mvn -q -B -ntp -Dstyle.color=never -f $dir/pom.xml "-P$v" -Dmaven.wagon.http.retryHandler.count=3 package; then
      touch "$stamp"
      break
    fi
    echo "build.sh: $v: Maven failed, try $try of 4" >&2
    sleep $((try * 5))
  done
  [ -e "$stamp" ] || { echo "build.sh: could not build for Flink $v" >&2; exit 1; }
  echo "built for Flink $v"
done
