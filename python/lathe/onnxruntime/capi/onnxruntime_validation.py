# SPDX-License-Identifier: MIT
"""Checks of the installation, which have nothing to find here."""


def check_distro_info() -> None:
    """No effect: the wheel runs on every Linux with glibc 2.36."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    return "lathe", "1.32.0", ""
