"""Paths of Gemini's API: `/v1beta/models/MODEL:METHOD`, in newer clients `/v1/models/MODEL:METHOD`. Pure module."""

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
    """Model and method of a path."""

    model: str
    method: str


def read_path(path: str) -> GeminiPath | None:
    """The model, which may have slashes, and the method of a decoded path; None for any other path."""
    match = _PATH.fullmatch(path)
    return None if match is None else GeminiPath(match["model"], match["method"])


def resource_of(model: str) -> str:
    """Name of a model as a resource."""
    return model if model.startswith(_RESOURCES) else f"models/{model}"


def path_of(model: str, method: str) -> str:
    """Path of a method below the base of the provider's API; streams as server-sent events."""
    return f"/v1beta/{quote(resource_of(model))}:{method}" + ("?alt=sse" if method == STREAM else "")
