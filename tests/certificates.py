"""Authorities and certificates that tests sign, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey, passphrase: str = "") -> bytes:
    hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        hidden = serialization.BestAvailableEncryption(passphrase.encode())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, hidden)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates, and writes them to a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        now = datetime.now(UTC)
        made = self._builder(self._name, self._key, now - DAY, now + DAY)
        made = made.add_extension(constraints, critical=True)
        self._write(self.file, made)

    def signed(self, name: str, *, ends: timedelta = DAY, passphrase: str = "") -> Pair:
        """Sign a certificate that ends so long after now; or before."""
        key, end = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC) + ends
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        self._write(pair.cert, self._builder(_name(name), key, end - 2 * DAY, end))
        pair.key.write_bytes(_pem(key, passphrase))
        return pair

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
    ) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder(self._name, name, key.public_key())
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(begin).not_valid_after(end)

    def _write(self, file: Path, made: x509.CertificateBuilder) -> None:
        signed = made.sign(self._key, hashes.SHA256())
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
