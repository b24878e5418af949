#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: gpu_pack.sh FOLDER [GRAPH.onnx|MODEL...]
# Packs what a GPU machine without packages needs into FOLDER/lathe.tar.xz: the program and the tests of
# a release build, stripped, the libraries that they load, Python's package and the plug-in of ONNX Runtime
# where they are built, the rows of tests/ops, bench/gpu, graphs and folders of language models
# (bench/models/weightless.py takes weights out).
# There: tar xf lathe.tar.xz && python3 bench/gpu/run.py
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n 3,9p "$0" >&2; exit 2; }
folder=$1
shift
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$folder" "$stage"/{bin,lib,graphs,tests}
for program in build/release/bin/lathe build/release/tests/gpu_tests; do
  strip -o "$stage/bin/$(basename "$program")" "$program"
done
for library in liblathe_gpu.so liblathe_ort.so liblathe.so.0; do
  if [ -e "build/release/lib/$library" ]; then strip -o "$stage/lib/$library" "build/release/lib/$library"; fi
done
if [ -e build/release/python/lathe/_core.abi3.so ]; then
  mkdir "$stage/python" && cp -rL build/release/python/lathe "$stage/python/"
  rm -rf "$stage"/python/lathe/__pycache__ && strip "$stage/python/lathe/_core.abi3.so"
fi
# The system's C and C++ libraries are everywhere.
ldd "$stage"/bin/* "$stage"/lib/*.so* | awk '/=> \// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux.*)\.so' |
  while read -r library; do cp -L "$library" "$stage/lib/"; done
cp -r tests/ops "$stage/tests/"
mkdir -p "$stage/bench/models" && cp -r bench/gpu "$stage/bench/" && rm -rf "$stage/bench/gpu/__pycache__"
cp bench/models/weightless.py "$stage/bench/models/"
for model in "$@"; do
  if [ -d "$model" ]; then
    # zoo/llama/fp32 becomes models/llama-fp32.
    to=$stage/models/$(basename "$(dirname "$model")")-$(basename "$model")
    mkdir -p "$to" && cp -rL "$model/." "$to/"
  else
    cp "$model" "$stage/graphs/"
  fi
done
tar -C "$stage" -c . | xz -2 -T0 >"$folder/lathe.tar.xz"
ls -l "$folder/lathe.tar.xz"
