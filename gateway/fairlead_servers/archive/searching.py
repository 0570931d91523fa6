"""Searches of the archive of sessions, and the result types of the archive's tools."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Final

from pydantic import BaseModel, Field

from fairlead_servers.archive.store import Archive
from fairlead_servers.fulltext import cut, matches
from fairlead_servers.tool import ToolError

MOST_TEXT: Final = 600
"""Maximum number of characters of one text in a result."""
MOST_SUMMARY: Final = 8_000
MAX_SUGGESTED: Final = 8
"""Number of sessions, the latest first, that the error about an unknown session id names."""

Query = Annotated[str, Field(description="What to look for, in plain words", min_length=1, max_length=500)]
Limit = Annotated[int, Field(description="Maximum number of results", ge=1, le=20)]
SessionId = Annotated[str, Field(description="Id of a session, from a search", min_length=1, max_length=200)]


class SessionFound(BaseModel):
    """Session that matches a search, with the matching part."""

    session_id: str
    title: str
    started: str
    excerpt: str


class SessionsFound(BaseModel):
    """Matching sessions, best match first."""

    sessions: list[SessionFound]


class SpokenTurn(BaseModel):
    """One speaker's turn in a session."""

    number: int
    speaker: str
    text: str


class TurnFound(SpokenTurn):
    """Turn that matches a search, with the turns around it."""

    session_id: str
    before: list[SpokenTurn]
    after: list[SpokenTurn]


class TurnsFound(BaseModel):
    """Matching turns, best match first."""

    turns: list[TurnFound]


class Entity(BaseModel):
    """A person, place or thing."""

    id: str
    name: str
    kind: str
    aliases: list[str]
    description: str


class EntitiesFound(BaseModel):
    """Matching entities, best match first."""

    entities: list[Entity]


class Fact(BaseModel):
    """A statement and the session that it comes from."""

    id: str
    subject: str
    text: str
    session_id: str


class FactsFound(BaseModel):
    """Matching facts, best match first."""

    facts: list[Fact]


class Summary(BaseModel):
    """Summary of a session."""

    session_id: str
    title: str
    started: str
    turns: int
    summary: str


def find_sessions(archive: Archive, query: str, limit: int) -> SessionsFound:
    """Sessions whose title, summary or transcript match."""
    parts: dict[str, str] = {}
    with archive.connect() as connection:
        for row in matches(
            connection,
            "SELECT id, snippet(sessions_index, -1, '', '', '…', 40) AS part FROM sessions_index WHERE sessions_index "
            "MATCH ? ORDER BY rank LIMIT ?",
            query,
            limit,
        ):
            parts[row["id"]] = row["part"]
        for row in matches(
            connection,
            "SELECT turns.session AS id, snippet(turns_index, 1, '', '', '…', 40) AS part FROM turns_index "
            "JOIN turns ON turns.id = turns_index.rowid WHERE turns_index MATCH ? ORDER BY rank LIMIT ?",
            query,
            limit * 5,
        ):
            parts.setdefault(row["id"], row["part"])
        sessions = []
        for session, part in list(parts.items())[:limit]:
            row = connection.execute("SELECT title, started FROM sessions WHERE id = ?", (session,)).fetchone()
            sessions.append(
                SessionFound(
                    session_id=session, title=row["title"], started=row["started"], excerpt=cut(part, MOST_TEXT)
                )
            )
    return SessionsFound(sessions=sessions)


def find_turns(archive: Archive, query: str, limit: int, context_turns: int) -> TurnsFound:
    """Turns that match, each with `context_turns` turns before and after it."""
    with archive.connect() as connection:
        rows = matches(
            connection,
            "SELECT turns.* FROM turns_index JOIN turns ON turns.id = turns_index.rowid WHERE turns_index MATCH ? "
            "ORDER BY rank LIMIT ?",
            query,
            limit,
        )
        turns = []
        for row in rows:
            parameters = (row["session"], row["number"], context_turns)
            rows_before = connection.execute(
                "SELECT * FROM turns WHERE session = ? AND number < ? ORDER BY number DESC LIMIT ?", parameters
            ).fetchall()
            rows_after = connection.execute(
                "SELECT * FROM turns WHERE session = ? AND number > ? ORDER BY number LIMIT ?", parameters
            ).fetchall()
            turns.append(
                TurnFound(
                    session_id=row["session"],
                    before=[_turn(turn_row) for turn_row in reversed(rows_before)],
                    after=[_turn(turn_row) for turn_row in rows_after],
                    **_turn(row).model_dump(),
                )
            )
    return TurnsFound(turns=turns)


def find_entities(archive: Archive, query: str, kind: str, limit: int) -> EntitiesFound:
    """Entities whose name, aliases or description match. An entity whose name equals the query comes first."""
    with archive.connect() as connection:
        rows = matches(
            connection,
            "SELECT entities.* FROM entities_index JOIN entities ON entities.row = entities_index.rowid WHERE "
            "entities_index MATCH ? AND (? = '' OR entities.kind = ? COLLATE NOCASE) ORDER BY bm25(entities_index, "
            "10.0, 5.0, 1.0) LIMIT ?",
            query,
            limit,
            kind,
            kind,
        )
    entities = [
        Entity(
            id=row["id"],
            name=row["name"],
            kind=row["kind"],
            aliases=row["aliases"].split("\n") if row["aliases"] else [],
            description=cut(row["description"], MOST_TEXT),
        )
        for row in rows
    ]
    return EntitiesFound(entities=sorted(entities, key=lambda entity: entity.name.lower() != query.strip().lower()))


def find_facts(archive: Archive, query: str, limit: int) -> FactsFound:
    """Facts whose subject or text match."""
    with archive.connect() as connection:
        rows = matches(
            connection,
            "SELECT facts.* FROM facts_index JOIN facts ON facts.row = facts_index.rowid WHERE facts_index MATCH ? "
            "ORDER BY rank LIMIT ?",
            query,
            limit,
        )
    return FactsFound(
        facts=[
            Fact(id=row["id"], subject=row["subject"], text=cut(row["text"], MOST_TEXT), session_id=row["session"])
            for row in rows
        ]
    )


def summary_of(archive: Archive, session_id: str) -> Summary:
    """Summary of a session. Raises ToolError if the session does not exist or has no summary."""
    with archive.connect() as connection:
        row = connection.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            latest = connection.execute(
                "SELECT id FROM sessions ORDER BY started DESC, id DESC LIMIT ?", (MAX_SUGGESTED,)
            )
            known_ids = ", ".join(session_row["id"] for session_row in latest) or "none"
            raise ToolError(f"session {cut(session_id, 60)!r} does not exist; the latest are: {known_ids}.")
        turns = connection.execute("SELECT count(*) FROM turns WHERE session = ?", (session_id,)).fetchone()[0]
    if not row["summary"]:
        raise ToolError(f"session {session_id!r} has no summary yet; its {turns} turns can be searched.")
    return Summary(
        session_id=row["id"],
        title=row["title"],
        started=row["started"],
        turns=turns,
        summary=cut(row["summary"], MOST_SUMMARY),
    )


def _turn(row: sqlite3.Row) -> SpokenTurn:
    return SpokenTurn(number=row["number"], speaker=row["speaker"], text=cut(row["text"], MOST_TEXT))
