"""The base class of every section of the settings, and the reader of files that hold secrets.

Example:
    >>> from pydantic import Field
    >>> class Clock(Section):
    ...     tick_seconds: float = Field(1.0, gt=0, description="Seconds between two ticks.")
    >>> Clock(tick_seconds=2.0)
    Clock(tick_seconds=2.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, field_validator

from fingerprint.core import private_files
from fingerprint.core.credentials import holds_credentials
from fingerprint.core.errors import FingerprintError


class Section(BaseModel):
    """A part of the settings: frozen, closed to unknown names, and free of secrets.

    No text in a section holds a password or token: a secret lies in a file that the section names, or is a SecretStr.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @field_validator("*")
    @classmethod
    def reject_credentials(cls, value: Any) -> Any:
        """Refuse a text with a credential, because settings are shown, copied to workers and stored in banks."""
        if any(holds_credentials(text) for text in _strings(value)):
            raise ValueError(
                "it holds a password or token, which others would see: name the file that holds it "
                "(database.url: ?password_file=/run/secrets/database-password; a receiver: url_file), or leave it "
                "to the client's own environment"
            )
        return value

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with `update`; raise ValueError for a name that is no setting of the section."""
        unknown = sorted(set(update or {}) - set(type(self).model_fields))
        if unknown:
            raise ValueError(f"{type(self).__name__} has no setting {', '.join(unknown)}")
        return super().model_copy(update=update, deep=deep)


def read_secret(file: str | None) -> str | None:
    """Return the content of a file that the settings name, without the newline that editors add; None for None.

    Warn if other users can read the file. Raise FingerprintError if it cannot be read.
    """
    if file is not None:
        private_files.warn_if_exposed(Path(file))
    return _read_file(file)


def check_readable(*files: str | None) -> None:
    """Raise FingerprintError for the first file that cannot be read; None is skipped."""
    for file in files:
        _read_file(file)


def _read_file(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FingerprintError(f"file {file} of the settings cannot be read: {reason}") from None


def _strings(value: Any) -> list[str]:
    """Return the texts in a setting's value: itself, the items of a tuple, or the keys and values of a mapping."""
    values: list[Any] = [value]
    if isinstance(value, dict):
        values = [*value, *value.values()]
    elif isinstance(value, tuple):
        values = list(value)
    return [each for each in values if isinstance(each, str)]
