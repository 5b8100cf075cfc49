"""Certificates of a run: who is let in, and which folders of them are refused."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from ppdm_dask.cli import main
from ppdm_dask.cluster import security
from ppdm_dask.cluster.security import (
    ROLES,
    Certificates,
    make_certificates,
    read_certificates,
    write_certificates,
)
from ppdm_dask.errors import ClusterError


@pytest.fixture(scope="module")
def ours() -> Certificates:
    return make_certificates()


@pytest.fixture(scope="module")
def theirs() -> Certificates:
    return make_certificates()


def context(certificates: Certificates, role: str, side: str) -> ssl.SSLContext:
    """The context that Dask makes of our settings for a role."""
    arguments: Any = getattr(certificates.security(role), f"get_{side}_args")(role)
    found = arguments["ssl_context"]
    assert isinstance(found, ssl.SSLContext)
    return found


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Let two sides agree in memory; an exception is a refusal by one of them."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    ]
    for _ in range(5):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    # In TLS 1.3 a server's refusal arrives after the client's handshake.
    sides[0].write(b"welcome")
    assert sides[1].read() == b"welcome"


@pytest.mark.parametrize("server", ["scheduler", "worker"])
@pytest.mark.parametrize("client", ["client", "worker", "scheduler"])
def test_parts_of_a_cluster_let_each_other_in(ours: Certificates, server: str, client: str) -> None:
    shake_hands(context(ours, server, "listen"), context(ours, client, "connection"))


def test_foreign_authority_is_refused_by_both_sides(
    ours: Certificates, theirs: Certificates
) -> None:
    for server, client in ((ours, theirs), (theirs, ours)):
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
            shake_hands(
                context(server, "scheduler", "listen"), context(client, "client", "connection")
            )


def test_without_a_certificate_nobody_is_let_in(ours: Certificates) -> None:
    stranger = ssl.create_default_context(cadata=ours.authority)
    stranger.check_hostname = False
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(context(ours, "scheduler", "listen"), stranger)


def test_a_client_certificate_is_no_servers(ours: Certificates) -> None:
    # A client's key that was stolen does not make a scheduler that others trust.
    with pytest.raises(ssl.SSLError, match="unsuitable certificate purpose"):
        shake_hands(context(ours, "client", "listen"), context(ours, "client", "connection"))


def test_plain_connections_are_refused(ours: Certificates) -> None:
    assert ours.security("client").require_encryption is True


def test_what_the_certificates_say() -> None:
    made = make_certificates(days=7)
    authority = x509.load_pem_x509_certificate(made.authority.encode())
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    for role in ROLES:
        found = x509.load_pem_x509_certificate(made.pairs[role][0].encode())
        found.verify_directly_issued_by(authority)
        assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        usage = set(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        serves = ExtendedKeyUsageOID.SERVER_AUTH in usage
        assert serves == (role != "client")
        left = found.not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=6, hours=23) < left <= timedelta(days=7)
    assert "PRIVATE" not in repr(made)


def test_folder(tmp_path: Path, ours: Certificates) -> None:
    before = os.umask(0)
    try:
        files = write_certificates(ours, tmp_path / "deep" / "keys")
    finally:
        os.umask(before)
    folder = tmp_path / "deep" / "keys"
    assert sorted(folder.iterdir()) == sorted(files)
    assert folder.stat().st_mode & 0o777 == 0o700
    keys = [path for path in files if path.name.endswith("-key.pem")]
    assert len(keys) == len(ROLES)
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
    assert read_certificates(folder, ROLES) == ours
    assert list(tmp_path.rglob(".*")) == []


def test_nothing_is_written_over(tmp_path: Path, ours: Certificates) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    write_certificates(ours, folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ClusterError, match="already exists; certificates are never written ov"):
        write_certificates(make_certificates(), folder)
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match="already exists"):
        write_certificates(ours, tmp_path / "file")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


class TestReading:
    @pytest.fixture
    def folder(self, tmp_path: Path, ours: Certificates) -> Path:
        write_certificates(ours, tmp_path / "keys")
        return tmp_path / "keys"

    def refused(self, folder: Path, *roles: str) -> str:
        with pytest.raises(ClusterError) as caught:
            read_certificates(folder, roles)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_a_client_needs_no_keys_of_others(self, folder: Path, ours: Certificates) -> None:
        for role in ("scheduler", "worker"):
            (folder / f"{role}-key.pem").unlink()
        assert read_certificates(folder).pairs == {"client": ours.pairs["client"]}
        message = self.refused(folder, "worker")
        assert message.startswith(f"{folder}/worker-key.pem: there is no such file; ppdm cluster")

    def test_key_that_others_can_read(self, folder: Path) -> None:
        key = folder / "client-key.pem"
        key.chmod(0o640)
        assert self.refused(folder) == (
            f"{key}: this private key is open to other users; chmod 600 {key}"
        )

    def test_another_authoritys(self, folder: Path, theirs: Certificates) -> None:
        (folder / "client.pem").write_text(theirs.pairs["client"][0])
        assert self.refused(folder).startswith(
            f"{folder}/client.pem: was not issued by the authority in {folder}/ca.pem"
        )

    def test_another_certificates_key(self, folder: Path, ours: Certificates) -> None:
        (folder / "client-key.pem").write_text(ours.pairs["worker"][1])
        assert self.refused(folder).endswith("is not the key of the certificate beside it")

    @pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client-key.pem"])
    def test_what_never_ends(self, folder: Path, name: str) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(ClusterError, match=f"{name}: cannot be read: it is a device or a pipe"):
            read_certificates(folder)

    @pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client-key.pem"])
    def test_damaged(self, folder: Path, name: str) -> None:
        (folder / name).write_text("-----BEGIN NOTHING-----\n")
        assert self.refused(folder).startswith(f"{folder / name}: this is not a ")

    @pytest.mark.parametrize(
        ("days", "message"), [(31, "was good until "), (-1, "is valid only from ")]
    )
    def test_time(
        self, folder: Path, days: int, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Later(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + timedelta(days=days)

        monkeypatch.setattr(security, "datetime", Later)
        assert message in self.refused(folder)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "keys"
    assert main(["cluster", "certificates", str(folder), "--days", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{folder}: good for 3 days, for one cluster\n")
    assert all(path.name in out for path in folder.iterdir())
    assert main(["cluster", "certificates", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"ppdm: error: {folder}: already exists; certificates are never written over, "
        "name a new folder\n"
    )
