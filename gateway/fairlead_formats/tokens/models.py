"""Context windows of models, and factors for their tokenizers, by model name.

Pure module, except that the windows that ship with the package are read once from `models.json`, which has a date. A
window is looked up in the installation's configuration, then in a server's answer to `/v1/models` (passed as data),
then in the file, by the model's name or else by the longest prefix of the name. The default is small on purpose, so
that a request to an unknown model fits.

Only OpenAI publishes its tokenizer, and no provider documents how it renders tools. So the families' factors are
measured or quoted, and rounded up, because too low an estimate would make the provider refuse the request. The exact
number of tokens of a request is in the usage of its answer.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta


class Family(msgspec.Struct, frozen=True):
    """Tokenizer factors of one model family, in thousandths: integers keep planning deterministic."""

    name: str
    text: int
    """The model's tokens of plain text per 1,000 tokens that o200k counts."""
    tools: int
    """The model's tokens of tool definitions per 1,000 tokens that o200k counts in their compact JSON."""
    preamble: int
    """Tokens that a request has once if it has tools, independent of their number."""
    per_message: int = 4
    source: str = ""


OPENAI: Final = Family("openai", 1000, 700, 12, source="rendered as a TypeScript namespace, 0.68 of the compact JSON")
CLAUDE_3: Final = Family(
    "claude-3", 1200, 1200, 530, source="15 to 20 % more than o200k; preamble: Opus's system prompt for tools"
)
CLAUDE_4: Final = Family(
    "claude-4", 1200, 1200, 346, source="factors of Claude 3; preamble: documented size of the system prompt for tools"
)
CLAUDE_4_7: Final = Family("claude-4.7", 1550, 1550, 346, source="from Opus 4.7 on 1.0 to 1.35 times as many tokens")
GEMINI: Final = Family("gemini", 1150, 1150, 30, source="vocabulary of Gemma 3; margin of 15 %, not measured")
QWEN: Final = Family("qwen", 1100, 1200, 201, source="chat template of Qwen3.5: spaced JSON")
DEEPSEEK: Final = Family("deepseek", 1050, 1250, 222, source="chat template of V4: spaced JSON; 3 % above o200k")
LLAMA: Final = Family("llama", 1160, 1400, 222, source="spaced JSON; tokenizer of Llama 2, 16 % above o200k")
UNKNOWN: Final = Family("unknown", 1200, 1450, 350, source="unknown; upper end of the other families")

_BY_NAME: Final = (
    (re.compile(r"(gpt|chatgpt|o[134]|codex|computer-use)(-|$|\d)"), OPENAI),
    (re.compile(r"claude-(instant|2|3)"), CLAUDE_3),
    (re.compile(r"claude-(opus|sonnet|haiku)-4(-[0-6])?(-\d{8}.*)?(-v\d.*)?(@.*)?$"), CLAUDE_4),
    (re.compile(r"claude"), CLAUDE_4_7),
    (re.compile(r"(gemini|gemma)"), GEMINI),
    (re.compile(r"(qwen|qwq)"), QWEN),
    (re.compile(r"deepseek"), DEEPSEEK),
    (re.compile(r"(meta-)?llama"), LLAMA),
)


def family_of(model: str) -> Family:
    """The family of a model, by its name in any provider's or router's spelling."""
    name = bare_name(model)
    for pattern, family in _BY_NAME:
        if pattern.match(name):
            return family
    return UNKNOWN


_PREFIXES: Final = re.compile(
    r"(?:(?:us|eu|apac|global|regional)\.)?(?:(?:anthropic|amazon|meta|mistral|openai|deepseek|qwen|google)\.)?(?P<name>.*)"
)


def bare_name(model: str) -> str:
    """A model's name without provider and region, as in `us.anthropic.claude-5`, `models/gemini-3`, `openai/gpt-5`."""
    last_segment = model.strip().lower()[-200:].rsplit("/", 1)[-1]
    match = _PREFIXES.fullmatch(last_segment)
    return match["name"] if match and match["name"] else last_segment


DEFAULT_WINDOW: Final = 32_768
_BOUNDARIES: Final = "-.:@_"
_NO_WINDOWS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_WINDOW: Final = 1_000_000_000


