"""Opens an archive for a server, with the files that the server's settings name, and converts errors of the archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from fairlead_servers.archive.records import BadRecord
from fairlead_servers.archive.store import Archive, ArchiveError
from fairlead_servers.definition import ServerSettings, SettingError
from fairlead_servers.tool import ToolError

EXAMPLE: Final = Path(__file__).parent / "example.jsonl"


class ArchiveSettings(ServerSettings):
    """Settings of a server that reads an archive."""

    ingest: Annotated[
        Path | None, Field(description="File of JSON lines, or folder of .jsonl files, that is ingested at each start.")
    ] = None
    example: Annotated[
        bool, Field(description="Whether example records, of a role-playing game, are ingested at each start.")
    ] = False


def open_archive(folder: Path, settings: ArchiveSettings) -> Archive:
    """Open the archive in a data folder, and ingest the files that the settings name. Raises SettingError."""
    archive = Archive(folder)
    try:
        for path in _files(settings):
            archive.ingest(path)
    except (BadRecord, ArchiveError) as error:
        raise SettingError(str(error)) from error
    return archive


def _files(settings: ArchiveSettings) -> list[Path]:
    source, example = settings.ingest, [EXAMPLE] if settings.example else []
    if source is None:
        return example
    if not source.exists():
        raise SettingError(f"ingest is {source}, which does not exist; give a file or a folder")
    return example + (sorted(source.glob("*.jsonl")) if source.is_dir() else [source])


@contextmanager
def archive_errors() -> Iterator[None]:
    """Context that converts errors of the archive to errors of a tool."""
    try:
        yield
    except ArchiveError as error:
        raise ToolError(f"{error}.") from error
