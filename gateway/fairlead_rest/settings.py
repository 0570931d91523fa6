"""Settings of the REST API, and of the search for tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import HttpUrl, Token


class RestSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("rest_")):
    """REST API."""

    processes: Annotated[int, Meta(ge=0, le=64)] = 1
    """Maximum number of processes for bulk conversions, and likewise for counting tokens (80 MB per process). Processes
    are started on demand. With 0, the gateway's own process does this work, which delays calls.
    """
    share: Annotated[float, Meta(ge=0.0001, le=1)] = 0.003
    """Share of the event loop's time that conversions may take while tools are called. A higher share converts more per
    second, and delays calls longer.
    """


class ToolSearchSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("embedder_")):
    """Search for tools."""

    embedder: Literal["auto", "built-in", "endpoint", "none"] = field(default="auto", name="embedder")
    """Source of the vectors by which tools are searched in addition to words: `built-in` (encoder of the extra
    `search`), `endpoint` (API at `embedder_url`) or `none`. `auto` uses the endpoint if `embedder_url` is set, else the
    encoder if it is installed.
    """
    url: HttpUrl = ""
    """Base URL of an OpenAI-compatible API with `/embeddings`, such as `http://vllm.models:8000/v1`. The egress rules
    for servers in the release's namespace apply to this URL.
    """
    model: str = ""
    """Name of the model at the API of `embedder_url`."""
    key: Token = ""
    """Bearer token for the API of `embedder_url`."""
    dimensions: Annotated[int, Meta(ge=0, le=16384)] = 0
    """Dimensions of a vector, for models whose vectors can be truncated (Matryoshka); 0: the model's default."""
    instruction: str = ""
    """Instruction that is sent with queries (`Instruct: …`), for models that were trained with instructions, such as
    Qwen3.
    """
    directory: Path | None = field(default=None, name="search_directory")
    """Folder of a LanceDB in which the vectors of tools are stored, so that they need not be computed again after a
    restart. Only one gateway may use the folder. Needs the extra `lancedb`.
    """
