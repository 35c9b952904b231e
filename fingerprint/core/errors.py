"""Errors: those for people, one sentence each, and two that programs handle themselves.

Example:
    >>> str(FingerprintError("postgresql://ana:secret@db/alerts does not answer"))
    'postgresql://ana:***@db/alerts does not answer'
"""

from __future__ import annotations

from fingerprint.core.credentials import mask_credentials


class FingerprintError(Exception):
    """An error that the user can correct: shown as one sentence with exit status 2, never as a traceback.

    A password or token in a URL is masked in the sentence.
    """

    def __str__(self) -> str:
        return mask_credentials(super().__str__())


class NotFound(FingerprintError):
    """There is nothing with the requested id or name (any more)."""


class Conflict(FingerprintError):
    """The object was changed since it was read: read it again, then decide."""


class ServerUnavailable(FingerprintError):
    """A server that the program needs does not answer: try again later."""


class QueryTimeout(ServerUnavailable):
    """A query of the database was stopped, because it took longer than a query may.

    Example:
        >>> str(QueryTimeout(15))
        'the search took more than 15 seconds and was stopped: narrow it, for example to fewer days'
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the search took more than {seconds:g} seconds and was stopped: narrow it, for example to fewer days"
        )


class Unavailable(Exception):
    """A server does not answer, or refuses for now: repeat the call later."""


class ObjectNotFound(Exception):
    """The object does not exist, or a person must intervene before it can be read: do not repeat the call."""
