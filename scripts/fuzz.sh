#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: fuzz.sh SECONDS [TARGET...]
# Runs the fuzz targets of the fuzz preset, all unless some are named, from the seeds in tests/fuzz/seeds and
# build/fuzz/seeds. New inputs are kept in build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
names=("${@:2}")
[ "${#names[@]}" -gt 0 ] || for program in build/fuzz/fuzz/*_fuzz; do
  names+=("$(basename "$program" _fuzz)")
done
count=0
for name in "${names[@]}"; do
  program=build/fuzz/fuzz/${name}_fuzz
  [ -x "$program" ] || { echo "error: no fuzz target '$name' in build/fuzz/fuzz" >&2; exit 1; }
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus" build/fuzz/crashes
  folders=("$corpus")
  for seeds in "tests/fuzz/seeds/$name" "build/fuzz/seeds/$name"; do
    [ ! -d "$seeds" ] || folders+=("$seeds")
  done
  # Checkpoints are mapped: what is allocated follows from their headers, which are short here.
  case $name in safetensors | gguf | checkpoint | checkpoint_file) limit=64 ;; *) limit=1024 ;; esac
  echo "fuzzing $name for $seconds s"
  "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb="$limit" \
    -artifact_prefix="build/fuzz/crashes/$name-" -print_final_stats=1 "${folders[@]}" \
    >"build/log/fuzz-$name.log" 2>&1 || {
    tail -n 40 "build/log/fuzz-$name.log" >&2
    echo "error: fuzz target '$name' failed; input in build/fuzz/crashes/$name-*" >&2
    exit 1
  }
  grep -E 'number_of_executed_units|peak_rss_mb|largest_heap|longest_input' "build/log/fuzz-$name.log"
  count=$((count + 1))
done
echo "$count fuzz targets ran without a crash"
