"""Private files of one fake: its certificate authority, with the server's and a client's certificate, and keys."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from backends.files import replace_durably
from dispatcher.model.errors import InvalidInput

_LASTS = timedelta(days=90)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class TlsFiles:
    """PEM files."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    """Certificate and key to show to a fake that takes certificates."""
    asks_for_certificate: bool = False


def make_tls_files(folder: Path, host: str, ca_file: Path | None = None, *, asks: bool = False) -> TlsFiles:
    """Write the files of a new authority. Raises InvalidInput."""
    files = TlsFiles(
        ca_file or folder / "ca.pem", folder / "server.pem", folder / "server.key", folder / "client.pem", asks
    )
    authority_key, server_key, client_key = (generate_private_key(SECP256R1()) for _ in range(3))
    issuer = _name("Fairlane's fake authority")
    authority = (
        _unsigned(issuer, authority_key, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(authority_key, SHA256())
    )
    server = (
        _unsigned(_name(host), server_key, issuer, authority_key)
        .add_extension(_addresses(host), critical=False)
        .sign(authority_key, SHA256())
    )
    client = _unsigned(_name("client"), client_key, issuer, authority_key).sign(authority_key, SHA256())
    write_private(files.authority, authority.public_bytes(Encoding.PEM))
    write_private(files.server, server.public_bytes(Encoding.PEM))
    write_private(files.server_key, private_pem(server_key))
    write_private(files.client, client.public_bytes(Encoding.PEM) + private_pem(client_key))
    return files


def private_pem(key: EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM without a password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_private(file: Path, data: bytes) -> None:
    """Write a file that only its owner can read. Raises InvalidInput."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_durably(file, data, 0o600)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror or error}.", "Name another folder.") from error


def _unsigned(
    name: x509.Name, key: EllipticCurvePrivateKey, issuer: x509.Name, issuer_key: EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Return a certificate with the identifiers of both keys, without which Python 3.13 trusts none."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LASTS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _addresses(host: str) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    for address in dict.fromkeys(("127.0.0.1", "::1", host)):
        try:
            names.append(x509.IPAddress(ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    return x509.SubjectAlternativeName(names)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])
