"""References of a server, resolved by the same rules as in a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.catalog import Credential
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.local.inventory import Contents, DeclaredSecret, DeclaredServer
from fairlead_operator.local.references import inherited_environment, resolve

LABELS = {"fairlead.dev/credential": "true"}
BEARER = {"url": "https://tools.example.com/mcp", "auth": {"bearer": {"secretRef": {"name": "s"}}}}


def declare(spec: dict[str, Any], credential: Credential | None = None) -> DeclaredServer:
    server = McpServer.model_validate({"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
    return DeclaredServer(server, credential or Credential())


def contents(*secrets: DeclaredSecret, maps: tuple[DeclaredSecret, ...] = ()) -> Contents:
    return Contents(
        secrets={(secret.namespace, secret.name): secret for secret in secrets},
        config_maps={(secret.namespace, secret.name): secret for secret in maps},
    )


def secret(data: dict[str, str], *, labels: dict[str, str] = LABELS, hosts: str | None = None) -> DeclaredSecret:
    annotations = {} if hosts is None else {"fairlead.dev/hosts": hosts}
    return DeclaredSecret("default", "s", data, labels, annotations)


def sent_headers(spec: dict[str, Any], store: Contents) -> dict[str, str]:
    value = resolve(declare(spec), store).value
    assert value is not None
    return value.headers


def test_a_server_without_references_needs_nothing() -> None:
    resolved = resolve(declare({"command": ["x"]}), contents())
    verdict, credential = resolved.verdict, resolved.value
    assert verdict.ok
    assert credential == Credential()


def test_a_token_goes_out_as_a_bearer_or_in_the_header_that_is_named() -> None:
    store = contents(secret({"token": "t0p\n"}, hosts="tools.example.com"))
    assert sent_headers(BEARER, store) == {"Authorization": "Bearer t0p"}
    header = {"url": BEARER["url"], "auth": {"header": {"name": "X-Key", "secretRef": {"name": "s"}}}}
    assert sent_headers(header, store) == {"X-Key": "t0p"}


@pytest.mark.parametrize(
    ("store", "reason", "words"),
    [
        (contents(), "SecretNotFound", "no manifest declares a Secret with the name s"),
        (contents(secret({"token": "x"}, labels={})), "SecretNotLabelled", "fairlead.dev/credential"),
        (contents(secret({"token": "x"}, hosts="other.example.com")), "HostNotAllowed", "tools.example.com"),
        (contents(secret({"other": "x"})), "SecretKeyMissing", "no value under token"),
        (contents(secret({"token": "  "})), "SecretKeyMissing", "no value under token"),
        (contents(secret({"token": "a\nb"})), "SecretValueInvalid", "cannot be sent"),
    ],
)
def test_a_reference_that_may_not_be_used_is_refused(store: Contents, reason: str, words: str) -> None:
    resolved = resolve(declare(BEARER), store)
    verdict, credential = resolved.verdict, resolved.value
    assert (verdict.ok, verdict.cause) == (False, reason)
    assert words in verdict.message
    assert credential == Credential()


def test_the_environment_comes_from_values_secrets_and_config_maps() -> None:
    spec = {
        "command": ["x"],
        "envFrom": [{"secretRef": {"name": "s"}, "prefix": "P_"}, {"configMapRef": {"name": "none", "optional": True}}],
        "env": [
            {"name": "PLAIN", "value": "1"},
            {"name": "EMPTY"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no", "optional": True}}},
        ],
    }
    own = Credential(env={"PLAIN": "2"})
    maps = (DeclaredSecret("default", "m", {"k": "v"}),)
    resolved = resolve(declare(spec, own), contents(secret({"token": "t"}, labels={}), maps=maps))
    verdict, credential = resolved.verdict, resolved.value
    assert verdict.ok
    assert credential is not None
    assert credential.env == {"P_token": "t", "PLAIN": "2", "EMPTY": "", "KEY": "t", "MAP": "v"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"secretKeyRef": {"name": "none", "key": "k"}}, "SecretNotFound"),
        ({"configMapKeyRef": {"name": "s", "key": "k"}}, "SecretNotFound"),
        ({"secretKeyRef": {"name": "s", "key": "none"}}, "SecretKeyMissing"),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "NotSupportedHere"),
    ],
)
def test_a_variable_without_a_value_is_refused(source: dict[str, Any], reason: str) -> None:
    spec = {"command": ["x"], "env": [{"name": "A", "valueFrom": source}]}
    assert resolve(declare(spec), contents(secret({"token": "t"}))).verdict.cause == reason


def test_a_process_gets_of_our_environment_what_reaches_the_network_and_no_more() -> None:
    ours = {
        "HTTPS_PROXY": "p",
        "no_proxy": "n",
        "SSL_CERT_FILE": "c",
        "AWS_SECRET_ACCESS_KEY": "no",
        "UV_INDEX_URL": "u",
        "NPM_CONFIG_REGISTRY": "r",
        "npm_config_cache": "k",
    }
    network = {"HTTPS_PROXY": "p", "no_proxy": "n", "SSL_CERT_FILE": "c"}
    assert inherited_environment(declare({"command": ["server"]}), ours) == network
    assert inherited_environment(declare({"command": ["/usr/bin/uvx"]}), ours) == {**network, "UV_INDEX_URL": "u"}
    npm = {"NPM_CONFIG_REGISTRY": "r", "npm_config_cache": "k"}
    assert inherited_environment(declare({"command": ["npx", "-y", "x"]}), ours) == {**network, **npm}
    assert inherited_environment(declare({"command": ["docker", "run", "x"]}), {**ours, "DOCKER_HOST": "d"}) == {
        **network,
        "DOCKER_HOST": "d",
    }
    package = {"registry": "npm", "name": "x", "version": "1"}
    assert inherited_environment(declare({"package": package}), ours) == network
    assert inherited_environment(declare({"url": "http://x/mcp"}), ours) == {}


def test_a_person_who_consents_calls_with_a_client_and_lists_with_the_first_grant() -> None:
    client = {
        "issuer": "https://login.example.com",
        "clientID": "fairlead",
        "secretRef": {"name": "s", "key": "client"},
    }
    spec = {"url": BEARER["url"], "auth": {"userConsent": client}}

    resolved = resolve(declare(spec), contents(secret({"client": "c"})))

    assert resolved.value == Credential(client_secret="c")
    assert resolved.operator_credential.value is None
    assert resolved.oauth is not None
    assert resolved.oauth.first_grant


def test_lists_have_a_credential_of_their_own_where_calls_go_as_a_person() -> None:
    client = {
        "issuer": "https://login.example.com",
        "clientID": "fairlead",
        "secretRef": {"name": "s", "key": "client"},
    }
    lists = {"header": {"name": "X-Key", "secretRef": {"name": "s", "key": "lists"}}}
    spec = {"url": BEARER["url"], "auth": {"tokenExchange": client}, "discovery": {"auth": lists}}

    resolved = resolve(declare(spec), contents(secret({"client": "c", "lists": "l"})))

    assert resolved.value == Credential(client_secret="c")
    assert resolved.operator_credential.value == Credential(headers={"X-Key": "l"})
    assert resolved.oauth is not None


def test_a_key_of_each_person_is_in_no_credential_and_lists_with_the_first_one() -> None:
    spec = {"url": BEARER["url"], "auth": {"userKey": {"header": {"name": "X-Key"}}}}

    resolved = resolve(declare(spec), contents())

    assert resolved.value == Credential()
    assert resolved.operator_credential.value is None
    assert resolved.oauth is not None
    assert resolved.oauth.first_grant
    assert resolved.oauth.user_key is not None
    assert resolved.oauth.user_key.header == "X-Key"


def test_a_process_is_listed_with_a_configured_value_in_the_place_of_a_persons_key() -> None:
    spec = {
        "command": ["server"],
        "session": "PerClient",
        "env": [{"name": "DESK_KEY", "value": "of lists"}],
        "auth": {"userKey": {"env": "DESK_KEY"}},
    }

    resolved = resolve(declare(spec), contents())

    assert resolved.value == resolved.operator_credential.value == Credential(env={"DESK_KEY": "of lists"})
    assert resolved.oauth is not None
    assert not resolved.oauth.first_grant
