"""Credentials come only from labelled Secrets, are sent only to the hosts that these name, and are in no document."""

from __future__ import annotations

import base64
from contextlib import aclosing
from typing import Any

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_operator.kube.credentials import LabelledSecrets, Resolver
from operatorworld import Json, World, running
from toolservers import Reply, Request, answer_modern, raw_server, tool

AUTH = {"bearer": {"secretRef": {"name": "key"}}}
MERGE = "application/merge-patch+json"


def add_secret(world: World, *, labelled: bool = True, hosts: str | None = None, **values: str) -> None:
    metadata: Json = {"name": "key", "labels": {"fairlead.dev/credential": "true"} if labelled else {}}
    if hosts is not None:
        metadata["annotations"] = {"fairlead.dev/hosts": hosts}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values or {"token": "s3cret"}}
    status, answer = world.request("POST", world.path("secrets"), body)
    assert status == 201, answer


def stored_credentials(world: World) -> list[Credential]:
    """Credential that the gateway would find."""
    _, listing = world.request("GET", f"/api/v1/namespaces/{world.release}/secrets")
    values = [value for item in listing["items"] for value in (item.get("data") or {}).values()]
    return [msgspec.json.decode(base64.b64decode(value), type=Credential) for value in values]


def require_token(seen: list[str]) -> Any:
    """A server that lists its tools only for requests with the right token."""

    async def handle(request: Request, reply: Reply) -> None:
        seen.append(request.headers.get("authorization", ""))
        if seen[-1] in ("Bearer s3cret", "Bearer renewed"):
            answer_modern(request, reply, [tool("add")])
        else:
            reply.send(401, b"no")

    return raw_server(handle)


async def test_a_labelled_secret_is_sent_and_stored_for_the_gateway_and_stands_in_no_document(world: World) -> None:
    add_secret(world)
    async with require_token([]) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        assert [c.headers for c in stored_credentials(world)] == [{"Authorization": "Bearer s3cret"}]
        catalog = world.catalog("demo")
        assert catalog is not None
        assert catalog.credential is not None
        assert catalog.credential.secret.startswith("fairlead-credentials-")
        assert not any(b"s3cret" in document for document in world.documents().values())


async def test_a_labelled_secret_that_the_watch_has_not_reported_yet_is_not_called_unlabelled(world: World) -> None:
    spec = {"url": "https://tools.example.com/mcp", "auth": AUTH}
    server = McpServer.model_validate({"metadata": {"name": "demo", "namespace": world.namespace}, "spec": spec})
    async with aclosing(Kube.connect(await load_configuration(str(world.plane.kubeconfig)))) as kube:
        resolver = Resolver(kube, LabelledSecrets([""], lambda key, before, after: None))
        missing = (await resolver.resolve(server, server.spec.url or "")).verdict
        add_secret(world)
        unreported = (await resolver.resolve(server, server.spec.url or "")).verdict
    assert (missing.ok, missing.cause) == (False, "SecretNotFound")
    assert (unreported.ok, unreported.cause) == (None, "SecretBeingRead")
    assert "Secret key was created or labelled a moment ago" in unreported.message


async def test_a_changed_secret_is_used_at_once_and_told_to_the_gateway(world: World) -> None:
    add_secret(world)
    seen: list[str] = []
    async with require_token(seen) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        before = world.catalog("demo")
        patch = {"stringData": {"token": "renewed"}}
        world.request("PATCH", world.path("secrets", "key"), patch, content_type=MERGE)
        await world.until("sent", lambda: seen[-1] == "Bearer renewed")
        await world.until(
            "stored", lambda: [c.headers for c in stored_credentials(world)] == [{"Authorization": "Bearer renewed"}]
        )

        def is_told() -> bool:
            now = world.catalog("demo")
            assert before is not None
            assert now is not None
            assert before.credential is not None
            assert now.credential is not None
            return now.credential.hash != before.credential.hash

        await world.until("told", is_told)


async def test_a_secret_without_the_label_is_refused_until_it_has_it(world: World) -> None:
    add_secret(world, labelled=False)
    seen: list[str] = []
    async with require_token(seen) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("refused", lambda: world.is_("demo", "ResolvedRefs", "False", "SecretNotLabelled"))
        assert world.is_("demo", "Ready", "False", "SecretNotLabelled")
        label = f"kubectl label secret key -n {world.namespace} fairlead.dev/credential=true"
        assert world.condition("demo", "Ready")["message"].endswith(label)
        assert (seen, stored_credentials(world)) == ([], [])
        patch = {"metadata": {"labels": {"fairlead.dev/credential": "true"}}}
        world.request("PATCH", world.path("secrets", "key"), patch, content_type=MERGE)
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))


async def test_a_missing_secret_and_a_missing_key_have_reasons_of_their_own(world: World) -> None:
    async with require_token([]) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("not found", lambda: world.is_("demo", "Ready", "False", "SecretNotFound"))
        told = world.condition("demo", "ResolvedRefs")["message"]
        assert 'labelled fairlead.dev/credential: "true" is noticed at once, any other within a minute' in told
        add_secret(world, other="x")
        await world.until("no key", lambda: world.is_("demo", "Ready", "False", "SecretKeyMissing"))


async def test_a_secret_goes_only_to_the_hosts_that_it_names(world: World) -> None:
    add_secret(world, hosts="tools.example.com, other.example")
    seen: list[str] = []
    async with require_token(seen) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("refused", lambda: world.is_("demo", "Ready", "False", "HostNotAllowed"))
        assert (seen, stored_credentials(world)) == ([], [])
        patch = {"metadata": {"annotations": {"fairlead.dev/hosts": "127.0.0.1"}}}
        world.request("PATCH", world.path("secrets", "key"), patch, content_type=MERGE)
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))


async def test_a_secret_that_is_deleted_takes_the_copy_and_ready_with_it(world: World) -> None:
    add_secret(world)
    async with require_token([]) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        world.request("DELETE", world.path("secrets", "key"))
        await world.until("not Ready", lambda: world.is_("demo", "Ready", "False", "SecretNotFound"))
        await world.until("no copy", lambda: stored_credentials(world) == [])
        await world.until("offline", lambda: (c := world.catalog("demo")) is not None and not c.online)


async def test_a_copy_that_is_deleted_by_hand_comes_back(world: World) -> None:
    add_secret(world)
    async with require_token([]) as server, running(world):
        world.create("demo", {"url": server.url, "auth": AUTH})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        world.request("DELETE", f"/api/v1/namespaces/{world.release}/secrets")
        await world.until("a copy again", lambda: len(stored_credentials(world)) == 1)
