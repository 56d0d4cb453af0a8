"""A certificate authority made for one run, and a server's certificate for 127.0.0.1."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def make_certificates(folder: Path) -> None:
    """Write ca.pem, which signs server.pem (for 127.0.0.1) with server.key, and client.pem, which holds its key."""
    authority_key, server_key, client_key = (generate_private_key(SECP256R1()) for _ in range(3))
    authority = (
        _unsigned("test authority", authority_key, _name("test authority"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, SHA256())
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")])
    server = (
        _unsigned("127.0.0.1", server_key, authority.subject)
        .add_extension(address, critical=False)
        .sign(authority_key, SHA256())
    )
    client = _unsigned("client", client_key, authority.subject).sign(authority_key, SHA256())
    (folder / "ca.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(Encoding.PEM))
    (folder / "server.key").write_bytes(_private(server_key))
    (folder / "client.pem").write_bytes(client.public_bytes(Encoding.PEM) + _private(client_key))


def _private(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _unsigned(name: str, key: EllipticCurvePrivateKey, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=2))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
