"""Installation commands for optional parts of the program.

Example:
    >>> how_to_install("kafka")
    "`pip install '.[kafka]'` in a checkout of cloudtrail-fingerprint"

The distribution is not on PyPI, but PyPI has another author's package with our import name. So no message may tell a person to
install `fingerprint` by name.
"""

from __future__ import annotations

DISTRIBUTION = "cloudtrail-fingerprint"  # as pyproject.toml names it; the import name is `fingerprint`


def how_to_install(*extras: str) -> str:
    """Return the command for these extras of pyproject.toml, as part of a sentence."""
    return f"`pip install '.[{','.join(extras)}]'` in a checkout of {DISTRIBUTION}"
