"""Which provider a request's model means."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_formats.tokens.routes import read_routes
from fairlead_llm.providers import InvalidProvider, ModelTarget, UnknownModel, read_providers

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
def test_a_model_goes_to_the_first_provider_that_names_it_or_to_the_one_in_front_of_it(
    wanted: str, target: ModelTarget
) -> None:
    assert PROVIDERS.targets(wanted)[1] == [target]


def test_a_route_is_its_models_in_their_order() -> None:
    route, targets = PROVIDERS.targets("fairlead/default")
    assert route is ROUTES["default"]
    assert targets == [ModelTarget("openai", "gpt-5-mini"), ModelTarget("vllm", "qwen")]


@pytest.mark.parametrize("wanted", ["claude", "fairlead/nothing", "org/model", ""])
def test_a_model_that_nobody_serves_is_told_with_what_there_is(wanted: str) -> None:
    with pytest.raises(UnknownModel, match=r"openai, vllm|fairlead/default"):
        PROVIDERS.targets(wanted)


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("fairlead", {}, "is no name"),
        ("Big", {}, "is no name"),
        ("x", {"baseUrl": "ftp://x"}, "baseUrl"),
        ("x", {"baseUrl": "http://user:key@x"}, "baseUrl"),
        ("x", {"keyEnv": "A", "keyFile": "/b"}, "either"),
        ("x", {"headers": {"Authorization": "Bearer x"}}, "cannot be set"),
        ("x", {"headers": {"x y": "z"}}, "cannot be set"),
        ("x", {"headers": {"x-y": "a\r\nb"}}, "printable"),
        ("x", {"unknown": 1}, "unknown"),
    ],
)
def test_a_provider_that_makes_no_sense_is_refused_with_its_place(name: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidProvider, match=f"providers.*{why}"):
        read_providers({name: {**VLLM, **more}}, ROUTES)
