"""Cache of converted tool definitions by hash, so that a definition is converted once per format and options.

Pure module. The cache is bounded and evicts the least recently used entries. All answers share the cached objects,
which must not be changed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

import msgspec

from fairlead_formats.names import Names
from fairlead_formats.tool_format import DEFAULT, ConvertedTools, Definition, Format, Options
from fairlead_formats.tools.definitions import PreparedTool, ToolFormat

MAX_ENTRIES: Final = 20_000
"""Maximum number of cached conversions, about 3 KB each."""

_encode = msgspec.json.Encoder().encode


def hash_of(tool: Definition) -> str | None:
    """A key for a definition; None for a definition that is not JSON."""
    try:
        return hashlib.blake2b(_encode(tool), digest_size=16).hexdigest()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


class Conversions:
    """A bounded cache of conversions. Thread-safe."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._prepared_tools: OrderedDict[tuple[str, Options, str], PreparedTool] = OrderedDict()
        self._lock = Lock()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._prepared_tools)

    def convert(
        self,
        format_: Format,
        tools: Sequence[Definition],
        options: Options = DEFAULT,
        *,
        hashes: Sequence[str] | None = None,
        names: Names | None = None,
    ) -> ConvertedTools:
        """Convert tools like `Format.convert`. `hashes` are keys of the definitions, in order, if the caller has them;
        a key has to change with any part of its definition, including the name.
        """
        if not isinstance(format_, ToolFormat):
            return format_.convert(tools, options, names)
        keys = [hash_of(tool) for tool in tools] if hashes is None else hashes
        return format_.assemble(
            tools, [self._prepare(format_, tool, options, key) for tool, key in zip(tools, keys, strict=True)], names
        )

    def has(self, format_: Format, options: Options, key: str) -> bool:
        """Whether the cache holds the conversion of the definition with this hash."""
        return (format_.name, options, key) in self._prepared_tools

    def keep(self, format_: Format, options: Options, key: str, prepared_tool: PreparedTool) -> None:
        """Store a conversion that another thread or process has made."""
        with self._lock:
            self._prepared_tools[(format_.name, options, key)] = prepared_tool
            while len(self._prepared_tools) > self._max_entries:
                self._prepared_tools.popitem(last=False)

    def _prepare(self, format_: ToolFormat, tool: Definition, options: Options, key: str | None) -> PreparedTool:
        if key is None:
            return format_.prepare(tool, options)
        cache_key = (format_.name, options, key)
        with self._lock:
            cached_tool = self._prepared_tools.get(cache_key)
            if cached_tool is not None:
                self._prepared_tools.move_to_end(cache_key)
                self.hits += 1
                return cached_tool
            self.misses += 1
        prepared_tool = format_.prepare(tool, options)
        self.keep(format_, options, key, prepared_tool)
        return prepared_tool
