"""The package works in a process without the gateway's packages, and does no I/O."""

from __future__ import annotations

import json
import subprocess
import sys

ALONE = """
import importlib, json, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first in OTHERS or first == "fairlead_mcp" and name not in WIRE:
            raise ModuleNotFoundError(f"blocked: {name}", name=name)

OTHERS = {"fairlead_api", "fairlead_cli", "fairlead_client", "fairlead_gateway", "fairlead_kube", "fairlead_operator",
          "fairlead_rest", "fairlead_tools", "aiohttp", "fastapi", "jsonschema_rs", "kubernetes", "pydantic", "uvicorn"}
WIRE = {"fairlead_mcp", "fairlead_mcp.errors", "fairlead_mcp.misread_values", "fairlead_mcp.schemas",
        "fairlead_mcp.sse", "fairlead_mcp.sse_event", "fairlead_mcp.surrogates"}
sys.meta_path.insert(0, Blocked())

import fairlead_formats
modules = [module.name for module in pkgutil.walk_packages(fairlead_formats.__path__, "fairlead_formats.")]
for module in modules:
    importlib.import_module(module)

from fairlead_formats.translate import translate_message
from fairlead_formats.registry import find
from fairlead_formats.tokens.counting import best_counter
from fairlead_formats.tools.between import between

tool = {"name": "get_stock", "description": "Stock.", "inputSchema": {"type": "object", "properties": {}}}
call = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "get_stock", "input": {"sku": "A"}}]}
print(json.dumps({
    "modules": len(modules),
    "tool": between([tool], find("mcp"), find("anthropic")).tools,
    "call": translate_message(call, "anthropic", "gemini").messages[0]["parts"],
    "tokens": best_counter().count("get stock"),
    "others": sorted(name for name in sys.modules if name.partition(".")[0] in OTHERS),
}))
"""


def test_every_module_is_imported_and_used_where_the_gateway_cannot_be() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report.pop("modules") > 50
    assert report == {
        "tool": [{"name": "get_stock", "description": "Stock.", "input_schema": {"type": "object", "properties": {}}}],
        "call": [{"functionCall": {"id": "1", "name": "get_stock", "args": {"sku": "A"}}}],
        "tokens": 2,
        "others": [],
    }
