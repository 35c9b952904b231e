"""Hashes of secrets and passwords: SHA-256 for random secrets, argon2id for passwords.

Example:
    >>> secret = generate_secret("fpt_")
    >>> len(secret_digest(secret))                         # 256 random bits need neither salt nor slowness
    64
    >>> verify_password(hash_password("four plain english words"), "four plain english words")
    True

argon2id has the parameters of RFC 9106's second choice (64 MiB, three passes). Only a few passwords are hashed at a time, so that
many concurrent logins cost time, not memory.
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
    """Return 256 random bits in 43 letters; the prefix lets scanners recognise a leaked secret."""
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def secret_digest(secret: str) -> str:
    """Return the SHA-256 of a secret, the only form that is stored."""
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def hash_password(password: str) -> str:
    """Return argon2's string of a password."""
    with _hash_slots:
        return _hasher.hash(_normalized_bytes(password))


def verify_password(kept: str | None, password: str) -> bool:
    """Return whether a password is right. Without a stored one it takes as long and returns False."""
    with _hash_slots:
        try:
            return _hasher.verify(kept or _dummy_hash(), _normalized_bytes(password)) and kept is not None
        except (VerificationError, InvalidHashError):
            return False


def needs_rehash(kept: str) -> bool:
    """Return whether a password was hashed with outdated costs."""
    return _hasher.check_needs_rehash(kept)


@cache
def _dummy_hash() -> str:
    return _hasher.hash(generate_secret())


def _normalized_bytes(password: str) -> bytes:
    """Return the bytes of a password, normalised (NFC) so that equal letters from different keyboards are equal."""
    return unicodedata.normalize("NFC", password).encode(errors="surrogatepass")
