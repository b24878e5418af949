#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the program and fetches a small language model beside it. The model answers a question, a
# graph classifies the image of a digit, and verify compares the kernels of both with the reference.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
digits=examples/digits
model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf
scripts/setup.sh demo
mkdir -p build/log
scripts/fetch_model.sh >build/log/fetch-model.log 2>&1 </dev/null &
fetch=$!
trap 'kill "$fetch" 2>/dev/null || true' EXIT
scripts/build.sh demo lathe
if ! wait "$fetch"; then
  tail -n 3 build/log/fetch-model.log >&2
  echo "the language model was not fetched (log: build/log/fetch-model.log); make demo tries again" >&2
fi
echo "ready after $((SECONDS - start)) s"

show() {
  local word line='$ lathe'
  for word in "$@"; do
    [[ $word == *' '* ]] && word="'$word'"
    line+=" $word"
  done
  printf '\n%s\n' "$line"
  build/demo/bin/lathe "$@"
}
if [ -f "$model" ]; then
  show generate "$model" --chat --prompt 'What is the capital of France, and what is it known for?' --max-new-tokens 100 --rates
fi
show run "$digits/digits.onnx" --input "$digits/seven.png" --labels "$digits/labels.txt" --top 3
show verify "$digits/digits.onnx"
[ ! -f "$model" ] || show verify "$model"
cat <<END

Try next (after export PATH=\$PWD/build/demo/bin:\$PATH):
$([ ! -f "$model" ] || echo "  lathe chat $model")
  lathe inspect $digits/digits.onnx
  lathe run $digits/digits.onnx --input $digits/four.png --labels $digits/labels.txt --top 3
  lathe perf $digits/digits.onnx --iterations 50
END
if [ -f "$model" ] && [ -t 0 ] && [ -t 1 ]; then
  show chat "$model"
fi
