#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: fetch_llama_cpp.sh DIR
# Unpacks llama.cpp of Debian's newest suite into DIR, with the C and C++ libraries that it needs: nothing is compiled
# or installed. DIR/llama-bench, llama-quantize, llama-completion and llama-server run it; it picks the processor's backend.
set -euo pipefail
[ $# = 1 ] || { sed -n 3,5p "$0" >&2; exit 2; }
packages=(llama.cpp-tools libllama0 libggml0 libc6 libstdc++6 libgcc-s1 libgomp1 libssl3t64 libzstd1 zlib1g)
programs=(llama-bench llama-quantize llama-completion llama-server)
[ ! -x "$1/llama-bench" ] || exit 0
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || { echo "error: this is no Debian on x86-64" >&2; exit 1; }
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
[ -n "$archive" ] || { echo "error: apt knows no archive of Debian: run apt-get update" >&2; exit 1; }
rm -rf "$1"
mkdir -p "$1"
cd "$1"
dir=$PWD
mkdir -p apt/lists/partial apt/cache/archives/partial packages
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive sid main" >apt/sources.list
cat >apt/apt.conf <<END
Dir::State::lists "$dir/apt/lists";
Dir::Cache "$dir/apt/cache";
Dir::Etc::sourcelist "$dir/apt/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
APT::Sandbox::User "root";
END
export APT_CONFIG=$dir/apt/apt.conf
apt-get -q update
(cd packages && apt-get -q download "${packages[@]}")
for package in packages/*.deb; do dpkg-deb -x "$package" root; done
rm -rf apt packages
libraries=$dir/root/usr/lib/x86_64-linux-gnu
# Backends are searched for beside the program, which is the dynamic linker here.
ln -s "$libraries"/ggml/backends*/libggml-cpu-*.so "$libraries"
cat >run <<END
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/llama" "$dir/root/usr/bin/\${0##*/}" "\$@"
END
chmod +x run
for program in "${programs[@]}"; do ln -s run "$program"; done
