#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: venv.sh [NAME REQUIREMENTS]
# Makes build/NAME with the Python packages of a file; does nothing when it is up to date. Without
# arguments build/venv with those of scripts/requirements-test.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
python=/usr/bin/python3
venv=build/${1:-venv}
requirements=${2:-scripts/requirements-test.txt}
stamp=$venv/requirements.txt
if cmp -s "$requirements" "$stamp" && [ -x "$venv/bin/python" ]; then exit 0; fi
rm -rf "$venv"
"$python" -m venv "$venv"
scripts/progress.sh "installing Python packages" build/log/pip.log \
  "$venv/bin/python" -m pip install --disable-pip-version-check -r "$requirements"
cp "$requirements" "$stamp"
