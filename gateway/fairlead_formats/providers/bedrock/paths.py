"""Paths of Bedrock's runtime API, such as `/model/MODEL/converse`. Pure module."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import msgspec

CONVERSE: Final = "converse"
STREAM: Final = "converse-stream"
COUNT: Final = "count-tokens"
METHODS: Final = (CONVERSE, STREAM, COUNT)
_PATH: Final = re.compile(rf"/model/(?P<model>.+)/(?P<method>{'|'.join(METHODS)})")


class BedrockPath(msgspec.Struct, frozen=True):
    """Model and method in a path."""

    model: str
    method: str


def read_path(path: str) -> BedrockPath | None:
    """Model and method of a decoded path, where the model may be an ARN with slashes; None for any other path."""
    match = _PATH.fullmatch(path)
    return None if match is None else BedrockPath(match["model"], match["method"])


def path_of(model: str, method: str) -> str:
    """Path of a method, relative to the base URL of the provider's API."""
    return f"/model/{quote(model, safe='')}/{method}"
