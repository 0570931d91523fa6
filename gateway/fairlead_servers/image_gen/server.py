"""Server `image-gen`: `generate_image(prompt, style)`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from mcp.server import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import BaseModel, Field

from fairlead_mcp.limited_process import WorkFailed
from fairlead_servers.definition import ServerSettings, SettingError, ToolServer
from fairlead_servers.image_gen.endpoint import EndpointFailed, ImagesEndpoint
from fairlead_servers.limited_process import ProcessSlots, SlotsTaken
from fairlead_servers.tool import LatencyDeclaration, ToolError, tool, writing_annotations
from fairlead_tools.version import VERSION

MARGIN_MS: Final = 10_000
"""Milliseconds by which a call's timeout exceeds the timeout of its picture (`timeout_s`)."""
NOTE: Final = "drawn locally from the prompt, without a model, because no images endpoint is configured"


_DRAWING: Final = "fairlead_servers.image_gen.drawing"
"""Module that runs in the drawing process."""


class ImageSettings(ServerSettings):
    """Settings of image-gen."""

    endpoint: Annotated[
        str | None,
        Field(
            description="Base URL of an OpenAI-compatible API, such as https://api.example.com/v1. If it is not set, "
            "the server draws simple pictures itself."
        ),
    ] = None
    key: Annotated[str | None, Field(description="API key; pass it in the environment.")] = None
    model: Annotated[str | None, Field(description="Model of the endpoint.")] = None
    size: Annotated[
        str,
        Field(
            description="Width and height in pixels; without an endpoint, each from 64 to 2048.",
            pattern=r"^[0-9]{2,4}x[0-9]{2,4}$",
        ),
    ] = "1024x1024"
    timeout_s: Annotated[float, Field(description="Timeout of one picture in seconds.", gt=0, le=600)] = 120.0


class Generated(BaseModel):
    """Metadata of a picture; the picture itself is in the content of the result."""

    prompt: str
    style: str
    source: Literal["endpoint", "drawn"]
    media_type: str
    bytes: int
    note: str | None = None


class ImageTool:
    """Tool of the server."""

    def __init__(self, settings: ImageSettings, endpoint: ImagesEndpoint | None) -> None:
        width, height = map(int, settings.size.split("x"))
        self._size = (_clamp(width), _clamp(height))
        self._endpoint = endpoint
        self._timeout_s = settings.timeout_s
        self._slots = ProcessSlots(settings.timeout_s)

    async def generate_image(
        self,
        prompt: Annotated[str, Field(description="What the picture shows", min_length=1, max_length=4000)],
        style: Annotated[
            str, Field(description="Style, for example ink, watercolor, oil, sketch or night", max_length=100)
        ] = "ink",
    ) -> Annotated[CallToolResult, Generated]:
        """Make a picture from words. If no images endpoint is configured, the server draws a simple picture with the
        words instead, and the result says so.
        """
        if self._endpoint is None:
            picture, kind = await self._draw(prompt, style), "image/png"
        else:
            try:
                picture, kind = await self._endpoint.picture(f"{prompt}\n\nStyle: {style}" if style else prompt)
            except EndpointFailed as error:
                raise ToolError(f"{error}.") from error
        source: Literal["endpoint", "drawn"] = "drawn" if self._endpoint is None else "endpoint"
        metadata = Generated(
            prompt=prompt,
            style=style,
            source=source,
            media_type=kind,
            bytes=len(picture),
            note=NOTE if self._endpoint is None else None,
        )
        return CallToolResult(
            content=[
                TextContent(type="text", text=metadata.model_dump_json(indent=2)),
                ImageContent(type="image", data=base64.b64encode(picture).decode(), mime_type=kind),
            ],
            structured_content=metadata.model_dump(),
        )

    async def _draw(self, prompt: str, style: str) -> bytes:
        """Draw a picture as PNG. Raises ToolError."""
        arguments = json.dumps([prompt, style, *self._size]).encode()
        try:
            async with self._slots.slot() as slot:
                return await slot.run(_DRAWING, [arguments], self._timeout_s)
        except (SlotsTaken, WorkFailed) as error:
            reason = f"drawing it {error}" if isinstance(error, WorkFailed) else str(error)
            raise ToolError(f"the picture was not drawn: {reason}.") from error


def _clamp(pixels: int) -> int:
    return max(64, min(2048, pixels))


def open_server(folder: Path, settings: ImageSettings) -> MCPServer[Any]:
    """Open the server, with an images endpoint or with local drawing. Raises SettingError."""
    endpoint = None
    if settings.endpoint is not None:
        try:
            endpoint = ImagesEndpoint(
                settings.endpoint, settings.key, settings.model, settings.size, settings.timeout_s
            )
        except ValueError as error:
            raise SettingError(f"endpoint is {settings.endpoint!r}, which is not the URL of an API") from error
    images = ImageTool(settings, endpoint)
    return MCPServer(
        "image-gen",
        instructions="Makes pictures. A call takes several seconds, so tell the user before you call generate_image.",
        tools=[
            tool(
                images.generate_image,
                writing_annotations(open_world=endpoint is not None),
                "Make a picture",
                LatencyDeclaration(3000, round(settings.timeout_s * 1000) + MARGIN_MS, "deep"),
            )
        ],
        version=VERSION,
        log_level="WARNING",
    )


SERVER: Final = ToolServer(ImageSettings, open_server)
