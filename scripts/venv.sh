#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes build/venv with the Python packages of scripts/requirements-test.txt; does nothing when it
# is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
python=/usr/bin/python3
stamp=build/venv/requirements.txt
if cmp -s scripts/requirements-test.txt "$stamp" && [ -x build/venv/bin/python ]; then exit 0; fi
rm -rf build/venv
"$python" -m venv build/venv
scripts/progress.sh "installing Python packages" build/log/pip.log \
  build/venv/bin/python -m pip install --disable-pip-version-check -r scripts/requirements-test.txt
cp scripts/requirements-test.txt "$stamp"
