"""Secrets that one side shows and the desk keeps as digests, and passwords as argon2 keeps them.

Example:
    >>> secret = new_secret("fpt_")
    >>> digest(secret)                                     # 256 random bits need neither salt nor slowness
    '5f2c...'
    >>> verified(hashed("four plain english words"), "four plain english words")
    True

argon2id with the parameters of RFC 9106's second choice (64 MiB, three passes). A few passwords are hashed at a time, so that
many logins at once cost time and not memory.
"""

from __future__ import annotations

import secrets
import unicodedata
from functools import cache
from hashlib import sha256
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SECRET_BYTES = 32  # of a secret
MAX_PARALLEL_HASHES = 4  # passwords being hashed, 64 MiB each

_hasher = PasswordHasher()
_hash_slots = BoundedSemaphore(MAX_PARALLEL_HASHES)


def generate_secret(prefix: str = "") -> str:
    """256 random bits in 43 letters; the prefix tells scanners of leaked secrets what they found."""
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def secret_digest(secret: str) -> str:
    """SHA-256: what of a secret is kept."""
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def hash_password(password: str) -> str:
    """argon2's string of a password."""
    with _hash_slots:
        return _hasher.hash(_normalized_bytes(password))


def verify_password(kept: str | None, password: str) -> bool:
    """Whether it is the password; it takes as long where there is none to compare with."""
    with _hash_slots:
        try:
            return _hasher.verify(kept or _dummy_hash(), _normalized_bytes(password)) and kept is not None
        except (VerificationError, InvalidHashError):
            return False


def needs_rehash(kept: str) -> bool:
    """Whether it was hashed with other costs than today's."""
    return _hasher.check_needs_rehash(kept)


@cache
def _dummy_hash() -> str:
    return _hasher.hash(generate_secret())


def _normalized_bytes(password: str) -> bytes:
    """The same letters typed on another keyboard are the same password."""
    return unicodedata.normalize("NFC", password).encode(errors="surrogatepass")
