"""Life of API keys: their creation by a command, their use in requests, and their revocation."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from commands import fairlead
from controlplane import ControlPlane
from fairlead_api.bad_setting import BadSetting
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.key_authenticator import ApiKeys
from fairlead_gateway.identity.key_format import PREFIX, BadKeys, KeyDocument, digest, encode_keys, new_key, read
from fairlead_gateway.identity.request_authentication import Identities
from gatewayworld import Ask, Wire, catalog, modern, running
from togetherworld import gateway_on
from waiting import eventually, until_async

NOWHERE = "http://127.0.0.1:9/mcp"
DEMO = catalog("demo", NOWHERE, ["add"])


class _Place:
    """Source of keys whose content the test reports."""

    name = "here"

    async def run(self, report: Callable[[KeyDocument], None]) -> None:
        await asyncio.Event().wait()


def _now() -> datetime:
    return datetime.now(UTC)


async def status(gateway: Gateway, key: str) -> int:
    async with await Wire.connect(gateway) as wire:
        return (await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {key}"))).status


async def until_status(gateway: Gateway, key: str, expected: int) -> None:
    """Wait for a status of requests with the key: files and Secrets are read again after a moment."""

    async def is_reached() -> bool:
        return await status(gateway, key) == expected

    await until_async(f"status {expected}", is_reached, seconds=30)


async def test_a_key_lets_its_holder_in_until_it_is_revoked(tmp_path: Path) -> None:
    """The commands, with a running gateway: the key is printed once, stored as a hash, and refused soon after its
    revocation."""
    file = tmp_path / "keys.json"
    code, key, _ = await fairlead("keys", "create", "npc", "--group", "game", "--file", str(file))
    key = key.strip()
    assert code == 0
    stored = file.read_text()
    assert key not in stored
    assert key.removeprefix(PREFIX).split("_", 1)[1] not in stored
    assert file.stat().st_mode & 0o077 == 0
    async with running(tmp_path, DEMO, trust=build_trust(Settings.of(api_keys=file))) as gateway:
        await until_status(gateway, key, 200)
        assert await status(gateway, key[:-1] + ("A" if key[-1] != "A" else "B")) == 401
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        (tmp_path / "npc.key").write_text(key + "\n")
        for words in (["--token", key], ["--token", f"@{tmp_path / 'npc.key'}"]):
            code, out, _ = await fairlead("tools", "--url", url, *words)
            assert (code, "demo__add" in out) == (0, True)
        refused = await fairlead("tools", "--url", url)
        assert refused[0] == 1
        assert "--token" in refused[2]
        code, out, _ = await fairlead("keys", "list", "--file", str(file), "--output", "json")
        (shown,) = json.loads(out)
        assert (shown["agent"], shown["groups"]) == ("npc", ["game"])
        async with await Wire.connect(gateway) as wire:
            listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            wire.send(listen.with_headers(authorization=f"Bearer {key}"))
            await wire.reader.readuntil(b"acknowledged")
            assert (await fairlead("keys", "revoke", shown["id"], "--file", str(file)))[0] == 0
            async with asyncio.timeout(20):
                await wire.reader.readuntil(b"\r\n0\r\n\r\n")
        assert await status(gateway, key) == 401
    assert (await fairlead("keys", "revoke", shown["id"], "--file", str(file)))[0] == 2


async def test_agent_and_groups_of_a_key_become_those_of_the_identity() -> None:
    key, record = new_key("npc", ["game", "eu"], now=_now())
    keys = ApiKeys([_Place()], time.time)
    keys.take_document("here", KeyDocument((record,)))
    identity = keys.check(key)
    assert isinstance(identity, Identity)
    assert (identity.kind, identity.agent, identity.principal) == ("apiKey", "npc", "key:npc")
    assert set(identity.groups) == {"game", "eu"}


async def test_a_key_is_refused_from_its_expiry_on() -> None:
    at = [1_000_000.0]
    key, record = new_key("npc", now=_now())
    keys = ApiKeys([_Place()], lambda: at[0])
    keys.take_document("here", KeyDocument((msgspec.structs.replace(record, expires="1970-01-12T13:46:41Z"),)))
    identities = Identities([keys], now=lambda: at[0])
    header = f"Bearer {key}".encode()
    ended: list[str] = []
    identity = await identities.identify(header)
    assert isinstance(identity, Identity)
    identities.watch(identity, lambda: ended.append("stream"))
    identities.sweep()
    assert ended == []
    at[0] += 2
    identities.sweep()
    assert ended == ["stream"]
    assert identities.recall(header) is None
    assert not isinstance(await identities.identify(header), Identity)


def test_before_its_keys_were_read_a_gateway_refuses_none_for_good() -> None:
    """A replica that starts while the API server is unreachable does not know the keys: it answers 503, so that clients
    retry."""
    key, record = new_key("npc", now=_now())
    keys = ApiKeys([_Place()], time.time)
    early = keys.check(key)
    assert not isinstance(early, Identity)
    assert early is not None
    assert early.status == 503
    keys.take_document("here", KeyDocument((record,)))
    assert isinstance(keys.check(key), Identity)


def test_keys_of_a_file_are_known_before_the_gateway_listens(tmp_path: Path) -> None:
    """A request may arrive before the watch has read the file for the first time."""
    key, record = new_key("npc", now=_now())
    file = tmp_path / "keys.json"
    file.write_bytes(encode_keys([record]))
    (keys,) = build_trust(Settings.of(api_keys=file)).authenticators
    assert isinstance(keys.check(key), Identity)


def test_keys_are_random_and_a_document_survives_its_own_text() -> None:
    made = [new_key("npc", now=_now()) for _ in range(50)]
    assert len({key for key, _ in made} | {record.id for _, record in made}) == 100
    assert all(re.fullmatch(r"flk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key) for key, _ in made)
    records = tuple(record for _, record in made)
    assert read(encode_keys(records)).keys == records
    assert all(record.hash == digest(key) for key, record in made)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"keys": [{"id": "a"}]}',
        b'{"keys": [{"id": "a", "hash": "h", "agent": "n", "secret": 1}]}',
        b'{"keys": [{"id": "a", "hash": "h", "agent": "n", "expires": "soon"}]}',
        b'{"keys": [{"id": "a", "hash": "h", "agent": "n"}, {"id": "a", "hash": "i", "agent": "m"}]}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_document_that_is_none_is_refused_with_a_sentence(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadKeys):
        read(data)
    (tmp_path / "keys.json").write_bytes(data)
    with pytest.raises(BadSetting, match=r"keys.json"):
        build_trust(Settings.of(api_keys=tmp_path / "keys.json"))


async def test_a_file_that_breaks_changes_nothing_and_one_that_goes_revokes_its_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    key, record = new_key("npc", now=_now())
    other, second = new_key("qa", now=_now())
    file.write_bytes(encode_keys([record]))
    async with running(tmp_path, DEMO, trust=build_trust(Settings.of(api_keys=file))) as gateway:
        await until_status(gateway, key, 200)
        file.write_text("{")
        await eventually(lambda: "cannot be read, and the last ones stay in use" in caplog.text)
        assert await status(gateway, key) == 200
        file.write_bytes(encode_keys([record, second]))
        await until_status(gateway, other, 200)
        file.unlink()
        await until_status(gateway, key, 401)
        assert await status(gateway, other) == 401


async def test_keys_of_a_secret_are_watched_and_its_label_is_asked_for(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    where = ["--secret", "fairlead-api-keys", "--namespace", namespace, "--kubeconfig", str(control_plane.kubeconfig)]
    async with gateway_on(control_plane, namespace, api_key_secrets=("fairlead-api-keys",)) as gateway:
        code, out, err = await fairlead("keys", "create", "npc", *where)
        assert code == 0, err
        key = out.strip()
        await until_status(gateway, key, 200)
        second = (await fairlead("keys", "create", "qa", *where))[1].strip()
        await until_status(gateway, second, 200)
        assert (await fairlead("keys", "revoke", key, *where))[0] == 0
        await until_status(gateway, key, 401)
        assert await status(gateway, second) == 200
        unlabelled = {"metadata": {"labels": {"fairlead.dev/api-keys": "no"}}}
        target = f"{path}/fairlead-api-keys"
        patch = "application/merge-patch+json"
        await asyncio.to_thread(control_plane.request, "PATCH", target, unlabelled, content_type=patch)
        await until_status(gateway, second, 401)
        labelled = {"metadata": {"labels": {"fairlead.dev/api-keys": "true"}}}
        await asyncio.to_thread(control_plane.request, "PATCH", target, labelled, content_type=patch)
        await until_status(gateway, second, 200)
        await asyncio.to_thread(control_plane.request, "DELETE", target)
        await until_status(gateway, second, 401)


async def test_a_service_account_is_let_in_by_a_token_that_is_made_for_the_gateway(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The real API server issues the tokens and reviews them."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await asyncio.to_thread(control_plane.request, "POST", accounts, {"metadata": {"name": "npc"}})

    async def token(audience: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}}
        _, made = await asyncio.to_thread(control_plane.request, "POST", f"{accounts}/npc/token", body)
        return str(made["status"]["token"])

    file = tmp_path / "identity.yaml"
    file.write_text("serviceAccounts: {audiences: [fairlead]}")
    async with gateway_on(control_plane, namespace, identity=file) as gateway:
        good = await token("fairlead")
        assert await status(gateway, good) == 200
        identity = gateway.endpoint.identities.recall(f"Bearer {good}".encode())
        assert identity is not None
        assert (identity.kind, identity.principal) == ("serviceAccount", f"sa:{namespace}/npc")
        assert str(identity.service_account) == f"{namespace}/npc"
        assert "system:serviceaccounts" in identity.groups
        assert await status(gateway, await token("https://kubernetes.default.svc")) == 401
        head, claims, signature = good.split(".")
        assert await status(gateway, f"{head}.{claims}.{signature[:-4]}AAAA") == 401
        request = Ask(verb="GET", target="/v1/servers", headers={"authorization": f"Bearer {good}"}, body=b"")
        async with await Wire.connect(gateway) as wire:
            assert (await wire.ask(request)).status == 200


async def test_a_key_goes_into_a_file_that_its_owner_alone_can_read(tmp_path: Path) -> None:
    keys_file = tmp_path / "keys.json"
    out = tmp_path / "npc.key"
    create = ["keys", "create", "npc", "--file", str(keys_file), "--out", str(out)]
    code, output, _ = await fairlead(*create)
    assert code == 0
    first = out.read_text()
    assert first.strip() not in output
    assert digest(first.strip()) == read(keys_file.read_bytes()).keys[0].hash
    assert out.stat().st_mode & 0o777 == keys_file.stat().st_mode & 0o777 == 0o600

    code, _, error = await fairlead(*create)
    assert (code, "already exists" in error, "--overwrite" in error) == (2, True, True)
    assert out.read_text() == first
    assert len(read(keys_file.read_bytes()).keys) == 1, "a key that nobody got is not kept"

    out.chmod(0o644)
    assert (await fairlead(*create, "--overwrite"))[0] == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert digest(out.read_text().strip()) == read(keys_file.read_bytes()).keys[1].hash

    code, _, error = await fairlead(*create[:-1], str(tmp_path / "nowhere" / "npc.key"))
    assert (code, "does not exist" in error) == (1, True)
