"""Routes of a configuration, and the models that a plan gets from them."""

from __future__ import annotations

import pytest

from fairlead_formats.registry import UnknownFormat
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.tokens.routes import InvalidRoute, PlanLimits, models_for, read_routes


def test_a_route_becomes_models_in_the_formats_that_they_are_served_with() -> None:
    document = {
        "default": {
            "models": [
                "gpt-5-mini",
                "claude-sonnet-5",
                {"model": "gemini-3.8-flash"},
                {"model": "x", "format": "Bedrock"},
            ],
            "maxTools": 40,
            "reservedOutputTokens": 8000,
        }
    }
    route = read_routes(document)["default"]
    models = models_for(route.models, ContextWindows({"x": 5000}), {"openai-chat": 128})
    assert [(model.name, model.format, model.max_tools) for model in models] == [
        ("gpt-5-mini", "openai-chat", 128),
        ("claude-sonnet-5", "anthropic", None),
        ("gemini-3.8-flash", "gemini", None),
        ("x", "bedrock-converse", None),
    ]
    assert [model.window.source for model in models] == ["file", "file", "file", "configured"]
    assert route.limits == PlanLimits(40, None, 8000)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "routes: must be an object, not a list"),
        ({"a": {"models": []}}, "a lists no model; name at least one"),
        ({"a": {}}, "routes: a.models: is missing"),
        ({"a": {"models": ["m"]}, "b": 5}, "routes: b: must be an object, not an integer"),
        ({"a": {"models": ["m"], "maxTool": 3}}, "routes: a.maxTool: is unknown"),
        ({"a": {"models": [{"name": "m"}]}}, "models"),
    ],
)
def test_a_route_that_cannot_be_read_is_named(document: object, sentence: str) -> None:
    with pytest.raises(InvalidRoute, match="routes: ") as caught:
        read_routes(document)
    assert sentence in str(caught.value)


def test_an_unknown_format_is_refused_when_the_configuration_is_read() -> None:
    with pytest.raises(UnknownFormat, match="'cobol' is not a format"):
        read_routes({"a": {"models": [{"model": "m", "format": "cobol"}]}})
