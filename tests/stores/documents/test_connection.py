"""What somebody with a wrong setting is told, and what a connection guarantees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.devstack.ports import choose_port
from muster.domain.errors import InvalidInput, MongoUnavailable
from muster.stores.documents.connection import Mongo, connect, redacted
from muster.stores.documents.indexes import ensure_indexes
from tests.stores.documents.servers import database_server

SECRET = "hunter2"


async def refusal(uri: str) -> MongoUnavailable:
    """What a ping to `uri` is told."""
    async with connect(uri, "muster", timeoutMS=1500) as mongo:
        with pytest.raises(MongoUnavailable) as caught:
            await mongo.ping()
    return caught.value


async def test_a_server_that_answers_is_pinged(mongo: Mongo) -> None:
    await mongo.ping()


async def test_no_server_is_named_without_its_password() -> None:
    port = choose_port(0)
    error = await refusal(f"mongodb://op:{SECRET}@127.0.0.1:{port}/?directConnection=true")
    assert error.details["reason"] == "unreachable"
    assert f"mongodb://127.0.0.1:{port}/muster" in error.message
    assert "start it" in error.message
    assert SECRET not in error.message


async def test_a_server_that_accepts_and_never_answers_is_given_up_in_time() -> None:
    held: list[asyncio.StreamWriter] = []

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(8):
        error = await refusal(f"mongodb://127.0.0.1:{port}/")
    for writer in held:
        writer.close()
    server.close()
    assert error.details["reason"] in {"unreachable", "timeout"}


@pytest.fixture(scope="module")
async def guarded_port(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    """A server that demands a password; its user is `op`, who may read one other database."""
    folder = tmp_path_factory.mktemp("guarded")
    async with (
        database_server(folder) as open_port,
        connect(f"mongodb://127.0.0.1:{open_port}/?directConnection=true", "admin") as admin,
    ):
        roles = [{"role": "read", "db": "elsewhere"}]
        await admin.database.command("createUser", "op", pwd=SECRET, roles=roles)
    async with database_server(folder, "--auth") as port:
        yield port


@pytest.mark.parametrize(
    ("user", "reason", "advice"),
    [
        (f"op:{SECRET}-wrong@", "credentials", "user, password or authSource"),
        (f"op:{SECRET}@", "permission", "readWrite"),
        ("", "permission", "readWrite"),
    ],
    ids=["wrong password", "no rights here", "no user"],
)
async def test_a_refused_user_is_told_what_to_correct(
    guarded_port: int, user: str, reason: str, advice: str
) -> None:
    error = await refusal(f"mongodb://{user}127.0.0.1:{guarded_port}/?directConnection=true")
    assert error.details["reason"] == reason
    assert advice in error.message
    assert SECRET not in error.message


async def test_a_server_with_an_unknown_certificate_is_a_tls_error(tmp_path: Path) -> None:
    certificate, key = _self_signed(tmp_path)
    tls = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    async with database_server(tmp_path / "data", *tls) as port:
        address = f"mongodb://127.0.0.1:{port}/?directConnection=true&tls=true"
        async with connect(f"{address}&tlsCAFile={certificate}", "muster") as trusted:
            await trusted.ping()
        error = await refusal(address)
    assert error.details["reason"] == "tls"
    assert "tlsCAFile" in error.message


def _self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "server.pem", folder / "server.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "localhost:27017",
        f"mongodb://op:{SECRET}",
        f"mongodb://op:{SECRET}@",
        f"mongodb://op:{SECRET}@host:notaport/",
        f"mongodb://op:{SECRET}/x@host/",
        f"mongodb://op:{SECRET}@host/?tls=true&tlsCAFile=/nowhere/ca.pem",
    ],
)
async def test_a_uri_that_isnt_one_is_refused_without_quoting_it(uri: str) -> None:
    with pytest.raises(InvalidInput, match="can't be used") as caught:
        connect(uri, "muster")
    assert SECRET not in caught.value.message


async def test_a_database_name_that_isnt_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"/a b can't be used"):
        connect("mongodb://host/", "a b")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("mongodb://a:1,b:2/db?replicaSet=rs0", "mongodb://a:1,b:2"),
        (
            f"mongodb+srv://op:{SECRET}@cluster.example.net/?w=1",
            "mongodb+srv://cluster.example.net",
        ),
        (f"mongodb://op:{SECRET}?@host/", "mongodb://host"),
        (f"mongodb://op:p@{SECRET}@[::1]:5/", "mongodb://[::1]:5"),
        (f"mongodb://op:{SECRET}", "mongodb://…"),
        (f"mongodb://host/?tlsCertificateKeyFilePassword=x@y&a={SECRET}", "mongodb://y"),
        (f"http://op:{SECRET}@host/", "mongodb://…"),
    ],
)
def test_what_is_shown_of_a_uri_is_its_hosts(uri: str, shown: str) -> None:
    assert redacted(uri) == shown


async def test_writes_wait_for_a_majority_whatever_the_uri_says(mongo_uri: str) -> None:
    joint = "&" if "?" in mongo_uri else "/?"
    async with connect(f"{mongo_uri}{joint}w=0&retryWrites=false", "muster") as mongo:
        collection = mongo.collection("sessions")
        assert collection.write_concern.document == {"w": "majority", "j": True}
        assert mongo.client.options.retry_writes


async def test_a_time_limit_of_the_uri_wins(mongo_uri: str) -> None:
    joint = "&" if "?" in mongo_uri else "/?"
    async with (
        connect(f"{mongo_uri}{joint}timeoutMS=1234", "muster") as given,
        connect(mongo_uri, "muster") as default,
    ):
        assert (given.client.options.timeout, default.client.options.timeout) == (1.234, 10.0)


async def test_indexes_are_created_once_and_named(mongo: Mongo) -> None:
    names = await ensure_indexes(mongo)
    assert await ensure_indexes(mongo) == names
    assert "public_events.namespace_seq" in names
    there = await mongo.collection("public_events").index_information()
    assert there["namespace_seq"]["unique"]


async def test_an_index_of_another_shape_under_our_name_is_reported(mongo: Mongo) -> None:
    collection = mongo.collection("public_events")
    await collection.drop_index("namespace_seq")
    await collection.create_index([("seq", 1)], name="namespace_seq")
    with pytest.raises(MongoUnavailable) as caught:
        await ensure_indexes(mongo)
    assert caught.value.details["reason"] == "refused"
