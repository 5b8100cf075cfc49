"""Dask clusters that accept only connections with a certificate of their own authority.

Each run has an authority, whose key is deleted, and a pair for each part of the cluster.

Dask opens an HTTP server beside every scheduler and worker, even without a dashboard. Its folder
for temporary files is in a folder that all users share, and comes first in the module path.
"""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dask
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from distributed import Scheduler, Security, Worker

from ppdm_dask.errors import ClusterError
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.shown import located
from ppdm_dask.system import has_owners, user

__all__ = ["Certificates", "make_certificates", "read_certificates", "write_certificates"]


class GuardedSecurity(Security):
    """Dask's settings, with TLS 1.3 only, and with keys that never lie in a file.

    Parameters as of :class:`distributed.Security`: texts in PEM form, or paths.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(require_encryption=True, **settings)

    def get_connection_args(self, role: str) -> dict[str, Any]:
        return {
            "ssl_context": self._context(role, ssl.Purpose.SERVER_AUTH),
            "require_encryption": True,
            "extra_conn_args": self.extra_conn_args,
        }

    def get_listen_args(self, role: str) -> dict[str, Any]:
        context = self._context(role, ssl.Purpose.CLIENT_AUTH)
        # Nobody resumes a session, and a ticket costs each connection two messages.
        context.num_tickets = 0
        return {"ssl_context": context, "require_encryption": True}

    def _context(self, role: str, purpose: ssl.Purpose) -> ssl.SSLContext:
        given = self.get_tls_config_for_role(role)
        authority, certificate, key = given["ca_file"], given["cert"], given["key"]
        if not authority or not certificate or not key:
            raise ClusterError(f"there is no certificate of the {role}", role)
        trusted = {"cadata" if "\n" in authority else "cafile": authority}
        context = ssl.create_default_context(purpose, **trusted)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # The authority is the cluster's own; addresses say nothing.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        with ExitStack() as stack:
            paths = [stack.enter_context(_as_file(text)) for text in (certificate, key)]
            context.load_cert_chain(*paths)
        return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Path at which OpenSSL reads a text: of a file in memory where the system has such."""
    if "\n" not in text:
        yield text
        return
    content = text.encode("ascii")
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        # Closed before OpenSSL reads it: not every system opens a file twice.
        with tempfile.TemporaryDirectory(dir=private_folder()) as folder:
            file = Path(folder) / "certificate"
            file.write_bytes(content)
            yield str(file)


class GuardedScheduler(Scheduler):
    """Scheduler without HTTP server."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options = {**options, "dashboard": False, "dashboard_address": None}
        with dask.config.set({"temporary-directory": str(private_folder())}):
            super().__init__(*arguments, **options)

    def start_http_server(self, *_: object, **__: object) -> None:
        """Listen nowhere: these pages would tell anybody who asks."""


class GuardedWorker(Worker):
    """Worker without HTTP server."""

    def start_http_server(self, *_: object, **__: object) -> None:
        """Listen nowhere: these pages would tell anybody who asks."""


@cache
def private_folder() -> Path:
    """Folder for temporary files that this user only can enter, one for all processes.

    Where somebody else has taken its name, this process has one of another name.
    """
    folder = Path(tempfile.gettempdir()) / f"ppdm-{user()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        about = folder.lstat()
        # Where files have no owner, temporary folders are each user's own.
        ours = not has_owners() or (about.st_uid == user() and not about.st_mode & 0o077)
        if not stat.S_ISDIR(about.st_mode) or not ours:
            return Path(tempfile.mkdtemp(prefix="ppdm-"))
    return folder


ROLES = ("scheduler", "worker", "client")
DAYS = 30

# Clocks of a cluster differ a little.
SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Certificates:
    """What the parts of one cluster show each other; the authority's own key is not kept.

    Parameters
    ----------
    authority : str
        Certificate that all parts trust, and no other; PEM.
    pairs : mapping of str to (str, str)
        Certificate and private key of each role; PEM.
    """

    authority: str
    # Private keys must not get into a log by way of a traceback.
    pairs: Mapping[str, tuple[str, str]] = field(repr=False)

    def security(self, *roles: str) -> GuardedSecurity:
        """Dask settings for these roles; by default for all roles that have certificates.

        Raises
        ------
        KeyError
            If there is no certificate of a role.
        """
        return GuardedSecurity(**self.texts(*roles))

    def texts(self, *roles: str) -> dict[str, str]:
        """The same settings as plain texts, private keys included."""
        given = {"tls_ca_file": self.authority}
        for role in roles or tuple(self.pairs):
            certificate, key = self.pairs[role]
            given |= {f"tls_{role}_cert": certificate, f"tls_{role}_key": key}
        return given


def make_certificates(days: int = DAYS) -> Certificates:
    """Make an authority and a certificate for each role.

    Parameters
    ----------
    days : int
        How long they are good for, 1 or more.
    """
    began = datetime.now(UTC) - SKEW
    ended = began + SKEW + timedelta(days=days)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority")
    # Python 3.13 verifies strictly, by RFC 5280: a certificate names the key that signed it.
    own_name = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_name)
    authority = (
        _builder(name, name, authority_key.public_key(), began, ended)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(own_name, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pairs = {}
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role != "client":
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        certificate = (
            _builder(_name(role), name, key.public_key(), began, ended)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(signed_by, critical=False)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(role)]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        pairs[role] = (_pem(certificate), secret.decode())
    return Certificates(_pem(authority), pairs)


def write_certificates(certificates: Certificates, folder: Path) -> list[Path]:
    """Write ``ca.pem`` and a certificate and a key for each role into a new folder.

    The folder and the keys are open only to their owner. All files are there, or none.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ClusterError
        If the folder has anything in it, or cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = f"{folder}: already exists; certificates are never written over, name a new folder"
        raise ClusterError(what, folder)
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Made with mode 0700.
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        names = ["ca.pem"]
        _write(temporary / "ca.pem", certificates.authority, 0o644)
        for role, (certificate, key) in certificates.pairs.items():
            names += [f"{role}.pem", f"{role}-key.pem"]
            _write(temporary / f"{role}.pem", certificate, 0o644)
            _write(temporary / f"{role}-key.pem", key, 0o600)
        # Fails where somebody has put a file into the folder in the meantime.
        temporary.rename(folder)
    except OSError as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        what = f"{folder}: cannot be written: {error.strerror}"
        raise ClusterError(what, folder) from None
    return [folder / name for name in names]


