"""Reads the McpServer for which an OpenAPI document is checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairlead_cli.failure import USAGE_ERROR, Failure

if TYPE_CHECKING:
    from fairlead_api.v1alpha1.mcpserver.openapi import OpenApiSource


def read_api(manifest: Path) -> OpenApiSource:
    """Member `openapi` of the McpServer in a manifest. Raises Failure unless exactly one McpServer has this member."""
    from fairlead_api.load import load_paths
    from fairlead_api.v1alpha1.mcpserver import McpServer

    loaded = load_paths([manifest])
    for problem in loaded.problems:
        if not problem.is_note:
            raise Failure(str(problem), code=USAGE_ERROR)
    apis = [server.spec.openapi for server in loaded.of_kind(McpServer) if server.spec.openapi is not None]
    if len(apis) != 1:
        raise Failure(
            f"{manifest} has {len(apis)} McpServers with openapi: give a file with exactly one", code=USAGE_ERROR
        )
    return apis[0]
