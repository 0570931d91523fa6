"""Reads the rules of games from folders: one folder per game system, with Markdown or JSON files.

In Markdown, each heading begins a rule, whose text ends at the next heading. A JSON file is a list of objects with
`title`, `text` and optionally `id`. The id of a rule is `SYSTEM/ID`; ID defaults to a slug of the title.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fairlead_servers.definition import SettingError
from fairlead_servers.sentences import sentence

MOST_BYTES: Final = 2_000_000
"""Size limit of one file."""
MOST_RULES: Final = 20_000
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


class RuleRecord(BaseModel):
    """Rule of a JSON file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(max_length=200)] = ""


@dataclass(frozen=True)
class GameRule:
    """Rule of a game."""

    id: str
    system: str
    title: str
    text: str


_RECORDS: Final = TypeAdapter(list[RuleRecord])


def read_rules(*folders: Path) -> dict[str, GameRule]:
    """Rules by id; later folders take precedence. Raises SettingError for an unreadable file."""
    rules: dict[str, GameRule] = {}
    for path in rule_files(*folders):
        system = slug(path.parent.name)
        file_rules: dict[str, GameRule] = {}
        name_counts: Counter[str] = Counter()
        for record in _records(path):
            name = base_name = slug(record.id or record.title)
            name_counts[base_name] += 1
            while name in file_rules:
                name = f"{base_name}-{name_counts[base_name]}"
                name_counts[base_name] += name in file_rules
            file_rules[name] = GameRule(f"{system}/{name}", system, record.title, record.text)
        rules.update({rule.id: rule for rule in file_rules.values()})
        if len(rules) > MOST_RULES:
            raise SettingError(f"the limit of {MOST_RULES:,} rules is exceeded at {path}; remove some rule files")
    return rules


def rule_files(*folders: Path) -> list[Path]:
    """Files of rules, in the order in which they are read."""
    return [
        path
        for folder in folders
        for path in sorted(folder.glob("*/*"))
        if path.suffix.lower() in (".md", ".json") and path.is_file()
    ]


def slug(title: str) -> str:
    """Identifier made from a title: lower-case letters, digits and hyphens."""
    ascii_title = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_title.lower()).strip("-")[:80] or "rule"


def _records(path: Path) -> Iterator[RuleRecord]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SettingError(f"{path} has more than {MOST_BYTES:,} bytes; split the file")
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    if path.suffix.lower() == ".json":
        try:
            yield from _RECORDS.validate_json(text)
        except ValidationError as error:
            raise SettingError(sentence(f"the rules of {path}", error)) from error
        return
    headings = list(_HEADING.finditer(text))
    for index, heading in enumerate(headings):
        body = text[heading.end() : headings[index + 1].start() if index + 1 < len(headings) else None].strip()
        if body:
            yield RuleRecord(title=heading[1][:200], text=body)
