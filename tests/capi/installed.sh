#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: installed.sh BUILD COMPILER
# Installs to BUILD/prefix, builds examples/embed there by find_package and by pkg-config, and runs both.
set -euo pipefail
build=$(realpath "$1") compiler=$2
prefix=$build/prefix embed=$build/embed
command -v pkg-config >/dev/null || { echo "skipped: no pkg-config"; exit 77; }
rm -rf "$prefix" "$embed"
cmake --install "$build" --prefix "$prefix" >"$build/install.log"
cmake -S examples/embed -B "$embed" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" "-DCMAKE_PREFIX_PATH=$prefix"
cmake --build "$embed"
pc=$(dirname "$(find "$prefix" -name lathe.pc)")
mapfile -t flags < <(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs lathe | xargs -n 1)
"$compiler" -std=c++20 examples/embed/main.cpp "${flags[@]}" -o "$embed/plain"
# Without a loader's path, by its name and by a link.
ln -s "$prefix/bin/lathe" "$embed/lathe"
for program in "$prefix/bin/lathe" "$embed/lathe"; do
  "$program" run examples/digits/digits.onnx --target gpu:host >"$embed/gpu.txt"
done
export LD_LIBRARY_PATH=$prefix/lib
for program in embed plain; do
  "$embed/$program" examples/digits/digits.onnx <examples/embed/seven.txt | tee "$embed/$program.txt"
  grep -q '^digit 7, probability 0.99' "$embed/$program.txt"
done
"$prefix/bin/lathe" --version
