"""What the verb of an action says: whether it changes something, where the record's own flag is not at hand.

Example:
    >>> changes_something("DescribeInstances"), changes_something("StopLogging")
    (False, True)

A module of its own: pages and commands ask this of single actions, and start without NumPy and pandas, which features need.
"""

from __future__ import annotations

READ_PREFIXES = (
    *("Get", "List", "Describe", "Head", "Lookup", "Batch"),
    *("Search", "Query", "Scan", "View", "Check", "Test"),
)


def changes_something(action: str) -> bool:
    """Return whether an action writes, by its verb; one of no known verb does."""
    return not action.startswith(READ_PREFIXES)
