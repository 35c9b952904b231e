"""Cells of Markdown tables.

Example:
    >>> print(cell("text | none"))
    text \\| none
"""

from __future__ import annotations


def cell(text: str | None) -> str:
    """Return text as the cell of a Markdown table."""
    return " ".join((text or "").split()).replace("|", "\\|")
