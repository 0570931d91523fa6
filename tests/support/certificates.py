"""Real certificates for tests: a certificate authority, and its certificates for 127.0.0.1 or host names."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority. `bundle` is its certificate as PEM."""

    def __init__(self, name: str = "a test's authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        draft = _draft(self._name, self._name, self._key.public_key())
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = draft.sign(self._key, hashes.SHA256())
        self.bundle = _pem(self._certificate)

    def server_context(self, folder: Path, *hosts: str) -> ssl.SSLContext:
        """TLS context of a server on 127.0.0.1, or on these host names."""
        file = folder / "server.pem"
        file.write_text(self.issue(*hosts))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def issue(self, *hosts: str) -> str:
        """A key and a certificate for 127.0.0.1 or host names, together as PEM. Also valid for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts] or [address])
        draft = _draft(name, self._name, key.public_key()).add_extension(names, critical=False)
        certificate = draft.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode() + _pem(certificate)


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
