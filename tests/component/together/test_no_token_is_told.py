"""Nothing that a run writes, logs, counts or answers contains a token, a client secret or a grant's key.

A real provider issues the tokens, and the server quotes requests in its errors.
"""

from __future__ import annotations

import json
import logging
import re
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from prometheus_client import generate_latest

from exchangeworld import complaint_of, identity_of, settings_of
from fairlead_api.logs import JsonFormatter
from fairlead_app.gateway import Gateway
from gatewayworld import Ask, Wire, ask, calling, modern
from issuers import HERE
from jwtservers import SCOPE, python_server
from operatorworld import QUICK, World, running
from otlpreceiver import otlp_receiver
from ports import free_port
from restworld import get
from secretscan import leaks, operations, stored_texts
from togetherworld import serving
from tokenproviders import CLIENT, CLIENTS, KEY, SECRET, oidc_provider, private_key
from waiting import until_async

PULL_TOKEN = "planted-pull-token-93aa1"
RESOURCES: Final = (
    "servers",
    "servers/NAMESPACE/desk",
    "tools",
    "tools/desk__whoami",
    "tools/desk__whoami/explain",
    "tools/wrong__whoami/explain",
    "access?tool=desk__whoami",
    "calls",
    "scores",
    "aggregates",
)
PAGES: Final = ("servers", "tools", "tools/desk__whoami", "calls")
JWT: Final = re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")
"""Pattern of any signed token, also of a client's assertion."""


def of_a_token(token: str) -> dict[str, str]:
    """Parts of a JWT that must not be revealed."""
    _, claims, signature = token.split(".")
    return {"claims": claims, "signature": signature}


def spec_of(url: str, issuer: str, **more: Any) -> dict[str, Any]:
    client = {"issuer": issuer, "clientID": CLIENT, "secretRef": {"name": "client"}, "scopes": [SCOPE], "resource": url}
    own = {"discovery": {"auth": {"clientCredentials": client}}}
    return {"url": url, "auth": {"tokenExchange": {**client, **more}}, **own}


def add_secret(world: World, name: str, value: str) -> None:
    metadata = {"name": name, "labels": {"fairlead.dev/credential": "true"}}
    body = {"metadata": metadata, "stringData": {"token": value}}
    assert world.request("POST", world.path("secrets"), body)[0] == 201


async def responses_for(gateway: Gateway, token: str, namespace: str) -> dict[str, str]:
    """Answers of the REST API and the console to a user."""
    bearer = {"authorization": f"Bearer {token}"}
    told = {}
    for resource in RESOURCES:
        answer = await get(gateway, f"/v1/{resource.replace('NAMESPACE', namespace)}", **bearer)
        assert answer.status == 200, (resource, answer.body)
        told[f"/v1/{resource}"] = answer.body.decode()
    for call in json.loads(told["/v1/calls"])["calls"]:
        told[f"call {call['id']}"] = (await get(gateway, f"/v1/calls/{call['id']}", **bearer)).body.decode()
    form = {"content-type": "application/x-www-form-urlencoded", "accept": "text/html"}
    sign_in = Ask(target="/console/sign-in", body=urlencode({"key": token}).encode(), headers=form)
    signed_in = await ask(gateway, sign_in)
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    for page in PAGES:
        answer = await get(gateway, f"/console/{page}", accept="text/html", cookie=cookie)
        assert answer.status == 200, (page, answer.body)
        told[f"/console/{page}"] = answer.body.decode()
    return told


