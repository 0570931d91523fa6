"""Settings of stored tool results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import LONGEST_SECONDS, HttpUrl, Token


class CompressorSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("compressor_")):
    """Compressor of stored results."""

    url: HttpUrl = ""
    """Base URL of an OpenAI-compatible API with `/chat/completions` that compresses the results of `retrieve_context`.
    The rules about addresses of servers also apply to this URL. If unset, passages are selected verbatim.
    """
    model: str = ""
    """Name of the model at the API of `compressor_url`."""
    key: Token = ""
    """Bearer token for the API of `compressor_url`."""
    seconds: Annotated[float, Meta(gt=0, le=120)] = 10.0
    """Timeout in seconds for compressing one result, including retries. After it, passages are selected verbatim."""


class ResultSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("context_")):
    """Stored results."""

    seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = 3600.0
    """Time for which results of `execute_tool` are stored for `retrieve_context`, in seconds after the last result of
    their session."""
    bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """Maximum number of bytes of all stored results: in total in Redis or in the folder, otherwise per replica. 0
    stores no results."""
    bytes_each: Annotated[int, Meta(ge=0)] = 4 << 20
    """Maximum number of bytes of stored results per principal, or per session of an anonymous caller; the oldest
    results are deleted first.
    """
    directory: Path | None = None
    """Folder that stores results across restarts, instead of memory or Redis; gateways of one machine may share it."""
    router_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = field(default=2000, name="router_result_tokens")
    """Maximum number of tokens of a result at `/router/mcp` if neither tool, policy nor request sets a limit; 0 for no
    limit."""
    compressor: CompressorSettings = CompressorSettings()