def read_certificates(folder: Path, roles: Collection[str] = ()) -> Certificates:
    """Read a folder of certificates and check them.

    Parameters
    ----------
    folder : Path
        Holds ``ca.pem`` and, for each role, ``<role>.pem`` and ``<role>-key.pem``.
    roles : collection of str
        Roles whose certificates must exist; by default only the client. Others are read if present.

    Raises
    ------
    ClusterError
        One line: a file is missing, damaged, out of date, another authority's, or a key is open
        to other users.
    """
    authority = _read_certificate(folder / "ca.pem")
    pairs = {}
    for role in ROLES:
        path, key_path = folder / f"{role}.pem", folder / f"{role}-key.pem"
        if role not in (roles or ("client",)) and not (path.exists() and key_path.exists()):
            continue
        certificate = _read_certificate(path)
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            what = f"{path}: was not issued by the authority in {folder / 'ca.pem'}"
            raise ClusterError(what, path) from None
        pairs[role] = (_pem(certificate), _read_key(key_path, certificate))
    return Certificates(_pem(authority), pairs)


def _read_certificate(path: Path) -> x509.Certificate:
    content = _read(path)
    try:
        found = x509.load_pem_x509_certificate(content)
    except ValueError:
        raise ClusterError(f"{path}: this is not a certificate in PEM form", path) from None
    now = datetime.now(UTC)
    if now > found.not_valid_after_utc:
        ended = found.not_valid_after_utc.isoformat(timespec="minutes")
        what = f"{path}: was good until {ended}; make new ones with ppdm cluster certificates"
        raise ClusterError(what, path)
    if now < found.not_valid_before_utc:
        began = found.not_valid_before_utc.isoformat(timespec="minutes")
        raise ClusterError(
            f"{path}: is valid only from {began}; is this machine's clock right?", path
        )
    return found


def _read_key(path: Path, certificate: x509.Certificate) -> str:
    content = _read(path)
    if has_owners() and path.stat().st_mode & 0o077:
        what = f"{path}: this private key is open to other users; chmod 600 {path}"
        raise ClusterError(what, path)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        raise ClusterError(f"{path}: this is not a private key in PEM form", path) from None
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise ClusterError(f"{path}: is not the key of the certificate beside it", path)
    return content.decode()


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path)
    except FileNotFoundError:
        what = "there is no such file; ppdm cluster certificates makes a folder of them"
        raise ClusterError(f"{located(path)}: {what}", path) from None
    except OSError as error:
        raise ClusterError(f"{located(path)}: cannot be read: {error.strerror}", path) from None


def _write(path: Path, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(role: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ppdm {role}")])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    began: datetime,
    ended: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(ended)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
