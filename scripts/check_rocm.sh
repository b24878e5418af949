#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_rocm.sh
# Compares the declarations of AMD's libraries with the headers of Debian's newest packages, looks
# every function up in the libraries and compiles the device code of the op rows by hipRTC, in a root
# of Debian sid in build/root-rocm (850 MB, as root). Nothing is run: no card is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/root-rocm
if [ ! -e "$root/ready" ]; then
  rm -rf "$root"
  scripts/progress.sh "making a root of Debian sid" build/log/debootstrap.log \
    debootstrap --variant=minbase sid "$root"
  scripts/progress.sh "installing HIP" build/log/hip.log chroot "$root" env \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    libamdhip64-dev libhiprtc6 libhiprtc-builtins6
  rm -rf "$root"/var/cache/apt/archives/*.deb
  touch "$root/ready"
fi
clang++-19 -std=c++20 -fsyntax-only -Wno-deprecated-declarations -I. -Isrc -idirafter "$root/usr/include" tests/gpu/check_rocm.cpp
echo "declarations of HIP and hipRTC fit the headers"
# The root's loader and C library, which its libraries need; the program's other libraries are ours.
libraries=$root/usr/lib/x86_64-linux-gnu
run() {
  LATHE_GPU_LIBRARIES=$libraries "$root/lib64/ld-linux-x86-64.so.2" \
    --library-path "$libraries:/usr/lib/x86_64-linux-gnu" build/release/tests/gpu_tests \
    --gtest_brief=1 "$@" | grep -E '^(hip|HIP|AMD|skipped)|FAILED|PASSED|Failure'
}
TEST_VENDOR=hip run --gtest_filter='GpuSymbols.*'
TEST_EVERY_CARD=hip TEST_COMPILED=$PWD/build/compiled-gpu run --gtest_filter='Ops/GpuRows.*'
