"""Requests to AWS without a key are signed. The tests compute the signatures again by the published algorithm."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bedrockworld import KIND, converse
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_models.aws_signatures import RequestSigner, SigningFailed, SigningScope
from fairlead_models.providers import InvalidProvider, Provider, read_providers
from llmworld import llm_world

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SIGNED = {**KIND, "region": "eu-central-1", "models": ["scripted", MODEL]}
HOST = "https://bedrock-runtime.us-east-1.amazonaws.com"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary credentials in environment variables, as AWS documents them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/token==")


def signature_of(method: str, path: str, headers: Mapping[str, str], body: bytes) -> str:
    """Signature of a request, computed from the received request. Source: AWS, "Create a signed AWS API request"."""
    authorization = headers["authorization"]
    fields = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/(.+)/aws4_request, SignedHeaders=(.+), Signature=\w+", authorization
    )
    assert fields is not None, authorization
    day, region, service = fields[1].split("/")
    names = fields[2].split(";")
    canonical = [method, quote(path, safe="/-_.~"), "", *(f"{name}:{headers[name]}" for name in names), ""]
    canonical += [fields[2], hashlib.sha256(body).hexdigest()]
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, digest])
    return hmac.digest(key, text.encode(), "sha256").hex()


async def test_a_request_without_a_key_is_signed_as_it_arrives(tmp_path: Path, credentials: None) -> None:
    pytest.importorskip("awscrt", reason="AWS's Common Runtime is not installed (fairlead[bedrock])")
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=SIGNED) as world:
        answer = await converse(world, "Hi", model=MODEL)
        assert answer.status == 200, answer.body
        (headers,), (body,) = world.model.headers, world.model.bodies
    path = f"/v1/model/{quote(MODEL, safe='')}/converse"
    assert headers["authorization"].endswith(f"Signature={signature_of('POST', path, headers, body)}")
    assert "/eu-central-1/bedrock/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "a/token=="


async def test_a_key_is_sent_unchanged_in_place_of_a_signature(
    tmp_path: Path, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1")
    kind = {**SIGNED, "keyEnv": "AWS_BEARER_TOKEN_BEDROCK"}
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=kind) as world:
        assert (await converse(world, "Hi", model=MODEL)).status == 200
        (headers,) = world.model.headers
    assert headers["authorization"] == "Bearer bedrock-api-key-1"
    assert "x-amz-date" not in headers


async def test_an_installation_without_the_extra_is_told_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "awscrt", None)
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=SIGNED) as world:
        answer = await converse(world, "Hi", model=MODEL)
    assert answer.status == 502
    assert "[bedrock]'" in json.loads(answer.body)["message"]


async def test_a_request_without_credentials_says_where_they_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("awscrt", reason="AWS's Common Runtime is not installed (fairlead[bedrock])")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SigningFailed, match="set AWS_ACCESS_KEY_ID"):
        await RequestSigner().sign(SigningScope("us-east-1", "bedrock"), "POST", f"{HOST}/model/m/converse", b"{}")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("bedrock-runtime.us-west-2.api.aws", "us-west-2"),
        ("vpce-1-a.bedrock-runtime.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
        ("proxy.example.com", ""),
    ],
)
def test_a_region_is_that_of_the_host(host: str, region: str) -> None:
    assert Provider(f"https://{host}", kind="bedrock").signing_region == region
    assert Provider(f"https://{host}", kind="bedrock", region="eu-west-1").signing_region == "eu-west-1"
    assert Provider(f"https://{host}").signing_region == ""


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"kind": "openai", "region": "us-east-1"}, "region is allowed only for the kind bedrock"),
        ({"kind": "bedrock", "headers": {"X-Amz-Date": "1"}}, "'X-Amz-Date' is not allowed"),
        ({"kind": "bedrock", "headers": {"Authorization": "1"}}, "'Authorization' is not allowed"),
    ],
)
def test_a_provider_with_members_of_another_kind_is_refused(members: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProvider, match=message):
        read_providers({"aws": {"baseUrl": HOST, **members}}, {})
