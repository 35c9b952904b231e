"""Signatures of a bank: Ed25519 over the manifest of a version, which lists the hash of every file.

Example:
    >>> generate_keys(Path("bank-key"))                                  # bank-key, bank-key.pub
    >>> signed = sign_manifest(manifest, "served", FileSigner(Path("bank-key")))
    >>> verification_problem(manifest, signed, ("served",), read_public_keys(("bank-key.pub",))) is None
    True

One short line is signed: the purpose, and the SHA-256 of the manifest. It is short enough for a key management service to sign,
which never gives the key away (`Signer`), and a signature for one purpose is not valid for another:

    learned   this installation trained it; it may be inspected, compared and offered to the promotion gate
    served    it may judge events: the gate passed it, or an operator decided so
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fingerprint.core.errors import FingerprintError

SIGNATURES_FILE = "signatures.json"  # beside the manifest
MAX_FILE_BYTES = 10_000  # bytes of that file

Purpose = Literal["learned", "served"]


class Signer(Protocol):
    """A holder of a private Ed25519 key: a file, or a key management service behind the setting `bank.signer`."""

    def sign(self, content: bytes, /) -> bytes:
        """Return the 64 bytes of an Ed25519 signature (RFC 8032, of the content itself, not prehashed).

        `content` is shorter than 200 bytes.
        """
        ...


class FileSigner:
    """A private key in a PEM file (PKCS 8, not encrypted). Raises FingerprintError if the file holds none."""

    def __init__(self, file: Path) -> None:
        key = _load_key(file, lambda content: serialization.load_pem_private_key(content, None))
        if not isinstance(key, Ed25519PrivateKey):
            raise FingerprintError(
                f"{file} holds no private Ed25519 key that is not encrypted: `fingerprint bank keys` makes one"
            )
        self.key = key

    def sign(self, content: bytes, /) -> bytes:
        """Return the signature made with the key of the file."""
        return self.key.sign(content)


def load_signer(name: str) -> Signer:
    """Return the signer that `package.module:factory` makes. Raises FingerprintError if it cannot be imported or called."""
    module, colon, factory = name.partition(":")
    try:
        if not colon:
            raise ValueError("it is not like package.module:factory")
        made: Signer = getattr(import_module(module), factory)()
    except Exception as error:  # a plug-in may raise anything
        raise FingerprintError(f"bank.signer {name!r} gives no signer: {error}") from None
    return made


def generate_keys(file: Path) -> str:
    """Write a new key pair, and return the public key's id.

    The private key goes to `file`, readable by its owner alone, the public one to `file`.pub. Raises FingerprintError if one of
    them exists.
    """
    public = file.with_name(f"{file.name}.pub")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for path, content, mode in ((file, private, 0o600), (public, shown, 0o644)):
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
                stream.write(content)
        except OSError as error:
            raise FingerprintError(f"cannot write the key {path}: {error.strerror}") from None
    return key_id(key.public_key())


def read_public_keys(files: Sequence[str]) -> dict[str, Ed25519PublicKey]:
    """Return public keys (PEM) by their ids. Raises FingerprintError for a file that holds none."""
    keys = {}
    for name in files:
        key = _load_key(Path(name), serialization.load_pem_public_key)
        if not isinstance(key, Ed25519PublicKey):
            raise FingerprintError(
                f"{name} holds no public Ed25519 key: name the .pub that `fingerprint bank keys` made"
            )
        keys[key_id(key)] = key
    return keys


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a key, for people: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def sign_manifest(manifest: bytes, purpose: Purpose, signer: Signer) -> bytes:
    """Return a signature of the bytes of a manifest. Raises FingerprintError if the signer fails."""
    try:
        return signer.sign(_statement(manifest, purpose))
    except Exception as error:  # a service may raise anything when it is unavailable or refuses
        raise FingerprintError(f"the bank cannot be signed: {error}") from None


def add_signature(content: bytes, purpose: Purpose, signature: bytes) -> bytes:
    """Return the content of the file of signatures with one more, which replaces an earlier one for its purpose."""
    known = {**_read(content), purpose: signature}
    text = {name: base64.b64encode(each).decode() for name, each in known.items()}
    return json.dumps(text, indent=1, sort_keys=True).encode() + b"\n"


def verification_problem(
    manifest: bytes, content: bytes, purposes: Sequence[Purpose], keys: Mapping[str, Ed25519PublicKey]
) -> str | None:
    """Return why a manifest is not signed by one of `keys` for any of `purposes`; None if it is, or if there are no keys."""
    if not keys:
        return None
    signatures = _read(content)
    known = [(purpose, signatures[purpose]) for purpose in purposes if purpose in signatures]
    if any(
        _is_valid(manifest, purpose, signature, key) for purpose, signature in known for key in keys.values()
    ):
        return None
    how = "has no true signature" if known else "is not signed"
    return f"{how} as {' or '.join(purposes)}"


def _is_valid(manifest: bytes, purpose: Purpose, signature: bytes, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(signature, _statement(manifest, purpose))
    except InvalidSignature:
        return False
    return True


def _statement(manifest: bytes, purpose: Purpose) -> bytes:
    return f"fingerprint bank, {purpose}: {hashlib.sha256(manifest).hexdigest()}\n".encode()


def _read(content: bytes) -> dict[str, bytes]:
    """Return signatures by purpose; none if the file is damaged."""
    try:
        known = json.loads(content)
        return {str(name): base64.b64decode(each, validate=True) for name, each in known.items()}
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
        return {}


def _load_key(file: Path, load: Callable[[bytes], object]) -> object:
    """Return a key of any kind; None if the file holds none."""
    try:
        return load(file.read_bytes())
    except OSError as error:
        raise FingerprintError(f"key {file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
