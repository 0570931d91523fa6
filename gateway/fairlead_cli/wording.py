"""Sentences that several commands print, and commands within sentences that are ready to paste."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final
from urllib.parse import urlsplit

from fairlead_formats import names
from fairlead_tools.commands import add_url

_CREDENTIAL: Final = "Give a credential with --token, or FAIRLEAD_TOKEN in the environment."
_OTHER_CREDENTIAL: Final = "Give another credential with --token, or FAIRLEAD_TOKEN in the environment."
_TOOLS: Final = "`fairlead tools` lists the tools."
DEFAULT_PORT: Final = 8080
"""Port of `fairlead up` without --port."""
NAMED_URL: ContextVar[str] = ContextVar("NAMED_URL", default="")
"""URL of the gateway that `--url` named, which is added to the commands in hints. Empty if hints need no `--url`."""


def ready_to_paste(text: str) -> str:
    """The text with its `fairlead` commands directed at the gateway of this command."""
    return add_url(text, NAMED_URL.get())


def up_command(url: str) -> str:
    """Command that starts a gateway at `url`, a URL of this machine."""
    port = urlsplit(url).port
    return "`fairlead up`" if port in (None, DEFAULT_PORT) else f"`fairlead up --port {port}`"


def has_credential(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers has a credential."""
    return any(name.lower() == "authorization" for name in headers)


def credential_advice(headers: Mapping[str, str]) -> str:
    """Advice about a request with these headers whose credential is missing, or is rejected."""
    return _OTHER_CREDENTIAL if has_credential(headers) else _CREDENTIAL


def start_advice(url: str, *, may_be_named: bool = True) -> str:
    """Advice about a gateway that cannot be reached: how to start one at `url`, if that is on this machine."""
    from fairlead_cli.proxies import is_this_machine  # loads fairlead_mcp, which most commands do not need

    if not is_this_machine(urlsplit(url).hostname or ""):
        return f"Is a gateway running there?{' Name another with --url.' * may_be_named}"
    return f"Is a gateway running there? Start one with {up_command(url)}{', or name it with --url' * may_be_named}."


def unknown_tool(name: str, similar_name: str | None) -> str:
    """Sentence about a tool that does not exist, with a similar name and the command that lists the tools."""
    return with_advice(names.unknown_tool(name, similar_name), _TOOLS)


def with_tools_hint(problem: str) -> str:
    """The gateway's sentence about an unknown tool, with the command that lists the tools."""
    return with_advice(problem, _TOOLS)


def with_advice(sentence: str, advice: str) -> str:
    """Join a sentence and advice."""
    return f"{sentence}{'' if sentence.endswith(('.', '?', '!')) else '.'} {advice}"
