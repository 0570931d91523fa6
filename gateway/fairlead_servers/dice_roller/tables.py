"""Reads tables to roll on (random tables) from the files of folders.

A `.txt` file has one entry per line; `3x Goblins` has the weight 3. A `.yaml` or `.json` file is a list of entries, or
an object with `title` and `entries`; an entry is a string or `{text, weight}`. Within an entry, `[[2d6]]` is a roll,
and `[[@other]]` is a roll on another table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fairlead_servers.sentences import sentence

SUFFIXES: Final = (".txt", ".yaml", ".yml", ".json")
MOST_BYTES: Final = 1_000_000
MOST_ENTRIES: Final = 10_000
MOST_TABLES: Final = 1_000
_WEIGHT: Final = re.compile(r"(\d{1,4})\s*[x×]\s+(?=\S)")


class BadTable(ValueError):
    """A table that does not exist or is invalid; the message says what to do."""


class TableEntry(BaseModel):
    """Entry of a table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: Annotated[str, Field(min_length=1, max_length=2_000)]
    weight: Annotated[int, Field(ge=1, le=10_000)] = 1


class TableFile(BaseModel):
    """Content of a table's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str = ""
    entries: Annotated[list[TableEntry], Field(min_length=1, max_length=MOST_ENTRIES)]


@dataclass(frozen=True)
class RollTable:
    """A table to roll on."""

    name: str
    title: str
    entries: tuple[TableEntry, ...]

    def weight(self) -> int:
        """Sum of the weights, which is the number of sides of the table's die."""
        return sum(entry.weight for entry in self.entries)

    def entry(self, number: int) -> TableEntry:
        """Entry for a rolled number from 1 to `weight()`."""
        for entry in self.entries:
            number -= entry.weight
            if number <= 0:
                return entry
        raise IndexError(number)


class TableFolder:
    """Tables of several folders; later folders take precedence. Files are read at each roll, so changes apply at
    once.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = folders

    def names(self) -> list[str]:
        """Names of the tables, sorted."""
        return sorted(self._files())

    def read(self, name: str) -> RollTable:
        """Read the table with a name, whose case is ignored. Raises BadTable."""
        files = self._files()
        path = files.get(name.strip().lower())
        if path is None:
            table_names = ", ".join(sorted(files)[:30]) or "none"
            raise BadTable(f"table {name[:60]!r} does not exist; tables: {table_names}")
        try:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise BadTable(f"the table {path.name} cannot be read: {str(error)[:200]}") from error
        if len(content) > MOST_BYTES:
            raise BadTable(f"the table {path.name} has more than {MOST_BYTES:,} bytes")
        try:
            text = content.decode("utf-8-sig")
            table_file = TableFile(entries=_lines(text)) if path.suffix == ".txt" else _parse_structured(text)
        except ValidationError as error:
            raise BadTable(sentence(f"the entries of {path.name}", error)) from error
        except (ValueError, yaml.YAMLError, RecursionError) as error:  # an invalid date of YAML is a ValueError
            raise BadTable(f"the table {path.name} cannot be read: {str(error)[:200]}") from error
        return RollTable(path.stem.lower(), table_file.title or path.stem, tuple(table_file.entries))

    def _files(self) -> dict[str, Path]:
        path_by_name: dict[str, Path] = {}
        for folder in self._folders:
            if folder.is_dir():
                files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
                path_by_name.update({file.stem.lower(): file for file in files[:MOST_TABLES]})
        return path_by_name


def _lines(text: str) -> list[TableEntry]:
    entries = []
    for line in text.splitlines():
        if not (words := line.strip()) or words.startswith("#"):
            continue
        weight = _WEIGHT.match(words)
        entries.append(
            TableEntry(text=words[weight.end() :], weight=int(weight[1])) if weight else TableEntry(text=words)
        )
    return entries


def _parse_structured(text: str) -> TableFile:
    value: Any = yaml.safe_load(text)
    if isinstance(value, list):
        value = {"entries": value}
    if isinstance(value, dict) and isinstance(value.get("entries"), list):
        value = {**value, "entries": [{"text": each} if isinstance(each, str) else each for each in value["entries"]]}
    return TypeAdapter(TableFile).validate_python(value)
