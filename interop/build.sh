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

# fresh VERSION: nothing changed since it was built.
fresh() { [ -e "$dir/target/$1/.built" ] && [ -z "$(find $dir/pom.xml $dir/src -newer "$dir/target/$1/.built" -print -quit)" ]; }

mkdir -p target
exec 8>target/.lock # one Maven at a time: they share a local repository
for v in "$@"; do
  case $v in
    1.20.5|2.3.0) dir=. ;;
    1.8.3|1.12.7|1.15.4|1.17.2) dir=old ;;
    *) echo "build.sh: no such Flink version: $v" >&2; exit 2 ;;
  esac
  fresh "$v" && continue
  flock 8
  exec 9>"target/.lock-$v" # run.sh holds it while the program runs: a build would take the classes away from under it
  flock -n 9 || { echo "build.sh: waiting for runs on Flink $v to end" >&2; flock 9; }
  if ! fresh "$v"; then
    rm -rf "$dir/target/$v"
    touch "target/.started-$v" # what is edited during the build is newer than this
    for try in 1 2 3 4; do # -U: don't remember what could not be downloaded
      if mvn -q -B -ntp -U -f $dir/pom.xml "-P$v" package; then
        touch -r "target/.started-$v" "$dir/target/$v/.built"
        echo "built for Flink $v"
        break
      fi
      echo "build.sh: $v: Maven failed, try $try of 4" >&2
      sleep $((try * 5))
    done
  fi
  exec 9>&-
  flock -u 8
  [ -e "$dir/target/$v/.built" ] || { echo "build.sh: could not build for Flink $v" >&2; exit 1; }
done
