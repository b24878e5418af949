#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds release and dev, runs the checks, all tests in both and the code blocks of the documents.
# Continues after a failure, so that one run shows all of them; counts go to build/test-counts.
set -uo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test && scripts/venv.sh || exit 1
scripts/venv.sh venv-ort tests/ort_plugin/requirements.txt || exit 1
scripts/venv.sh venv-ort-oldest tests/ort_plugin/requirements-oldest.txt || exit 1
rm -rf build/results
mkdir -p build/results
failed=0
for preset in release dev; do
  if scripts/build.sh "$preset"; then
    echo "testing $preset"
    GTEST_OUTPUT="xml:$PWD/build/results/$preset/" ctest --test-dir "build/$preset" -j 2 \
      --output-on-failure --no-tests=error \
      --test-output-size-passed 1000000 --test-output-size-failed 1000000 \
      --output-junit "$PWD/build/results/$preset.xml" || failed=1
  else
    echo "failed  build $preset" >>build/results/builds.txt
    failed=1
  fi
done
scripts/check.sh build/results/checks.txt || failed=1
python3 scripts/count_tests.py build/results | tee build/test-counts || failed=1
exit "$failed"
