"""The version and the commit. Only this file has the version."""

import subprocess
from pathlib import Path

__version__ = "0.2.0.dev0"

PACKAGE = Path(__file__).resolve().parent
# `setup.py` writes this file into a wheel that is built from a checkout.
BUILT_FROM = PACKAGE / "_commit.txt"


def describe(root: Path) -> str:
    """Return `git describe` of a checkout, such as ``v0.1.0-12-g1234567``. Return an empty string if `root` is not the
    top folder of a checkout."""
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--tags", "--always", "--dirty"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # there is no git, or another user owns the checkout
        return ""


def commit() -> str:
    """Return the commit from which the package runs or was built. The commit is empty for a build from an sdist."""
    return BUILT_FROM.read_text().strip() if BUILT_FROM.exists() else describe(PACKAGE.parent)
