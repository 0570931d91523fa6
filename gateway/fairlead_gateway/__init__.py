"""The gateway: serves the tools of a catalog to MCP clients and forwards their calls to servers.

It reads the documents that the operator publishes, not the Kubernetes resources. It does not depend on the operator:
while the source of documents cannot be reached, it serves the last catalog.

Authors of custom tools need only `from fairlead_gateway import tool`; see docs/configure/custom-tools.md.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead_client import AsyncToolRegistry as AsyncToolRegistry
    from fairlead_client import Request as Request
    from fairlead_client import Retry as Retry
    from fairlead_client import Server as Server
    from fairlead_client import ToolRegistry as ToolRegistry
    from fairlead_client import parallel_with_limit as parallel_with_limit
    from fairlead_tools.handlers.context import Context as Context
    from fairlead_tools.handlers.tool import CustomTool as CustomTool
    from fairlead_tools.handlers.tool import tool as tool
    from fairlead_tools.handlers.tools import CustomTools as CustomTools

_EXPORTS: Final = MappingProxyType(
    {
        "Context": "fairlead_tools.handlers.context",
        "CustomTool": "fairlead_tools.handlers.tool",
        "CustomTools": "fairlead_tools.handlers.tools",
        "tool": "fairlead_tools.handlers.tool",
    }
)
"""Modules of exported names. They are imported at the first use, so that a program loads only the parts that it uses.
"""
_MOVED: Final = frozenset({"AsyncToolRegistry", "Request", "Retry", "Server", "ToolRegistry", "parallel_with_limit"})
"""Names that were moved to `fairlead_client`; importing them from here warns."""


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        from fairlead_gateway.toolregistry import import_moved

        return import_moved(name, __name__)
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or __name__).startswith(__name__):
            raise
        from fairlead_api.extras import install_command

        raise ImportError(f"{name} needs the package {error.name}: {install_command('gateway')}") from error
