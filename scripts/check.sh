#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check.sh [RESULTS]
# Runs every check of the sources and prints a line for each; the lines also go to RESULTS.
set -uo pipefail
cd "$(dirname "$0")/.."
results=${1:-/dev/null}
: >"$results"
failed=0
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "passed  $name: $(tail -n 1 <<<"$output")" | tee -a "$results"
  else
    echo "failed  $name" | tee -a "$results"
    sed 's/^/        /' <<<"$output"
    failed=1
  fi
}
check includes python3 scripts/check_includes.py
check headers python3 scripts/check_includes.py --headers
check files python3 scripts/check_files.py
check "op names" python3 scripts/check_op_names.py
check words python3 scripts/check_words.py
check readme python3 scripts/check_readme.py
check format scripts/check_format.sh
check "op sizes" python3 scripts/op_sizes.py
check "isa objects" python3 scripts/check_isa_objects.py
check "compile time" python3 scripts/check_compile_time.py
check mutants python3 tests/mutants/run.py --check
check documents python3 scripts/run_docs.py
exit "$failed"
