"""Name the command that installs an optional part of the program.

Example:
    >>> how_to_install("kafka")
    "`pip install '.[kafka]'` in a checkout of cloudtrail-fingerprint"

The distribution is not on a package index, and the index has a stranger's package of the import name: nothing here may
send a person there by name.
"""

from __future__ import annotations

DISTRIBUTION = "cloudtrail-fingerprint"  # as pyproject.toml names it; the import name is `fingerprint`


def how_to_install(*extras: str) -> str:
    """Return the command for these extras of pyproject.toml, as part of a sentence."""
    return f"`pip install '.[{','.join(extras)}]'` in a checkout of {DISTRIBUTION}"
