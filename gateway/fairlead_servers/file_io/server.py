"""Server `file-io`: `write_file(path, content)` and `read_file(path)`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from pydantic import BaseModel, Field

from fairlead_servers.definition import ServerSettings, SettingError, ToolServer
from fairlead_servers.file_io.jail import FileRefused, FolderQuota, Jail
from fairlead_servers.tool import READS, LatencyDeclaration, ToolError, tool, writing_annotations
from fairlead_tools.version import VERSION

Path_ = Annotated[
    str, Field(description="Path below the folder, for example notes/today.md", min_length=1, max_length=2000)
]


class FileSettings(ServerSettings):
    """Settings of file-io."""

    file_bytes: Annotated[int, Field(description="Maximum number of bytes of a file.", ge=1, le=100_000_000)] = (
        1_000_000
    )
    total_bytes: Annotated[int, Field(description="Maximum number of bytes of all files together.", ge=1)] = 100_000_000
    files: Annotated[int, Field(description="Maximum number of files.", ge=1, le=100_000)] = 1000


class FileWritten(BaseModel):
    """A written file."""

    path: str
    bytes: int
    created: bool
    """Whether the file is new."""


class FileRead(BaseModel):
    """Content of a file."""

    path: str
    bytes: int
    content: str


class Files:
    """Tools of the server."""

    def __init__(self, jail: Jail) -> None:
        self._jail = jail

    def write_file(
        self,
        path: Path_,
        content: Annotated[str, Field(description="The complete text, which replaces the file's content.")],
    ) -> FileWritten:
        """Write a text file, and create the folders of its path. An existing file is replaced atomically."""
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise ToolError("content has a lone surrogate, which cannot be encoded in UTF-8.") from error
        try:
            created = self._jail.write(path, data)
        except FileRefused as error:
            raise ToolError(f"{error}.") from error
        return FileWritten(path=path, bytes=len(data), created=created)

    def read_file(self, path: Path_) -> FileRead:
        """Read a text file that was written before."""
        try:
            content = self._jail.read(path)
        except FileRefused as error:
            raise ToolError(f"{error}.") from error
        try:
            return FileRead(path=path, bytes=len(content), content=content.decode())
        except UnicodeDecodeError as error:
            raise ToolError(f"{path} is not text in UTF-8 (byte {error.start}).") from error


def open_server(folder: Path, settings: FileSettings) -> MCPServer[Any]:
    """Open the server on the folder `files` in the data folder. Raises SettingError."""
    quota = FolderQuota(settings.file_bytes, settings.total_bytes, settings.files)
    try:
        jail = Jail(folder / "files", quota)
    except OSError as error:
        raise SettingError(f"the folder {folder / 'files'} cannot be opened: {error.strerror}") from error
    files = Files(jail)
    return MCPServer(
        "file-io",
        instructions="Stores text files. Paths are relative to one folder; folders are created as needed.",
        tools=[
            tool(
                files.write_file,
                writing_annotations(destructive=True, idempotent=True),
                "Write a file",
                LatencyDeclaration(30, 2000, "fast"),
            ),
            tool(files.read_file, READS, "Read a file", LatencyDeclaration(20, 2000, "fast")),
        ],
        version=VERSION,
        log_level="WARNING",
    )


SERVER: Final = ToolServer(FileSettings, open_server)
