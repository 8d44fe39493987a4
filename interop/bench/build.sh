#!/bin/bash
# build.sh [VERSION...]: builds the Java program for these Flink versions (2.3.0, 1.20.5; default 2.3.0) and the Go program
# beside it. Does nothing for a version that is up to date; a Maven run that fails (a download, mostly) is tried again.
set -eu
cd "$(dirname "$(readlink -f "$0")")"
[ $# -gt 0 ] || set -- 2.3.0

for tool in java mvn go; do
  command -v $tool > /dev/null || { echo "build.sh: $tool is missing: install a JDK 17, Maven and Go" >&2; exit 1; }
done

mkdir -p target
exec 9> target/.lock
flock 9

for v in "$@"; do
  case $v in
    2.3.0) profile=() ;;
    1.20.5) profile=(-Pflink1) ;;
    *) echo "build.sh: no such Flink version: $v" >&2; exit 2 ;;
  esac
  stamp=target/$v/.built
  if [ -e "$stamp" ] && [ -z "$(find pom.xml src -newer "$stamp" -print -quit)" ]; then
    continue
  fi
  rm -rf "target/$v"
  for try in 1 2 3 4; do
    if mvn -q -B -ntp "${profile[@]}" -Dmaven.wagon.http.retryHandler.count=3 package; then
      touch "$stamp"
      break
    fi
    echo "build.sh: $v: Maven failed, try $try of 4" >&2
    sleep $((try * 5))
  done
  [ -e "$stamp" ] || { echo "build.sh: could not build for Flink $v" >&2; exit 1; }
done
go build -o target/bench .
