"""Records of the archive, in the format of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fairlead_servers.sentences import sentence

LONGEST_LINE: Final = 1_000_000
"""Size limit of a line in bytes."""

MOST_TURNS: Final = 2**53
"""Largest number of a turn: up to this integer, all languages represent JSON numbers exactly."""

Identifier = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=100_000)]


class BadRecord(ValueError):
    """A line that is not a valid record. The message has the line number, and says what is invalid."""


class Record(BaseModel):
    """Base of the records; the member `type` distinguishes them."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class SessionRecord(Record):
    """A session of the players."""

    type: Literal["session"]
    id: Identifier
    title: Annotated[str, Field(max_length=500)] = ""
    started: Annotated[str, Field(max_length=40)] = ""
    summary: Annotated[str, Field(max_length=100_000)] = ""


class TurnRecord(Record):
    """One speaker's turn in a session; `number` orders the turns."""

    type: Literal["turn"]
    session: Identifier
    number: Annotated[int, Field(ge=0, le=MOST_TURNS)]
    speaker: Annotated[str, Field(max_length=200)] = ""
    text: Text


class EntityRecord(Record):
    """A person, place or thing."""

    type: Literal["entity"]
    id: Identifier
    name: Identifier
    kind: Annotated[str, Field(max_length=100)] = ""
    aliases: Annotated[tuple[Identifier, ...], Field(max_length=50)] = ()
    description: Annotated[str, Field(max_length=100_000)] = ""


class FactRecord(Record):
    """A statement, and the session that it comes from."""

    type: Literal["fact"]
    id: Identifier
    subject: Annotated[str, Field(max_length=200)] = ""
    text: Text
    session: Annotated[str, Field(max_length=200)] = ""


AnyRecord = SessionRecord | TurnRecord | EntityRecord | FactRecord
_ADAPTER: Final[TypeAdapter[AnyRecord]] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="type")])


def read_records(lines: Iterator[bytes], name: str) -> Iterator[AnyRecord]:
    """Parse lines as records, and skip empty lines. Raises BadRecord with the line number."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            raise BadRecord(f"line {number} of {name} has more than {LONGEST_LINE:,} bytes")
        try:
            yield _ADAPTER.validate_json(line)
        except ValidationError as error:
            raise BadRecord(sentence(f"the values in line {number} of {name}", error).rstrip(".")) from error


def bounded_lines(file: Any) -> Iterator[bytes]:
    """Lines of a binary file. A line is read only up to one byte beyond `LONGEST_LINE`."""
    while line := file.readline(LONGEST_LINE + 1):
        yield line
