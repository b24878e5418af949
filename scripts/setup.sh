#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: setup.sh GROUP...
# Installs the packages of scripts/packages.txt that are missing; does nothing when none is.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n 3,4p "$0" >&2; exit 2; }

wanted=()
for group in "$@"; do
  mapfile -t -O "${#wanted[@]}" wanted < <(
    awk -v group="$group" '!/^#/ { for (i = 2; i <= NF; ++i) if ($i == group) print $1 }' \
      scripts/packages.txt)
done
[ ${#wanted[@]} -gt 0 ] || { echo "error: no package belongs to '$*'" >&2; exit 2; }
command -v dpkg-query >/dev/null || {
  echo "error: this is not Debian: install the equivalents of: ${wanted[*]}" >&2
  exit 1
}

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n${db:Status-Status} ${Package}:${Architecture}\n')
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "error: not root and no sudo: install as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  root=(sudo)
  sudo -v
fi
if [[ " ${missing[*]} " == *":arm64 "* ]] && ! dpkg --print-foreign-architectures | grep -qx arm64; then
  "${root[@]}" dpkg --add-architecture arm64
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
scripts/progress.sh "reading package lists" build/log/apt-update.log "${apt[@]}" update
scripts/progress.sh "installing packages" build/log/apt-install.log \
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
