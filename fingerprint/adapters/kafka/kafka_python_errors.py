"""Why kafka-python could not let itself in: it tells its log, and raises that nobody answered.

Example:
    >>> with overheard() as reason:
    ...     kafka.KafkaConsumer(bootstrap_servers="localhost:9093", security_protocol="SSL")
    >>> str(reason)
    "certificate verify failed: Hostname mismatch, certificate is not valid for 'localhost'."
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors

from fingerprint.core.sanitize import printable

_LOG = logging.getLogger("kafka.net.manager")
_NOISE = re.compile(
    r"\[Error \d+\] |SaslAuthenticationFailedError: |KafkaConnectionError: |Handshake failed: |\[SSL: \w+\] | \(_ssl\.c:\d+\)"
)
# kafka-python 3.0.12 drops an answer that comes together with the end of its connection, and so do refused logins
_DISCONNECTED = "socket disconnected"


class ConnectionFailureHandler(logging.Handler):
    """The last error of a connection; a login that was refused before all others. Empty if there was none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.error: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        told = [each for each in record.args or () if isinstance(each, Exception)]
        for each in told:
            late = isinstance(each, errors.KafkaTimeoutError | errors.RequestTimedOutError)
            if not late and not isinstance(self.error, errors.SaslAuthenticationFailedError):
                self.error = each

    @property
    def is_authentication_failure(self) -> bool:
        """Whether somebody was there, and did not let us in or could not prove who it was."""
        said = str(self.error)
        login = isinstance(self.error, errors.SaslAuthenticationFailedError)
        return login or "SSL" in said or self.is_disconnect

    @property
    def is_disconnect(self) -> bool:
        """Whether somebody was there, and broke the connection off without a word."""
        return _DISCONNECTED in str(self.error)

    def __str__(self) -> str:
        if self.error is None:
            return ""
        said = printable(_NOISE.sub("", str(self.error)))
        return f"{said}, as it does at a wrong login or protocol" if said == _DISCONNECTED else said


@contextmanager
def capture_connection_failure() -> Iterator[ConnectionFailureHandler]:
    """Listens while the block runs."""
    reason = ConnectionFailureHandler()
    _LOG.addHandler(reason)
    try:
        yield reason
    finally:
        _LOG.removeHandler(reason)
