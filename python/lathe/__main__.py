# SPDX-License-Identifier: MIT
"""`python -m lathe`: the command line."""

from __future__ import annotations

import sys

from lathe import _core


def main() -> int:
    """Runs the command of sys.argv and returns its exit code."""
    return _core.run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
