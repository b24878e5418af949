#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the program and classifies the image of a digit.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
digits=examples/digits
scripts/setup.sh demo
scripts/build.sh demo lathe
echo "ready after $((SECONDS - start)) s"

show() {
  printf '\n$ %s\n' "$*"
  "build/demo/bin/$@"
}
show lathe run "$digits/digits.onnx" --input "$digits/seven.png" --labels "$digits/labels.txt" --top 3
show lathe verify "$digits/digits.onnx"
cat <<END

Try next (after export PATH=\$PWD/build/demo/bin:\$PATH):
  lathe inspect $digits/digits.onnx
  lathe run $digits/digits.onnx --input $digits/four.png --labels $digits/labels.txt --top 3
  lathe perf $digits/digits.onnx --iterations 50
END
