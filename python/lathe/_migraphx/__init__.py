# SPDX-License-Identifier: MIT
"""The names of MIGraphX."""
