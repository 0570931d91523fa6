"""Masks the secrets of a client's entry in the lines of its file that `fairlead client setup` shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, unquote_plus, urlsplit

import yaml

from fairlead_mcp.masking import PLACEHOLDER, Mask

_ASSIGNED_SECRET: Final = re.compile(
    r"""((?:authorization|[\w-]*(?:key|token|secret|password))["']?\s*[:=]\s*).+""", re.IGNORECASE
)
_HIDDEN: Final = re.compile(
    r"envs?|environment|(?:http_?)?headers|requestOptions|requestInit|o?auth|credentials?|cookies?|secrets?"
    r"|authorization|[\w-]*(?:key|token|secret|password)",
    re.IGNORECASE,
)
"""Matches members of an entry, at any depth, whose values are all masked."""
_LITERAL: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\n]|\'\')*\'')
"""Matches a quoted string of JSON, TOML or YAML on one line."""
_CONTINUED: Final = re.compile(r'"(?:[^"\\\n]|\\.)*\\\n(?:[^"\\]|\\.)*"', re.DOTALL)
"""Matches a quoted string of TOML or YAML in which a backslash joins lines."""
_NUMBER: Final = re.compile(r"(?<![\w.+-])[-+]?\d[\w.+-]*")
_RANDOM_SEGMENT: Final = re.compile(r"(?![a-z_.-]{1,24}\Z).{16,}")
"""Matches a segment of a URL's path that may be a secret: neither short nor lower-case words."""


class EntryMask:
    """Masks the secrets of some versions of an entry: values of variables, headers and the like, arguments that are
    called like secrets, and the user, the query and random parts of the path of a URL.
    """

    def __init__(self, entries: Iterable[object]) -> None:
        hidden: set[str] = set()
        mask = Mask(None)
        for entry in entries:
            hidden.update(_hidden_texts(entry))
            words = [*_texts(entry)]
            hidden.update(part for word in words for part in _parts_of_url(word))
            mask = mask.joined(Mask.of_process(words, {}))
        # a value may extend over lines, which the file may indent or fold
        pieces = {piece for value in hidden for piece in (value, *value.splitlines(), *value.split())}
        self._whole = hidden
        self._mask = mask.joined(Mask.of_values([*pieces, *map(_escaped, pieces)]))

    def text(self, text: str) -> str:
        """Mask the secrets in text of the file."""
        text = _CONTINUED.sub(json.dumps(PLACEHOLDER), text)
        text = _NUMBER.sub(self._number, _LITERAL.sub(self._literal, text))
        return self._mask.text(text)

    def _literal(self, match: re.Match[str]) -> str:
        """Mask a quoted string, whose characters may be escaped in any way."""
        shown = match[0]
        for value in _readings(match[0]):
            if value in self._whole:
                return json.dumps(PLACEHOLDER)
            masked = self._mask.text(value)
            if masked != value:
                shown = json.dumps(masked, ensure_ascii=False)
        return shown

    def _number(self, match: re.Match[str]) -> str:
        """Mask a number, which may be written in another way than Python does."""
        try:
            value = str(yaml.safe_load(match[0]))
        except (ValueError, yaml.YAMLError):
            return match[0]
        return PLACEHOLDER if value in self._whole else match[0]


def hide_secret(line: str) -> str:
    """A line of a client's entry with the values of probable secrets masked."""
    return _ASSIGNED_SECRET.sub(lambda match: f"{match[1]}…", line)


def _hidden_texts(value: object) -> Iterator[str]:
    """Texts of the members that are called like secrets, at any depth."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _texts(member) if _HIDDEN.fullmatch(str(key)) else _hidden_texts(member)
    elif isinstance(value, list):
        for item in value:
            yield from _hidden_texts(item)


def _texts(value: Any) -> Iterator[str]:
    """All texts and numbers within a value, except empty ones."""
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool) and str(value):
        yield str(value)


def _parts_of_url(text: str) -> Iterator[str]:
    """User, password, values of the query and random parts of the path of a URL, as they are written and decoded."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return
    if not parts.scheme or not parts.netloc:
        return
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    values = [pair.partition("=")[2] or pair for pair in re.split("[&;]", parts.query)]
    segments = [segment for segment in parts.path.split("/") if _RANDOM_SEGMENT.fullmatch(segment)]
    for part in (user, password, parts.fragment, *values, *segments):
        yield from filter(None, (part, unquote(part), unquote_plus(part)))


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _readings(literal: str) -> Iterator[str]:
    """Values of a quoted string: of surrogate pairs in escapes, YAML makes two characters, and JSON one."""
    for read in (json.loads, yaml.safe_load):
        try:
            value = read(literal)
        except (ValueError, yaml.YAMLError):
            continue
        if isinstance(value, str):
            yield value
