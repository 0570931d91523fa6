"""Requests to an API server, tested without one: paths, errors, the fence, the proxy."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.config_exception import ConfigException

from fairlead_kube import errors
from fairlead_kube.client import Kube
from fairlead_kube.resources import DEPLOYMENTS, LATENCY_TIERS, MCP_SERVERS, SECRETS
from fairlead_operator.ports import PLATFORM_ERRORS

NOWHERE = cast("ApiClient", None)
"""Client of tests that send nothing."""


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (413, errors.TooBig),
        (418, errors.ApiError),
        (422, errors.Invalid),
        (429, errors.Unavailable),
        (500, errors.Unavailable),
        (503, errors.Unavailable),
    ],
)
def test_each_status_has_its_error_and_every_error_is_trouble_with_the_platform(
    status: int, kind: type[errors.ApiError]
) -> None:
    error = errors.error_for(status, b'{"kind": "Status", "message": "words", "reason": "Why"}', "get x")
    assert type(error) is kind
    assert isinstance(error, PLATFORM_ERRORS)
    assert (error.status, error.reason, str(error)) == (status, "Why", f"cannot get x ({status}): words")


def test_a_namespace_that_is_being_deleted_is_told_apart_from_missing_rights() -> None:
    body = json.dumps({"kind": "Status", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}).encode()
    assert type(errors.error_for(403, body, "create x")) is errors.NamespaceTerminating
    assert (
        type(errors.error_for(403, b'{"kind": "Status", "details": {"causes": null}}', "create x")) is errors.Forbidden
    )


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("failed to convert new object (a/b; apps/v1, Kind=Deployment) to proper version: quantities", errors.Invalid),
        ("failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.x: expected str", errors.Invalid),
        ("etcdserver: request timed out", errors.Unavailable),
    ],
)
def test_an_object_that_cannot_be_read_is_refused_although_the_api_server_answers_500(
    message: str, kind: type[errors.ApiError]
) -> None:
    body = json.dumps({"kind": "Status", "message": message, "code": 500}).encode()
    assert type(errors.error_for(500, body, "patch x")) is kind


def test_only_a_status_object_is_trusted_for_its_words_and_they_are_bounded() -> None:
    assert [str(errors.error_for(503, body, "get x")) for body in (b'{"message": "<html>"}', b"<html>")] == [
        "cannot get x (503)"
    ] * 2
    long = errors.error_for(422, json.dumps({"kind": "Status", "message": "x" * 100_000}).encode(), "patch x")
    assert len(str(long)) == errors.MESSAGE_LIMIT


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (DEPLOYMENTS.path("ns", "a"), "/apis/apps/v1/namespaces/ns/deployments/a"),
        (DEPLOYMENTS.path(None), "/apis/apps/v1/deployments"),
        (SECRETS.path("ns"), "/api/v1/namespaces/ns/secrets"),
        (MCP_SERVERS.path("ns", "a", "status"), "/apis/fairlead.dev/v1alpha1/namespaces/ns/mcpservers/a/status"),
        (LATENCY_TIERS.path("ignored", "fast"), "/apis/fairlead.dev/v1alpha1/latencytiers/fast"),
    ],
)
def test_every_kind_knows_its_place(path: str, expected: str) -> None:
    assert path == expected


async def test_a_write_without_the_lease_is_not_sent() -> None:
    kube = Kube(NOWHERE, allowance=lambda: 0.0)
    calls = [
        kube.apply(SECRETS, "ns", {"metadata": {"name": "a"}}),
        kube.create(SECRETS, "ns", {}),
        kube.replace(SECRETS, "ns", "a", {}),
        kube.merge(SECRETS, "ns", "a", {}),
        kube.delete(SECRETS, "ns", "a"),
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [errors.NotLeading] * 5


async def test_the_proxy_that_the_environment_names_is_used_where_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.1,fd00:10:96::1,.svc")
    near = ("https://10.0.0.1:443", "https://[fd00:10:96::1]:443", "https://kubernetes.default.svc")
    hosts = ("https://api.example:6443", "https://[fd00:10:96::2]:443", *near)
    clients = [Kube.connect(Configuration(host=host)) for host in hosts]
    assert [kube.api.configuration.proxy for kube in clients] == ["http://proxy.example:3128"] * 2 + [None] * 3
    for kube in clients:
        await kube.aclose()


async def test_a_token_that_cannot_be_read_again_is_an_answer_that_did_not_arrive() -> None:
    async def raise_gone(configuration: Configuration) -> None:
        raise ConfigException("Service token file does not exist.")

    configuration = Configuration(host="http://127.0.0.1:1")
    configuration.api_key = {"BearerToken": "bearer old"}
    configuration.refresh_api_key_hook = raise_gone  # type: ignore[assignment]  # annotated by its default
    kube = Kube.connect(configuration)
    with pytest.raises(errors.Unavailable, match="cannot get secrets a in namespace ns: Service token file"):
        await kube.get(SECRETS, "ns", "a")
    await kube.aclose()
