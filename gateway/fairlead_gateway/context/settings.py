"""Settings of kept results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import LONGEST_SECONDS, HttpUrl, Token


class CompressorSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("compressor_")):
    """Compressor of kept results."""

    url: HttpUrl = ""
    """Base of an OpenAI-compatible API that has `/chat/completions`, which compresses what `retrieve_context` answers.
    It may be where servers may be. Without it passages are picked word for word.
    """
    model: str = ""
    """Model that is asked for there."""
    key: Token = ""
    """Bearer token for it."""
    seconds: Annotated[float, Meta(gt=0, le=120)] = 10.0
    """Seconds for one answer with all attempts; after that passages are picked word for word."""


class ResultSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("context_")):
    """Kept results."""

    seconds: Annotated[float, Meta(ge=1, le=LONGEST_SECONDS)] = 3600.0
    """How long results of `execute_tool` are kept for `retrieve_context`, from the last one of their session on."""
    bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """Bytes of all kept results, in Redis or in the folder where there is one, else in each replica; 0 keeps none."""
    bytes_each: Annotated[int, Meta(ge=0)] = 4 << 20
    """Bytes of one principal's kept results, or of one session of an anonymous caller; its oldest go first."""
    directory: Path | None = None
    """Folder that keeps results through a restart, in place of memory or Redis; gateways of a machine may share it."""
    router_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = field(default=2000, name="router_result_tokens")
    """Tokens of a result at `/router/mcp` where neither tool, policy nor request says another number; 0 for any."""
    compressor: CompressorSettings = CompressorSettings()
