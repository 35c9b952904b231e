"""What the verb of an action says: whether it changes something, where the record's own flag is not at hand.

Example:
    >>> changes_something("DescribeInstances"), changes_something("StopLogging")
    (False, True)
    >>> changes_something("BatchGetImage"), changes_something("BatchDeleteImage")
    (False, True)

A module of its own: pages and commands ask this of single actions, and start without NumPy and pandas, which features need.
"""

from __future__ import annotations

READ_PREFIXES = (
    *("Get", "List", "Describe", "Head", "Lookup"),
    *("Search", "Query", "Scan", "View", "Check", "Test"),
)


def changes_something(action: str) -> bool:
    """Return whether an action writes, by its verb; one of no known verb does. A batch does what each of it does."""
    return not without_batch(action).startswith(READ_PREFIXES)


def without_batch(action: str) -> str:
    """Return an action without the word that it is done to many: `BatchDeleteTable` -> `DeleteTable`."""
    return action.removeprefix("Batch") if len(action) > len("Batch") else action
