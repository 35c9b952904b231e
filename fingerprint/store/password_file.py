"""A desk's password out of a file, read anew at each connection: so it can be changed while programs run. Nowhere else: a URL is
seen in settings, process lists and descriptions of containers.

Example:
    >>> place, file = without_file(sql.make_url("postgresql://fingerprint@host/desk?password_file=/run/secrets/database"))
    >>> str(place), file
    ('postgresql://fingerprint@host/desk', '/run/secrets/database')
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sql

from fingerprint.core import private_files
from fingerprint.core.alert import FingerprintError, ServerUnavailable
from fingerprint.core.credentials import holds_credentials

PASSWORD_FILE_PARAMETER = "password_file"  # of the URL's query


def split_password_file(url: sql.URL) -> tuple[sql.URL, str | None]:
    """The URL as a driver wants it, and the file that it names, if any."""
    file = url.query.get(PASSWORD_FILE_PARAMETER)
    return url.difference_update_query([PASSWORD_FILE_PARAMETER]), file if isinstance(file, str) else None


def check_password_source(url: sql.URL) -> None:
    """FingerprintError, without the URL, for one that holds a password; and for a password_file that could not be meant."""
    if url.password is not None or holds_credentials(url.render_as_string(hide_password=False)):
        raise FingerprintError(
            f"the URL of the desk holds a password, which others would see: write it into a file and name that, "
            f"postgresql://user@host/database?{PASSWORD_FILE_PARAMETER}=/run/secrets/database-password, or leave it to PGPASSWORD or ~/.pgpass"
        )
    if (file := url.query.get(PASSWORD_FILE_PARAMETER)) is None:
        return
    if url.get_backend_name() == "sqlite":
        raise FingerprintError(
            f"desk {url}: a SQLite file has no password; leave {PASSWORD_FILE_PARAMETER} out"
        )
    if not isinstance(file, str) or not file:
        raise FingerprintError(f"desk {url}: give one password, in one {PASSWORD_FILE_PARAMETER}")


def read_password_on_connect(engine: sql.Engine, url: sql.URL, file: str) -> None:
    """Have each new connection of the engine read its password from the file."""

    def put_in(dialect: Any, record: Any, positional: Any, named: dict[str, Any]) -> None:
        named["password"] = _read_password(url, file)

    sql.event.listen(engine, "do_connect", put_in)


def _read_password(url: sql.URL, file: str) -> str:
    """Away where it cannot be read: it may be on its way, at a first start or in a rotation."""
    private_files.warn_if_exposed(Path(file))
    try:
        password = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ServerUnavailable(f"desk {url}: the password file {file} cannot be read: {reason}") from None
    if not password:
        raise ServerUnavailable(f"desk {url}: the password file {file} is empty; write the password into it")
    return password