@pytest.mark.timeout(180)
async def test_no_token_of_a_grant_is_in_anything_that_leaves_operator_or_gateway(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    port, metrics_port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    audit = tmp_path / "audit.log"
    add_secret(world, "client", SECRET)
    add_secret(world, "signer", private_key())
    told: dict[str, str] = {}
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        async with (
            oidc_provider(
                tmp_path, gateway=HERE, resources=[url], grants={"alice": [url], "bob": [url]}, scope=SCOPE
            ) as provider,
            python_server(provider.issuer, provider.jwks_url, port=port) as server,
            running(
                world, QUICK.replace(gateways=f"http://127.0.0.1:{metrics_port}", pull_token=PULL_TOKEN)
            ) as operator,
            serving(
                world,
                metrics_port=metrics_port,
                pull_token=PULL_TOKEN,
                audit="all",
                audit_otlp=True,
                aggregates=True,
                audit_file=audit,
                **settings_of(tmp_path, identity_of(provider.issuer)),
            ) as gateway,
        ):
            world.create("desk", spec_of(url, provider.issuer))
            world.create("wrong", spec_of(url, provider.issuer, resource=f"http://127.0.0.1:{port}"))
            signing = {"clientID": CLIENTS["private_key_jwt"], "clientAuthentication": "private_key_jwt"}
            signed = spec_of(url, provider.issuer, **signing, secretRef={"name": "signer"})
            signed["discovery"]["auth"]["clientCredentials"].update(**signing, secretRef={"name": "signer"})
            world.create("signed", signed)
            for name in ("desk", "signed"):
                await world.until("Ready", partial(world.is_, name, "Ready", "True"))
            people = {person: await provider.sign_in(person) for person in ("alice", "bob", "carol")}

            async def is_shown() -> bool:
                answer = await answer_to(modern("tools/list"), people["alice"])
                return all(f"{name}__whoami" in answer.body.decode() for name in ("desk", "signed"))

            async def answer_to(ask: Any, token: str) -> Any:
                async with await Wire.connect(gateway) as wire:
                    return await wire.ask(ask.with_headers(authorization=f"Bearer {token}"))

            await until_async("the tools", is_shown)
            for person, token in people.items():
                for tool in ("desk__whoami", "signed__whoami", "wrong__whoami"):
                    told[f"{person} calls {tool}"] = (await answer_to(calling(tool, {}), token)).body.decode()
                told[f"list of {person}"] = (await answer_to(modern("tools/list"), token)).body.decode()
            refused = server.requests()[-1].authorization.removeprefix("Bearer ")
            server.verifier.audience = "http://nobody.example"
            answer = await answer_to(calling("desk__whoami", {}), people["alice"])
            told["refused by the server"] = answer.body.decode()
            assert complaint_of(answer)[0] == "CREDENTIAL_UNAVAILABLE"
            told |= await responses_for(gateway, people["alice"], world.namespace)
            provider.end()
            told["provider away"] = (await answer_to(calling("desk__whoami", {}), people["bob"])).body.decode()
            for page in ("metrics", "samples", "healthz"):
                told[page] = await operations(gateway.metrics_port, page, PULL_TOKEN)
            told["events"] = repr(await gateway.events.after(0, 0.1))
            told["metrics of the operator"] = generate_latest(operator.telemetry.registry).decode()
            told |= stored_texts(world)
            sent = {request.authorization.removeprefix("Bearer ") for request in server.requests()} - {""}
        exported = {"spans": receiver.spans, "exported logs": receiver.logs, "exported metrics": receiver.metrics}
        told |= {name: repr(items) for name, items in exported.items()}
    told["audit"] = audit.read_text()
    for formatter in (logging.Formatter("%(name)s %(message)s"), JsonFormatter()):
        told[f"log as {formatter}"] = "\n".join(map(formatter.format, caplog.records))
    assert [name for name, items in exported.items() if len(items) <= 5] == []
    assert len(audit.read_text().splitlines()) >= 6
    assert refused in sent
    secrets = {"client secret": SECRET, "private key": str(KEY.as_dict(private=True)["d"])}
    secrets |= {f"line {number} of the key": line for number, line in enumerate(private_key().splitlines()[1:-1])}
    for number, token in enumerate((*people.values(), *sent)):
        secrets |= {f"{part} of token {number}": text for part, text in of_a_token(token).items()}
    assert len(secrets) > 16
    problems = [leak for name, text in told.items() for leak in leaks(secrets, name, text)]
    problems += [f"{name}: {jwt[0][:40]}" for name, text in told.items() for jwt in JWT.finditer(text)]
    assert not problems, "\n".join(problems[:20])
    for name in ("desk", "signed"):
        assert json.loads(told[f"alice calls {name}__whoami"])["result"]["content"][0]["text"] == "alice"
