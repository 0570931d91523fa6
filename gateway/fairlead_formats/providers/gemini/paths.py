"""Paths of Gemini's API: `/v1beta/models/MODEL:METHOD`; newer clients send `/v1/…`. Pure module."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import msgspec

GENERATE: Final = "generateContent"
STREAM: Final = "streamGenerateContent"
COUNT: Final = "countTokens"
METHODS: Final = (GENERATE, STREAM, COUNT)
_PATH: Final = re.compile(r"/v1(?:beta)?/models/(?P<model>.+):(?P<method>[A-Za-z]+)")
_RESOURCES: Final = ("models/", "tunedModels/")


class GeminiPath(msgspec.Struct, frozen=True):
    """Model and method in a path."""

    model: str
    method: str


def read_path(path: str) -> GeminiPath | None:
    """Model and method of a decoded path, where the model may contain slashes; None for any other path."""
    match = _PATH.fullmatch(path)
    return None if match is None else GeminiPath(match["model"], match["method"])


def resource_of(model: str) -> str:
    """Resource name of a model, such as `models/gemini-2.5-pro`."""
    return model if model.startswith(_RESOURCES) else f"models/{model}"


def path_of(model: str, method: str) -> str:
    """Path of a method, relative to the base URL of the provider's API. The path of `STREAM` asks for server-sent
    events.
    """
    return f"/v1beta/{quote(resource_of(model))}:{method}" + ("?alt=sse" if method == STREAM else "")
