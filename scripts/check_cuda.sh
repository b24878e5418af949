#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_cuda.sh
# Compares the declarations of CUDA's libraries with the headers in NVIDIA's packages of
# scripts/requirements-cuda.txt (1.6 GB), looks every function up in the libraries (the driver's in
# Debian's package) and compiles the device code of the op rows by NVRTC. No card is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/venv.sh venv-cuda scripts/requirements-cuda.txt
packages=$(echo build/venv-cuda/lib/python3*/site-packages/nvidia)
clang++-19 -std=c++20 -fsyntax-only -Wno-deprecated-declarations -I. -Isrc -isystem "$packages/cu13/include" \
  -isystem "$packages/cudnn/include" tests/gpu/check_cuda.cpp
echo "declarations of CUDA, NVRTC, cuBLASLt and cuDNN fit the headers"
# The driver is no package of PyPI's; apt's own lists stay as they are.
driver=build/cuda-driver
if [ ! -e $driver/usr ]; then
  mkdir -p $driver/lists/partial
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' |
    head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm non-free" \
    >$driver/sources.list
  options=(-o Dir::Etc::SourceList="$PWD/$driver/sources.list" -o Dir::Etc::SourceParts=-
    -o Dir::State::Lists="$PWD/$driver/lists")
  apt-get "${options[@]}" -qq update
  (cd $driver && apt-get "${options[@]}" -qq download libcuda1)
  dpkg-deb -x $driver/libcuda1_*.deb $driver
fi
libraries=$packages/cu13/lib:$packages/cudnn/lib
TEST_VENDOR=cuda LATHE_GPU_LIBRARIES=$libraries:$driver/usr/lib/x86_64-linux-gnu/nvidia/current \
  build/release/tests/gpu_tests --gtest_brief=1 --gtest_filter='GpuSymbols.*' |
  grep -E 'found|FAILED|PASSED|Failure'
# A part of the tests on each core: threads of a process wait for each other inside of NVRTC. What one
# has compiled, now or before, none compiles again.
parts=$(nproc)
pids=()
for ((part = 0; part < parts; ++part)); do
  TEST_EVERY_CARD=1 TEST_COMPILED=$PWD/build/compiled-gpu LATHE_GPU_LIBRARIES=$libraries \
    GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part \
    build/release/tests/gpu_tests --gtest_brief=1 | grep -E '^(cuda|Debian|skipped)|FAILED|PASSED' &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
