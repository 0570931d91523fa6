"""Whatever a run writes, says, counts or answers: no token, client secret or key of a grant is in it.

A real provider makes the tokens, and the server tells what it was sent in its errors.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from exchangeworld import complaint_of, identity_of, settings_of
from fairlead_api.logs import JsonFormatter
from gatewayworld import Wire, calling, modern
from issuers import HERE
from jwtservers import SCOPE, python_server
from operatorworld import QUICK, World, running
from otlpreceiver import otlp_receiver
from ports import free_port
from secretscan import leaks, operations, stored
from togetherworld import serving
from tokenproviders import CLIENT, SECRET, oidc_provider
from waiting import until_async

PULL_TOKEN = "planted-pull-token-93aa1"


def of_a_token(token: str) -> dict[str, str]:
    """Parts of a JWT that make it one: none of them may be told."""
    _, claims, signature = token.split(".")
    return {"claims": claims, "signature": signature}


def spec_of(url: str, issuer: str, **more: Any) -> dict[str, Any]:
    client = {"issuer": issuer, "clientID": CLIENT, "secretRef": {"name": "client"}, "scopes": [SCOPE], "resource": url}
    own = {"discovery": {"auth": {"clientCredentials": client}}}
    return {"url": url, "auth": {"tokenExchange": {**client, **more}}, **own}


@pytest.mark.timeout(180)
async def test_no_token_of_a_grant_is_in_anything_that_leaves_operator_or_gateway(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    port, metrics_port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    audit = tmp_path / "audit.log"
    body = {
        "metadata": {"name": "client", "labels": {"fairlead.dev/credential": "true"}},
        "stringData": {"token": SECRET},
    }
    assert world.request("POST", world.path("secrets"), body)[0] == 201
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
                audit_file=audit,
                **settings_of(tmp_path, identity_of(provider.issuer)),
            ) as gateway,
        ):
            world.create("desk", spec_of(url, provider.issuer))
            world.create("wrong", spec_of(url, provider.issuer, resource=f"http://127.0.0.1:{port}"))
            await world.until("Ready", partial(world.is_, "desk", "Ready", "True"))
            people = {person: await provider.sign_in(person) for person in ("alice", "bob", "carol")}

            async def shown() -> bool:
                answer = await answer_to(modern("tools/list"), people["alice"])
                return "desk__whoami" in answer.body.decode()

            async def answer_to(ask: Any, token: str) -> Any:
                async with await Wire.connect(gateway) as wire:
                    return await wire.ask(ask.with_headers(authorization=f"Bearer {token}"))

            await until_async("the tools", shown)
            for person, token in people.items():
                for tool in ("desk__whoami", "wrong__whoami"):
                    told[f"{person} calls {tool}"] = (await answer_to(calling(tool, {}), token)).body.decode()
                told[f"list of {person}"] = (await answer_to(modern("tools/list"), token)).body.decode()
            refused = server.requests()[-1].authorization.removeprefix("Bearer ")
            server.verifier.audience = "http://nobody.example"
            answer = await answer_to(calling("desk__whoami", {}), people["alice"])
            told["refused by the server"] = answer.body.decode()
            assert complaint_of(answer)[0] == "CREDENTIAL_UNAVAILABLE"
            await provider.end()
            told["provider away"] = (await answer_to(calling("desk__whoami", {}), people["bob"])).body.decode()
            for page in ("metrics", "samples", "healthz"):
                told[page] = await operations(gateway.metrics_port, page, PULL_TOKEN)
            told["events"] = repr(await gateway.events.after(0, 0.1))
            told["metrics of the operator"] = generate_latest(operator.telemetry.registry).decode()
            told |= stored(world)
            sent = {request.authorization.removeprefix("Bearer ") for request in server.requests()} - {""}
        told["traces"] = repr(receiver.spans) + repr(receiver.logs) + repr(receiver.metrics)
    told["audit"] = audit.read_text()
    for formatter in (logging.Formatter("%(name)s %(message)s"), JsonFormatter()):
        records = [record for record in caplog.records if record.name.startswith("fairlead")]
        told[f"log as {formatter}"] = "\n".join(map(formatter.format, records))
    assert len(receiver.spans) > 5
    assert len(audit.read_text().splitlines()) >= 6
    assert refused in sent
    secrets = {"client secret": SECRET}
    for number, token in enumerate((*people.values(), *sent)):
        secrets |= {f"{part} of token {number}": text for part, text in of_a_token(token).items()}
    assert len(secrets) > 12
    problems = [leak for name, text in told.items() for leak in leaks(secrets, name, text)]
    assert not problems, "\n".join(problems[:20])
    assert json.loads(told["alice calls desk__whoami"])["result"]["content"][0]["text"] == "alice"
