"""Skills of servers (`io.modelcontextprotocol/skills`, SEP-2640): entries of `skills/list` and their files. No I/O.

A host compares the bytes of a file with the digest and size in the entry, so files are passed on unchanged. For a
pinned server `ApprovedSkills` compares the same digests, so that only approved files are passed on.
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
    """Entry of `skills/list`."""

    uri: str
    """URI of the skill's `SKILL.md`."""
    frontmatter: Raw = Raw(b"{}")
    resources: list[SkillFile] | str = DYNAMIC
    """All files of the skill, or `dynamic`."""

    @property
    def files(self) -> list[SkillFile]:
        return [] if isinstance(self.resources, str) else self.resources

    @property
    def folder(self) -> str:
        """Common prefix of the URIs of the skill's files."""
        return self.uri.rpartition("/")[0] + "/"


class _Content(msgspec.Struct):
    uri: str = ""
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET


class _SkillFileResult(msgspec.Struct):
    contents: list[_Content]


class _Settings(msgspec.Struct, rename="camel"):
    directory_read: bool = False


read: Final = msgspec.json.Decoder(Skill).decode
"""Decode an entry. Raises one of jsonrpc.UNREADABLE."""
_decode_read: Final = msgspec.json.Decoder(_SkillFileResult).decode
_decode_settings: Final = msgspec.json.Decoder(_Settings).decode
_decode: Final = msgspec.json.Decoder().decode


def uris_of(entry: bytes) -> tuple[str, ...]:
    """Return the URIs of an entry and its files; empty for a malformed entry."""
    try:
        skill = read(entry)
    except jsonrpc.UNREADABLE:
        return ()
    return (skill.uri, *(file.uri for file in skill.files))


def reads_directories(settings: bytes | Raw | None) -> bool:
    """Whether a server with these settings of the extension supports `resources/directory/read`."""
    try:
        return settings is not None and _decode_settings(settings).directory_read
    except jsonrpc.UNREADABLE:
        return False


class ApprovedSkills:
    """Approved skills of a pinned server, against which results are checked."""

    __slots__ = ("_entries", "_files", "_folders")

    def __init__(self, entries: Iterable[bytes]) -> None:
        self._entries: dict[str, bytes] = {}
        self._files: dict[str, SkillFile] = {}
        self._folders: tuple[str, ...] = ()
        for entry in entries:
            try:
                skill = read(entry)
            except jsonrpc.UNREADABLE:
                continue  # its files then count as not approved
            self._entries[skill.uri] = entry
            self._files.update((file.uri, file) for file in skill.files)
            self._folders += (skill.folder,)

    def covers(self, uri: str) -> bool:
        """Whether a resource belongs, or by its URI may belong, to a skill."""
        return uri in self._files or scheme_of(uri) == SCHEME or uri.startswith(self._folders or ("\0",))

    def explain_unapproved_read(self, uri: str, result: bytes | Raw) -> str | None:
        """Explain why a result of `resources/read` is not approved; None if it is. Takes about 1 ms per MiB."""
        file = self._files.get(uri)
        if file is None:
            return f"{uri} is not a file of an approved skill of the pinned server (pin: true)"
        try:
            contents = _decode_read(result).contents
            data = b"" if len(contents) != 1 else _bytes_of(contents[0])
        except (binascii.Error, ValueError, *jsonrpc.UNREADABLE):
            return f"the server sent {uri} in a form that cannot be compared with the approved file"
        digest = _SHA256 + hashlib.sha256(data).hexdigest()
        if len(contents) != 1 or contents[0].uri != uri or file.digest.lower() != digest:
            return f"{uri} differs from the approved file of the pinned server (pin: true)"
        return None

    def explain_unapproved_entry(self, uri: str, result: bytes | Raw) -> str | None:
        """Explain why a result of `skills/get` is not approved; None if it is."""
        entry = self._entries.get(uri)
        try:
            skill = _decode(jsonrpc.decode_object(result)["skill"])
        except (KeyError, *jsonrpc.UNREADABLE):
            return f"the server sent no skill for {uri}"
        if entry is None or skill != _decode(entry):
            return f"{uri} differs from the approved skill of the pinned server; `fairlead diff` shows the change"
        return None


def _bytes_of(content: _Content) -> bytes:
    if content.blob is not UNSET:
        return base64.b64decode(content.blob, validate=True)
    return content.text.encode() if content.text is not UNSET else b""
