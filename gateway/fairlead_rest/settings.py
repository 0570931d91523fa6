"""Settings of the REST API, and of the search of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import HttpUrl, Token


class RestSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("rest_")):
    """REST API."""

    processes: Annotated[int, Meta(ge=0, le=64)] = 1
    """Processes for bulk conversions, and as many for counting tokens (80 MB each), at most; started when needed. 0
    does everything in the gateway, and calls wait for it.
    """
    share: Annotated[float, Meta(ge=0.0001, le=1)] = 0.003
    """Part of the event loop's time that conversions may take while tools are called: they wait for their turn then.
    More converts more a second, and calls wait longer.
    """


class ToolSearchSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("embedder_")):
    """Search of tools."""

    embedder: Literal["auto", "built-in", "endpoint", "none"] = field(default="auto", name="embedder")
    """Who makes the vectors that tools are searched by, beside their words: `built-in`, the encoder of the extra
    `search`; `endpoint`, that of `embedder_url`; `none`; or `auto`: the endpoint where there is one, else the encoder
    where it is installed.
    """
    url: HttpUrl = ""
    """Base of an OpenAI-compatible API that has `/embeddings`, such as `http://vllm.models:8000/v1`. It may be where
    servers may be, those of the release's namespace.
    """
    model: str = ""
    """Model that is asked for there."""
    key: Token = ""
    """Bearer token for it."""
    dimensions: Annotated[int, Meta(ge=0, le=16384)] = 0
    """Numbers in a vector, for models that can be cut (Matryoshka); 0: as many as the model makes."""
    instruction: str = ""
    """Task that queries are sent with (`Instruct: …`), for models that were trained so, such as Qwen3's."""
    directory: Path | None = field(default=None, name="search_directory")
    """Folder of a LanceDB that keeps the vectors of tools through a restart, so that none is made again. One gateway
    alone may use it. Needs the extra `lancedb`.
    """
