"""Skills of servers (`io.modelcontextprotocol/skills`, SEP-2640): entries of `skills/list`, and the files they name.

Pure module. A host compares the bytes of a file with the digest and size in the entry; so nobody on the way may change
them. Of a pinned server only what was approved is passed on, which `ApprovedSkills` checks by the same digests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import jsonrpc
from fairlead_mcp.uris import scheme_of

SCHEME: Final = "skill"
DYNAMIC: Final = "dynamic"
_SHA256: Final = "sha256:"


class SkillFile(msgspec.Struct, frozen=True):
    """One file of a skill."""

    uri: str
    digest: str = ""
    """`sha256:` and 64 hexadecimal digits."""
    size: int | None = None
    """Bytes."""


class Skill(msgspec.Struct, frozen=True):
    """An entry of `skills/list`, as far as it is read."""

    uri: str
    """URI of its `SKILL.md`."""
    frontmatter: Raw = Raw(b"{}")
    resources: list[SkillFile] | str = DYNAMIC
    """All files of it, or `dynamic`."""

    @property
    def files(self) -> list[SkillFile]:
        return [] if isinstance(self.resources, str) else self.resources

    @property
    def folder(self) -> str:
        """Beginning of the URIs of its files."""
        return self.uri.rpartition("/")[0] + "/"


class _Content(msgspec.Struct):
    uri: str = ""
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET


class _Read(msgspec.Struct):
    contents: list[_Content]


class _Settings(msgspec.Struct, rename="camel"):
    directory_read: bool = False


read: Final = msgspec.json.Decoder(Skill).decode
"""An entry. Raises one of jsonrpc.UNREADABLE."""
_decode_read: Final = msgspec.json.Decoder(_Read).decode
_decode_settings: Final = msgspec.json.Decoder(_Settings).decode
_decode: Final = msgspec.json.Decoder().decode


def uris_of(entry: bytes) -> tuple[str, ...]:
    """URIs of an entry and its files; none where it has another shape."""
    try:
        skill = read(entry)
    except jsonrpc.UNREADABLE:
        return ()
    return (skill.uri, *(file.uri for file in skill.files))


def reads_directories(settings: bytes | Raw | None) -> bool:
    """Whether a server with these settings of the extension has `resources/directory/read`."""
    try:
        return settings is not None and _decode_settings(settings).directory_read
    except jsonrpc.UNREADABLE:
        return False


class ApprovedSkills:
    """Skills of a pinned server: what was approved of them, and whether a result is that."""

    __slots__ = ("_entries", "_files", "_folders")

    def __init__(self, entries: Iterable[bytes]) -> None:
        self._entries: dict[str, bytes] = {}
        self._files: dict[str, SkillFile] = {}
        self._folders: tuple[str, ...] = ()
        for entry in entries:
            try:
                skill = read(entry)
            except jsonrpc.UNREADABLE:
                continue  # a file of it is then none that was approved
            self._entries[skill.uri] = entry
            self._files.update((file.uri, file) for file in skill.files)
            self._folders += (skill.folder,)

    def covers(self, uri: str) -> bool:
        """Whether a resource is, or may be, one of a skill."""
        return uri in self._files or scheme_of(uri) == SCHEME or uri.startswith(self._folders or ("\0",))

    def refused_read(self, uri: str, result: bytes | Raw) -> str | None:
        """Why the result of `resources/read` may not be passed on; None: it may. A MiB takes about a millisecond."""
        file = self._files.get(uri)
        if file is None:
            return f"{uri} is not a file of a skill that was approved of this server (pin: true)"
        try:
            contents = _decode_read(result).contents
            data = b"" if len(contents) != 1 else _bytes_of(contents[0])
        except (binascii.Error, ValueError, *jsonrpc.UNREADABLE):
            return f"the server sent {uri} in a shape that cannot be compared with what was approved"
        digest = _SHA256 + hashlib.sha256(data).hexdigest()
        if len(contents) != 1 or contents[0].uri != uri or file.digest.lower() != digest:
            return f"the bytes of {uri} are not those that were approved (pin: true)"
        return None

    def refused_entry(self, uri: str, result: bytes | Raw) -> str | None:
        """Why the result of `skills/get` may not be passed on; None: it may."""
        entry = self._entries.get(uri)
        try:
            skill = _decode(jsonrpc.decode_object(result)["skill"])
        except (KeyError, *jsonrpc.UNREADABLE):
            return f"the server sent no skill for {uri}"
        if entry is None or skill != _decode(entry):
            return f"{uri} is not the skill that was approved (pin: true): `fairlead diff` shows what changed"
        return None


def _bytes_of(content: _Content) -> bytes:
    if content.blob is not UNSET:
        return base64.b64decode(content.blob, validate=True)
    return content.text.encode() if content.text is not UNSET else b""
