"""A small authority for the tests: its certificates prove who listens on 127.0.0.1, and who calls.

Example:
    >>> authority = Authority(Path("/tmp/ca"), "the tests")
    >>> authority.certify("broker", hosts=("127.0.0.1",)).chain.read_text()
    '-----BEGIN CERTIFICATE-----...'
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certified:
    """Files in PEM: a certificate, its key, and both in one, as Kafka's stores want them."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs for anyone who asks. Another one of the same name is another authority all the same."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._name, self._key = _named(name), ec.generate_private_key(ec.SECP256R1())
        self.file = folder / "ca.pem"
        self.file.write_bytes(self._sign(self._name, self._key, hosts=(), authority=True))

    def certify(self, name: str, hosts: tuple[str, ...] = ()) -> Certified:
        """A certificate for a name; as a server's it is good for these addresses and no others."""
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        certificate = self._sign(_named(name), key, hosts, authority=False)
        made = Certified(*(self.folder / f"{name}{end}" for end in (".pem", ".key", ".both.pem")))
        for file, content in zip(
            (made.certificate, made.key, made.both), (certificate, secret, secret + certificate), strict=True
        ):
            file.write_bytes(content)
        return made

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, hosts: tuple[str, ...], authority: bool
    ) -> bytes:
        now = datetime.now(UTC)
        wanted = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            addresses = [x509.IPAddress(ip_address(host)) for host in hosts]
            wanted = wanted.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        return wanted.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
