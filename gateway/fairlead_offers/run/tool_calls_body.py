"""Body of `POST /v1/tool-calls`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_gateway.core.long_results import LEAST_TOKENS, MOST_TOKENS

MAX_AT_ONCE: Final = 128
Retries = Annotated[int, Meta(ge=0, le=5)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
ResultTokens = Annotated[int, Meta(ge=LEAST_TOKENS, le=MOST_TOKENS)]


class CarryBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Kinds of content that the model accepts in results."""

    images: bool = True
    audio: bool = False
    documents: bool = True
    """PDF files."""
    nested_media: bool = False
    """For Gemini 3 and later: whether media are inside the function response, instead of in a message after it."""
    status: bool = True
    """For Bedrock: whether the model reads `toolResult.status`; otherwise errors are stated in the text."""


class ToolCallsBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A model's message with calls, or the whole answer that contains the message, in a named format."""

    format: str
    message: Any = None
    stream: list[Any] | str | None = None
    """Streamed answer instead of `message`: its events, or its whole body."""
    tier: str | None = None
    strategy: Literal["parallel", "sequential"] = "parallel"
    limit: Annotated[int, Meta(ge=1, le=MAX_AT_ONCE)] = MAX_AT_ONCE
    """Maximum number of calls at a time, for `parallel`."""
    timeout_ms: Milliseconds | None = None
    """Timeout of each call. It can only shorten the timeout of the tool."""
    timeouts_ms: dict[str, Milliseconds] = {}
    """Timeouts for individual tools, by the name that the model uses."""
    retries: Retries | None = None
    """Maximum number of attempts after the first for each call, if nothing was sent or the tool is idempotent. Limited
    by the server's setting, which is also the default; for servers without the setting it is 1.
    """
    retries_of: dict[str, Retries] = {}
    """Retries for individual tools, by the name that the model uses."""
    names: dict[str, str] = {}
    """Exposed names or ids of tools, by the name that the model uses. Needed only if the model's name for a tool is not
    the exposed name, the id, or a name that `GET /v1/tools` has returned.
    """
    tools: Any = None
    """Definitions of the caller's tools. If present, a call of an unknown tool is answered with an error; otherwise
    such a call is left to the caller.
    """
    tools_format: str | None = None
    """Format of `tools`; None: the format of the message."""
    carry: CarryBody = CarryBody()
    result_tokens: ResultTokens | None = None
    """Maximum number of tokens of each result. Longer results are cut to their beginning, end and shape; `GET
    /v1/context` reads the rest.
    """
