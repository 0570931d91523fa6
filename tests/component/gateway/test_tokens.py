"""Tokens of an OpenID provider: valid ones, and forged ones that are refused.

For each attack, a test shows that it succeeds with an authenticator that lacks the guard against it.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, Key, RSAKey

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwks import IssuerKeys
from fairlead_gateway.identity.jwt_authenticator import Tokens, json_of
from gatewayworld import LEGACY, Ask, Wire, calling, catalog, legacy, modern, running
from issuers import HERE, LocalIssuer, issuing, settings_with_issuer, status
from toolservers import modern_server


def unsigned_token(issuer: LocalIssuer, algorithm: str) -> str:
    parts = [{"alg": algorithm, "typ": "JWT", "kid": "first"}, issuer.claims(aud=HERE)]
    return ".".join([*(_part(part) for part in parts), ""])


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def pem(key: Key) -> bytes:
    """A public key in PEM."""
    assert isinstance(key, RSAKey)
    return key.as_pem(private=False)


def with_public_key_as_secret(issuer: LocalIssuer) -> str:
    """Key confusion: the issuer's public key, which everybody knows, is used as a shared secret."""
    signed = ".".join(_part(part) for part in ({"alg": "HS256", "kid": "first"}, issuer.claims(aud=HERE)))
    mac = hmac.digest(pem(issuer.keys[0]), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def with_own_key_in_the_header(issuer: LocalIssuer) -> str:
    mine = RSAKey.generate_key(2048)
    return issuer.token(key=mine, header={"jwk": mine.as_dict(private=False)}, aud=HERE)


def with_a_key_elsewhere(name: str) -> Callable[[LocalIssuer], str]:
    def forge(issuer: LocalIssuer) -> str:
        return issuer.token(key=RSAKey.generate_key(2048), header={name: "http://127.0.0.1:9/keys"}, aud=HERE)

    return forge


ATTACKS: dict[str, Callable[[LocalIssuer], str]] = {
    "alg none": lambda issuer: unsigned_token(issuer, "none"),
    "alg NoNe": lambda issuer: unsigned_token(issuer, "NoNe"),
    "public key as a secret": with_public_key_as_secret,
    "another's signature": lambda issuer: issuer.token(key=RSAKey.generate_key(2048), aud=HERE),
    "a key of another kind": lambda issuer: issuer.token(
        key=ECKey.generate_key("P-256"), header={"alg": "ES256"}, aud=HERE
    ),
    "its own key in the header": with_own_key_in_the_header,
    "jku": with_a_key_elsewhere("jku"),
    "x5u": with_a_key_elsewhere("x5u"),
    "expired": lambda issuer: issuer.token(aud=HERE, iat=int(time.time()) - 600, exp=int(time.time()) - 60),
    "never expires": lambda issuer: issuer.token(aud=HERE, exp=None),
    "expires at no number": lambda issuer: issuer.token(aud=HERE, exp="9999999999"),
    "not valid yet": lambda issuer: issuer.token(aud=HERE, nbf=int(time.time()) + 300),
    "another audience": lambda issuer: issuer.token(aud="https://mail.example.com"),
    "an audience that begins alike": lambda issuer: issuer.token(aud=HERE + ".evil.example"),
    "no audience": lambda issuer: issuer.token(),
    "another issuer": lambda issuer: issuer.token(aud=HERE, iss="https://evil.example"),
    "no subject": lambda issuer: issuer.token(aud=HERE, sub=None),
    "a kid that leads elsewhere": lambda issuer: issuer.token(header={"kid": "../../dev/null' OR 1=1"}, aud=HERE),
    "a kid that is not a text": lambda issuer: ".".join(
        [_part({"alg": "RS256", "kid": ["first"]}), *issuer.token(aud=HERE).split(".")[1:]]
    ),
    "an ID token": lambda issuer: issuer.token(header={"typ": "logout+jwt"}, aud=HERE),
    "an unknown critical header": lambda issuer: ".".join(
        [_part({"alg": "RS256", "kid": "first", "crit": ["b64"], "b64": False}), *issuer.token(aud=HERE).split(".")[1:]]
    ),
    "oversized": lambda issuer: issuer.token(aud=HERE, padding="x" * 9000),
    "nested deeply": lambda issuer: ".".join(
        ["e30", base64.urlsafe_b64encode(b"[" * 5000).decode().rstrip("="), "AAAA"]
    ),
}


async def test_no_deceit_gets_in(tmp_path: Path) -> None:
    async with issuing() as issuer, running(tmp_path, **settings_with_issuer(tmp_path, issuer)) as gateway:
        assert await status(gateway, issuer.token(aud=HERE)) == 200
        seen = {name: await status(gateway, attack(issuer)) for name, attack in ATTACKS.items()}
    assert seen == dict.fromkeys(ATTACKS, 401)


class TakesAnyAlgorithm(Tokens):
    """Behaves like a library that trusts the header's `alg`, and uses the public key for any algorithm."""

    def _allows(self, header: Mapping[str, Any], issuer: Issuer, types: Collection[str]) -> bool:
        return True

    def _decode_claims(self, token: str, key: Key, algorithm: str) -> Mapping[str, Any] | None:
        signed, _, mac = token.rpartition(".")
        if algorithm == "HS256":
            right = hmac.digest(pem(key), signed.encode(), "sha256")
            return json_of(token.split(".")[1]) if mac == base64.urlsafe_b64encode(right).decode().rstrip("=") else None
        if algorithm.lower() == "none":
            return json_of(token.split(".")[1])
        return super()._decode_claims(token, key, algorithm)


class TakesAnySignature(TakesAnyAlgorithm):
    """Does not check signatures."""

    def _decode_claims(self, token: str, key: Key, algorithm: str) -> Mapping[str, Any] | None:
        return json_of(token.split(".")[1])

    def _key(self, header: Mapping[str, Any], keys: IssuerKeys) -> Key | None:
        return keys.find("first")


class TakesKeysAlong(Tokens):
    """Accepts a key from the token's header."""

    def _key(self, header: Mapping[str, Any], keys: IssuerKeys) -> Key | None:
        return RSAKey.import_key(header["jwk"])


class TakesAnyAudience(Tokens):
    """Accepts tokens for other audiences."""

    def _is_for_us(self, audience: Any, issuer: Issuer) -> bool:
        return True


class TakesLikeAudiences(Tokens):
    """Compares only the beginning of the audience."""

    def _is_for_us(self, audience: Any, issuer: Issuer) -> bool:
        return str(audience).startswith(HERE)


UNGUARDED: dict[str, tuple[type[Tokens], float]] = {
    "alg none": (TakesAnyAlgorithm, 0),
    "alg NoNe": (TakesAnyAlgorithm, 0),
    "public key as a secret": (TakesAnyAlgorithm, 0),
    "another's signature": (TakesAnySignature, 0),
    "a key of another kind": (TakesAnySignature, 0),
    "its own key in the header": (TakesKeysAlong, 0),
    "jku": (TakesAnySignature, 0),
    "x5u": (TakesAnySignature, 0),
    "a kid that leads elsewhere": (TakesAnySignature, 0),
    "an ID token": (TakesAnySignature, 0),
    "an unknown critical header": (TakesAnySignature, 0),
    "expired": (Tokens, -120),
    "not valid yet": (Tokens, 290),
    "another audience": (TakesAnyAudience, 0),
    "no audience": (TakesAnyAudience, 0),
    "an audience that begins alike": (TakesLikeAudiences, 0),
}
"""By attack: an authenticator without the guard against it, and the error of its clock in seconds."""


@pytest.mark.parametrize("name", UNGUARDED)
async def test_with_its_guard_removed_the_attack_succeeds(name: str) -> None:
    """Each of these tokens is invalid in only one way, so no other check would refuse it."""
    kind, ahead = UNGUARDED[name]
    async with issuing() as issuer:

        def tokens(kind: type[Tokens], ahead: float) -> Tokens:
            trust = Issuer(issuer=issuer.url)
            return kind([trust], address=HERE, now=lambda: time.time() + ahead, clock=time.monotonic)

        attack = ATTACKS[name](issuer)
        assert isinstance(await tokens(kind, ahead).look_up(attack), Identity)
        assert not isinstance(await tokens(Tokens, 0).look_up(attack), Identity)


async def test_claims_become_agent_groups_and_scopes_in_the_way_that_is_set(tmp_path: Path) -> None:
    claims: dict[str, Any] = {
        "aud": [HERE + "/mcp"],
        "app": {"name": "npc"},
        "realm": {"roles": ["game", 7, "qa"]},
        "scp": "a b",
    }
    async with issuing() as issuer:
        trust = Issuer(issuer=issuer.url, agent_claims=("app.name",), groups_claim="realm.roles")
        tokens = Tokens([trust], address=HERE, now=time.time, clock=time.monotonic)
        identity = await tokens.look_up(issuer.token(**claims))
        assert isinstance(identity, Identity)
        assert (identity.agent, set(identity.groups)) == ("npc", {"game", "qa"})
        assert identity.scopes == {"a", "b"}
        assert identity.principal == f"jwt:{issuer.url}#somebody/npc"
        other = await tokens.look_up(issuer.token(**claims, sub="somebody/npc"))
        assert isinstance(other, Identity)
        assert other.principal != identity.principal


async def test_the_issuer_is_named_in_the_refusal_and_in_the_resource_metadata(tmp_path: Path) -> None:
    async with (
        issuing() as issuer,
        running(
            tmp_path,
            catalog("demo", "http://127.0.0.1:9/mcp", ["x"]),
            **settings_with_issuer(tmp_path, issuer, scopes=("mcp:tools",)),
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        refused = await wire.ask(legacy("initialize").to("/servers/default/demo/mcp"))
        assert refused.status == 401
        document = HERE + "/.well-known/oauth-protected-resource/servers/default/demo/mcp"
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{document}", scope="mcp:tools"'
        for path in ("", "/mcp", "/mcp/fast", "/servers/default/demo/mcp"):
            shown = await wire.ask(Ask(verb="GET", target=f"/.well-known/oauth-protected-resource{path}", body=b""))
            assert shown.status == 200
            assert shown.message == {
                "resource": HERE + path,
                "authorization_servers": [issuer.url],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["mcp:tools"],
                "resource_name": "Fairlead",
            }
        narrow = issuer.token(aud=HERE, scope="mail")
        lacking = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {narrow}"))
        assert lacking.status == 403
        assert 'error="insufficient_scope"' in lacking.headers["www-authenticate"]
        rest = await wire.ask(Ask(verb="GET", target="/v1/tools", headers={"authorization": f"Bearer {narrow}"}))
        assert (rest.status, rest.message["code"]) == (403, "FORBIDDEN")
        assert await status(gateway, issuer.token(aud=HERE, scope="mail mcp:tools")) == 200


@pytest.mark.parametrize("target", ["/mcp", "/v1/tools"])
async def test_a_credential_beside_another_is_refused(tmp_path: Path, target: str) -> None:
    """The gateway would read one of the two headers, and a proxy in front of it the other."""
    verb = "POST" if target == "/mcp" else "GET"
    async with issuing() as issuer, running(tmp_path, **settings_with_issuer(tmp_path, issuer)) as gateway:
        token = issuer.token(aud=HERE)
        async with await Wire.connect(gateway) as wire:
            data = Ask(modern("tools/list").message, modern("tools/list").headers, verb=verb, target=target).data("h")
            head, _, body = data.replace(b"host: h", f"host: {wire.host}".encode()).partition(b"\r\n\r\n")
            both = f"\r\nauthorization: Bearer {token}\r\nAuthorization: Bearer x\r\n\r\n".encode()
            wire.write(head + both + body)
            refused = await wire.answer()
            assert refused.status == 400
            assert 'error="invalid_request"' in refused.headers["www-authenticate"]
            beside = f"\r\nauthorization: Bearer {token}\r\n\r\n".encode()
            wire.write(head + beside + body)
            assert (await wire.answer()).status == 200


async def test_a_good_token_does_not_open_the_door_to_a_web_page_from_elsewhere(tmp_path: Path) -> None:
    async with issuing() as issuer, running(tmp_path, **settings_with_issuer(tmp_path, issuer)) as gateway:
        bearer = {"authorization": f"Bearer {issuer.token(aud=HERE)}"}
        async with await Wire.connect(gateway) as wire:
            for target, ask in {"/mcp": modern("tools/list"), "/v1/tools": Ask(verb="GET", body=b"")}.items():
                bearing = ask.to(target).with_headers(**bearer)
                assert (await wire.ask(bearing.with_headers(host="evil.example"))).status == 421
                assert (await wire.ask(bearing.with_headers(origin="https://evil.example"))).status == 403
                assert (await wire.ask(bearing)).status == 200


async def test_a_clients_credential_is_never_passed_on(tmp_path: Path) -> None:
    async with (
        issuing() as issuer,
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), **settings_with_issuer(tmp_path, issuer)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        token = issuer.token(aud=HERE)
        bearer = {"authorization": f"Bearer {token}"}
        streaming = calling("demo__add", era=LEGACY).with_headers(accept="text/event-stream, application/json")
        for ask in (calling("demo__add"), calling("demo__add", era=LEGACY), streaming):
            assert (await wire.ask(ask.with_headers(**bearer))).status == 200
        message = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "demo__add", "input": {}}]}
        body = {"format": "anthropic", "message": message}
        rest = Ask(body, {"content-type": "application/json", **bearer}, target="/v1/tool-calls")
        assert (await wire.ask(rest)).message["calls"][0]["state"] == "done"
        assert len(server.seen) >= 4
        for request in server.seen:
            assert "authorization" not in request.headers
            assert token not in f"{request.headers}{request.body!r}"
