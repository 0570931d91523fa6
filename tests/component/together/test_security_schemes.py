"""Credentials of an HTTP API's security schemes, from Secrets through operator and gateway to requests."""

from __future__ import annotations

import json

from gatewayworld import ask, calling
from operatorworld import World, running
from schemedapi import CREDENTIALS, VALUES, base_url, credentials_sent_to, document_of, schemed_api
from togetherworld import serving, shows
from waiting import until_async

TOOLS = ("api__both", "api__either", "api__open")


async def test_each_operation_is_called_with_the_credentials_of_its_schemes_and_with_renewed_ones(world: World) -> None:
    async with schemed_api() as server, running(world), serving(world) as gateway:
        source = {"metadata": {"name": "api"}, "data": {"openapi.json": json.dumps(document_of(server))}}
        assert world.request("POST", world.path("configmaps"), source)[0] == 201
        metadata = {"name": "api", "labels": {"fairlead.dev/credential": "true"}}
        secret = {"metadata": metadata, "stringData": VALUES}
        openapi = {"configMapRef": {"name": "api"}, "baseURL": base_url(server), "credentials": CREDENTIALS}
        world.create("api", {"openapi": openapi})
        await world.until("told", lambda: world.is_("api", "ResolvedRefs", "False", "SecretNotFound"))
        assert world.request("POST", world.path("secrets"), secret)[0] == 201
        await world.until("Ready", lambda: world.is_("api", "Ready", "True"))
        await until_async("the tools", shows(gateway, *TOOLS))
        for tool in TOOLS:
            assert not (await ask(gateway, calling(tool))).message["result"].get("isError")
        assert credentials_sent_to(server, "both") == {name: VALUES[name] for name in ("application", "staff")}
        assert credentials_sent_to(server, "either") == {name: VALUES[name] for name in ("browser", "partner")}
        assert credentials_sent_to(server, "open") == {}
        assert not any(value.encode() in b"".join(world.documents().values()) for value in VALUES.values())
        merge = "application/merge-patch+json"
        renewed = {"stringData": {"staff": "renewed"}}
        assert world.request("PATCH", world.path("secrets", "api"), renewed, content_type=merge)[0] == 200

        async def is_renewed() -> bool:
            await ask(gateway, calling("api__both"))
            return credentials_sent_to(server, "both")["staff"] == "renewed"

        await until_async("the renewed token", is_renewed)