class ContextWindow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Context window of one model, in its own tokens."""

    context: int
    """Limit of input and output together."""
    max_input: int | None = None
    """Limit of the input, if the provider has one below `context`."""
    source: str = ""
    """`configured`, `live`, `file`, `file, as MODEL` or `default`."""


class LiveSource(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A model server that reports its context windows: vLLM, a router, or another Fairlead gateway."""

    url: str
    """URL of an OpenAI-compatible list of models, such as `https://models.example.com/v1/models`."""
    refresh_seconds: Annotated[float, Meta(ge=10)] = 600.0
    token_file: str | None = None
    """File with a bearer token, read before every request."""


class LiveModels(msgspec.Struct, frozen=True):
    """Last answer of a model server."""

    models: dict[str, ContextWindow] = {}
    at: str = ""
    """Time of the last answer (RFC 3339); empty before the first answer."""
    error: str = ""
    """Error of the last attempt; empty if it succeeded."""


class _WindowsFile(msgspec.Struct, frozen=True, rename="camel"):
    date: str
    source: str
    models: dict[str, int]
    """Maps bare names to `context`."""
    max_input: dict[str, int] = {}


class ContextWindows:
    """Looks up context windows. Immutable. Keys of `live` and `configured` may be full or bare names."""

    def __init__(
        self,
        configured: Mapping[str, ContextWindow | int] = _NO_WINDOWS,
        live: Mapping[str, ContextWindow | int] = _NO_WINDOWS,
    ) -> None:
        self._configured = {bare_name(name): _window(value) for name, value in configured.items()}
        self._live = {bare_name(name): _window(value) for name, value in live.items()}

    def names(self) -> set[str]:
        """Bare names of all models with a known context window."""
        return {*self._configured, *self._live, *shipped_windows().models}

    def with_live(self, live: Mapping[str, ContextWindow | int]) -> ContextWindows:
        """A copy with another answer of a model server."""
        return ContextWindows(self._configured, live)

    def window(self, model: str) -> ContextWindow:
        """The context window of a model. `source` says where the window was found; `default` for an unknown model."""
        name = bare_name(model)
        for table, source in ((self._configured, "configured"), (self._live, "live")):
            if name in table:
                return msgspec.structs.replace(table[name], source=source)
        file = shipped_windows()
        start_of_name = next((start for start in _starts(name) if start in file.models), None)
        if start_of_name is None:
            return ContextWindow(DEFAULT_WINDOW, source="default")
        source = "file" if start_of_name == name else f"file, as {start_of_name}"
        return ContextWindow(file.models[start_of_name], file.max_input.get(start_of_name), source)


def _window(value: ContextWindow | int) -> ContextWindow:
    return ContextWindow(value) if isinstance(value, int) else value


def _starts(name: str) -> list[str]:
    """A name and its prefixes that end at a word boundary, longest first."""
    return [name, *(name[:end] for end in range(len(name) - 1, 0, -1) if name[end] in _BOUNDARIES)]


@functools.cache
def shipped_windows() -> _WindowsFile:
    """The context windows that ship with the package, as of `date`."""
    data = importlib.resources.files("fairlead_formats.tokens").joinpath("models.json").read_bytes()
    return msgspec.json.decode(data, type=_WindowsFile)


def from_models_answer(answer: object) -> dict[str, ContextWindow]:
    """Context windows in an answer to `/v1/models` (vLLM's `max_model_len`, a router's `context_length`, …) or to
    Gemini's `models.list`. Models without a plausible window are left out. Never raises.
    """
    windows: dict[str, ContextWindow] = {}
    if not isinstance(answer, dict):
        return windows
    entries = answer.get("data", answer.get("models"))
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        name = entry.get("id") or entry.get("name")
        window = _window_of_entry(entry)
        if isinstance(name, str) and name and window is not None:
            windows[name] = window
    return windows


def _window_of_entry(entry: dict[str, Any]) -> ContextWindow | None:
    for member in ("max_model_len", "context_window", "context_length", "max_context_length", "n_ctx"):
        size = _plausible_window(entry.get(member))
        if size is not None:
            return ContextWindow(size)
    entry_input = _plausible_window(entry.get("inputTokenLimit", entry.get("max_input_tokens")))
    if entry_input is None:
        return None
    output = _plausible_window(entry.get("outputTokenLimit", entry.get("max_tokens"))) or 0
    return ContextWindow(entry_input + output, entry_input)


def _plausible_window(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_WINDOW else None
