"""A folder in `fairlead_formats/providers` is a provider format, from which everything else is derived."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import fairlead_formats
from fairlead_formats.messages.base import MessageFormat
from fairlead_formats.registry import PROVIDER_FORMATS
from fairlead_formats.tokens import models

SOURCES = Path(fairlead_formats.__file__).parent
FILES = sorted((SOURCES / "providers").glob("*/tools.py"))

ACME = """
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.anthropic.tools import AnthropicMessages
from fairlead_formats.schema import rules
from fairlead_formats.tools.definitions import Envelope, ProviderTool, ToolFormat, FormatLimits
from fairlead_formats.tools.envelopes import tools_request, rename_tool, tools_of

FORMATS = (
    ProviderFormat(
        tools=ToolFormat(
            "acme-turbo",
            "Acme Turbo",
            ("acme",),
            Envelope(
                lambda parts: {"name": "", "takes": parts.schema},
                rename_tool,
                lambda tool: ProviderTool(tool["name"], schema=tool["takes"]),
                tools_request,
                tools_of,
            ),
            lambda options: (rules.OPENAI, None),
            FormatLimits(max_tools=2),
        ),
        messages=AnthropicMessages(),
        token_growth=2000,
        families=("llama",),
    ),
)
"""
USE = """
import json, sys
import fairlead_formats.providers
fairlead_formats.providers.__path__.append(sys.argv[1])
from fairlead_cli.models.converting import run_convert
from fairlead_formats.tool_format import Options
from fairlead_cli.output import Output
from fairlead_formats.registry import find, message_format
from fairlead_formats.tokens.fit import RouteModel
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.tokens.routes import format_for, models_for

run_convert(sys.argv[2], "mcp", "Acme", Options(), Output.json)
(model,) = models_for(["llama-4"], ContextWindows({}), {"acme-turbo": find("acme").max_tools})
call = {"content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]}
print(json.dumps({
    "calls": [made.name for made in message_format("acme_turbo").parse_calls(call)],
    "route": format_for("llama-4"),
    "max_tools": model.max_tools,
}))
"""


def test_every_folder_of_providers_declares_tools_messages_and_cost() -> None:
    declared: list[object] = [provided.messages for provided in PROVIDER_FORMATS.values()]

    assert all(isinstance(messages, MessageFormat) for messages in declared)
    assert all(re.search(r"^FORMATS: Final = \(", file.read_text(), re.MULTILINE) for file in FILES)
    assert all(provided.token_growth >= 1000 for provided in PROVIDER_FORMATS.values())
    families_known = {family.name for _, family in models._BY_NAME}
    assert {name for provided in PROVIDER_FORMATS.values() for name in provided.families} <= families_known


def test_no_other_source_of_the_package_lists_formats() -> None:
    names = "|".join(name for name in PROVIDER_FORMATS if "-" in name)
    others = [file for file in SOURCES.rglob("*.py") if file not in FILES]

    assert [str(file) for file in others if re.search(rf"\"({names})\"", file.read_text())] == []


def test_a_new_folder_is_a_format_of_commands_messages_and_routes(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "a", "inputSchema": {"type": "object", "properties": {}}}]')
    folder = tmp_path / "more"
    (folder / "acme").mkdir(parents=True)
    (folder / "acme" / "__init__.py").write_text("")
    (folder / "acme" / "tools.py").write_text(ACME)
    command = [sys.executable, "-c", USE, str(folder), str(tools)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    converted, called = done.stdout.rsplit("\n", 2)[:2]
    assert json.loads(converted)["tools"] == [{"name": "a", "takes": {"type": "object", "properties": {}}}]
    assert json.loads(called) == {"calls": ["a"], "route": "acme-turbo", "max_tools": 2}
