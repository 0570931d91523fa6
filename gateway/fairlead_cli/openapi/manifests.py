"""Reading of the McpServer that an OpenAPI document is checked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairlead_cli.failure import USAGE_ERROR, Failure

if TYPE_CHECKING:
    from fairlead_api.v1alpha1.mcpserver.openapi import OpenApiSource


def read_api(manifest: Path) -> OpenApiSource:
    """The member `openapi` of the only McpServer of a manifest that has one. Raises Failure."""
    from fairlead_api.load import load_paths
    from fairlead_api.v1alpha1.mcpserver import McpServer

    loaded = load_paths([manifest])
    for problem in loaded.problems:
        if not problem.is_note:
            raise Failure(str(problem), code=USAGE_ERROR)
    apis = [server.spec.openapi for server in loaded.of_kind(McpServer) if server.spec.openapi is not None]
    if len(apis) != 1:
        raise Failure(f"{manifest} has {len(apis)} McpServers with openapi: name a file with one", code=USAGE_ERROR)
    return apis[0]
