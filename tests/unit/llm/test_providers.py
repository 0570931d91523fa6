"""The provider that a request's model name selects."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_formats.tokens.routes import read_routes
from fairlead_models.provider_requests import retry_after_seconds
from fairlead_models.providers import InvalidProvider, ModelTarget, Provider, UnknownModel, read_providers

ROUTES = read_routes({"default": {"models": ["gpt-5-mini", "vllm/qwen"]}})
OPENAI = {"baseUrl": "https://api.openai.com/v1", "keyEnv": "OPENAI_API_KEY", "models": ["gpt-*"]}
VLLM = {"baseUrl": "http://vllm.models:8000/v1", "models": ["our-qwen"]}
PROVIDERS = read_providers({"openai": OPENAI, "vllm": VLLM}, ROUTES)


@pytest.mark.parametrize(
    ("wanted", "target"),
    [
        ("gpt-5-mini", ModelTarget("openai", "gpt-5-mini")),
        ("our-qwen", ModelTarget("vllm", "our-qwen")),
        ("vllm/org/other", ModelTarget("vllm", "org/other")),
    ],
)
def test_a_model_resolves_to_the_first_provider_that_lists_it_or_to_the_one_in_its_prefix(
    wanted: str, target: ModelTarget
) -> None:
    assert PROVIDERS.targets(wanted)[1] == [target]


def test_a_route_is_its_models_in_their_order() -> None:
    route, targets = PROVIDERS.targets("fairlead/default")
    assert route is ROUTES["default"]
    assert targets == [ModelTarget("openai", "gpt-5-mini"), ModelTarget("vllm", "qwen")]


@pytest.mark.parametrize("wanted", ["claude", "fairlead/nothing", "org/model", ""])
def test_an_error_about_an_unknown_model_lists_the_providers(wanted: str) -> None:
    with pytest.raises(UnknownModel, match=r"openai, vllm|fairlead/default"):
        PROVIDERS.targets(wanted)


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("fairlead", {}, "is not a valid name"),
        ("Big", {}, "is not a valid name"),
        ("x", {"baseUrl": "ftp://x"}, "baseUrl"),
        ("x", {"baseUrl": "http://user:key@x"}, "baseUrl"),
        ("x", {"keyEnv": "A", "keyFile": "/b"}, "only one of"),
        ("x", {"headers": {"Authorization": "Bearer x"}}, "is not allowed"),
        ("x", {"headers": {"X-Api-Key": "x"}}, "is not allowed"),
        ("x", {"keyEnv": "A", "callerKey": "Require"}, "never used"),
        ("x", {"kind": "cohere"}, "kind"),
        ("x", {"headers": {"x y": "z"}}, "is not allowed"),
        ("x", {"headers": {"x-y": "a\r\nb"}}, "printable"),
        ("x", {"unknown": 1}, "unknown"),
    ],
)
def test_a_provider_that_makes_no_sense_is_refused_with_its_place(name: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidProvider, match=f"providers.*{why}"):
        read_providers({name: {**VLLM, **more}}, ROUTES)


@pytest.mark.parametrize(
    ("kind", "base", "path", "url"),
    [
        ("openai", "https://a/v1", "/chat/completions", "https://a/v1/chat/completions"),
        ("openai", "https://a/v1/", "/chat/completions", "https://a/v1/chat/completions"),
        ("anthropic", "https://a", "/v1/messages", "https://a/v1/messages"),
        ("anthropic", "https://a/v1/", "/v1/messages", "https://a/v1/messages"),
        ("gemini", "https://a/", "/v1beta/models/m:generateContent", "https://a/v1beta/models/m:generateContent"),
        ("gemini", "https://a/v1beta", "/v1beta/models/m:generateContent", "https://a/v1beta/models/m:generateContent"),
        ("gemini", "https://a/v1", "/v1beta/models/m:generateContent", "https://a/v1beta/models/m:generateContent"),
        ("bedrock", "https://a/", "/model/m%3A0/converse", "https://a/model/m%3A0/converse"),
    ],
)
def test_a_version_in_a_base_url_is_not_repeated_in_the_path(kind: Any, base: str, path: str, url: str) -> None:
    assert Provider(base, kind).url(path) == url


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        ("openai", {"authorization": "Bearer secret"}),
        ("anthropic", {"x-api-key": "secret", "anthropic-version": "2023-06-01"}),
        ("gemini", {"x-goog-api-key": "secret"}),
        ("bedrock", {"authorization": "Bearer secret"}),
    ],
)
def test_a_key_goes_out_in_the_header_of_its_api(kind: Any, headers: dict[str, str]) -> None:
    assert Provider("https://a", kind).request_headers("secret") == headers


def test_the_version_of_anthropics_api_is_that_of_the_settings_headers() -> None:
    provider = Provider("https://a", "anthropic", headers={"Anthropic-Version": "2026-10-21"})
    assert provider.request_headers("") == {"anthropic-version": "2026-10-21"}


def test_responses_are_spoken_by_openai_itself_and_by_those_that_say_so() -> None:
    own = Provider("https://api.openai.com/v1")
    assert own.speaks_responses
    assert not Provider("https://api.openai.com/v1", responses=False).speaks_responses
    assert not Provider("http://vllm.models:8000/v1").speaks_responses
    assert Provider("http://vllm.models:8000/v1", responses=True).speaks_responses
    assert not Provider("https://api.anthropic.com", kind="anthropic", responses=True).speaks_responses


def test_betas_of_the_client_and_of_the_settings_add_up() -> None:
    provider = Provider("https://a", "anthropic", headers={"Anthropic-Beta": "two"})
    assert provider.request_headers("", {"anthropic-beta": "one"})["anthropic-beta"] == "one,two"
    assert provider.request_headers("")["anthropic-beta"] == "two"


def test_a_route_over_a_model_that_no_provider_serves_is_refused_with_its_name() -> None:
    routes = read_routes({"good": {"models": ["our-qwen"]}, "bad": {"models": ["our-qwen", "claude-sonnet-5"]}})
    with pytest.raises(InvalidProvider, match="routes: bad: no provider serves a model 'claude-sonnet-5'"):
        read_providers({"vllm": VLLM}, routes)


def test_models_are_listed_by_plain_name_with_the_first_provider_that_serves_each() -> None:
    second = {"baseUrl": "http://b/v1", "models": ["our-qwen", "gpt-5-mini", "ada", "g?t", "[ab]c"]}
    providers = read_providers({"openai": OPENAI, "vllm": VLLM, "second": second}, {})
    assert providers.list_models() == {"our-qwen": "vllm", "gpt-5-mini": "openai", "ada": "second"}


@pytest.mark.parametrize("keyed", [True, False])
def test_a_provider_that_does_not_fit_a_requests_key_is_left_out_of_a_route(keyed: bool) -> None:
    providers = read_providers({"openai": OPENAI, "vllm": {**VLLM, "callerKey": "Require"}}, ROUTES)
    expected = ModelTarget("vllm", "qwen") if keyed else ModelTarget("openai", "gpt-5-mini")
    assert providers.targets("fairlead/default", keyed=keyed)[1] == [expected]


@pytest.mark.parametrize("wanted", ["gpt-" + "a" * 300, "openai/" + "a" * 300, "fairlead/" + "a" * 300])
def test_a_name_over_256_characters_is_not_a_model(wanted: str) -> None:
    with pytest.raises(UnknownModel, match="more than 256 characters"):
        read_providers({"openai": OPENAI}, {}).targets(wanted)


@pytest.mark.parametrize("wanted", ["vllm/../x", "vllm/a/../../b", "vllm/.", "vllm/..", "gpt-5/../../files/f"])
def test_a_name_that_leads_to_another_path_of_the_provider_is_not_a_model(wanted: str) -> None:
    with pytest.raises(UnknownModel, match="not a valid model name"):
        PROVIDERS.targets(wanted)


TOO_LATE = "Fri, 31 Dec 99999 23:59:59 GMT"


@pytest.mark.parametrize("after", ["9" * 30, TOO_LATE, "Fri, 31 Dec 9999 23:59:59 +9999", "-1", "soon", ""])
def test_a_retry_after_that_is_not_a_time_is_ignored(after: str) -> None:
    assert retry_after_seconds({"retry-after": after}) is None
    assert retry_after_seconds({"retry-after-ms": after, "retry-after": "2"}) == 2
