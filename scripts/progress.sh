#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: progress.sh LABEL LOG COMMAND...
# Runs COMMAND with its output in LOG and prints how far it is every 5 seconds. Shows the end of the
# log if it fails.
set -uo pipefail
label=$1 log=$2
shift 2
mkdir -p "$(dirname "$log")"
start=$SECONDS
"$@" >"$log" 2>&1 </dev/null &
child=$!
trap 'kill "$child" 2>/dev/null; exit 130' INT TERM
echo "$label ..."
shown=$SECONDS
while kill -0 "$child" 2>/dev/null; do
  sleep 0.2
  if ((SECONDS - shown >= 5)); then
    shown=$SECONDS
    last=$(tail -c 2000 "$log" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c1-80)
    echo "$label: $((SECONDS - start)) s  $last"
  fi
done
wait "$child"
code=$?
if ((code != 0)); then
  tail -n 40 "$log" >&2
  echo "error: $label failed with exit code $code after $((SECONDS - start)) s (log: $log)" >&2
fi
exit "$code"
