"""Implementation of `fairlead keys`: a document of keys is read, changed and written, in a file or in a Secret of a
cluster."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from fairlead_cli.access.keysecret import SecretPlace
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, print_json, print_table
from fairlead_gateway.identity.keys import BadKeys, KeyDocument, KeyRecord, id_of, new_key, read, written

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(m|h|d)")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
Change = Callable[[KeyDocument], KeyDocument]


class KeyLocation(Protocol):
    """Where keys are kept."""

    def load(self) -> KeyDocument:
        """Raises Failure."""
        ...

    def change(self, change: Change) -> None:
        """Read, change, write; a concurrent change is not overwritten. Raises Failure."""
        ...


def place(file: Path, secret: str | None, namespace: str, kubeconfig: Path | None) -> KeyLocation:
    """The file, or the Secret where one is named. Raises Failure for a name that the API server takes for none."""
    if secret is None:
        return FilePlace(file)
    for option, name in (("--secret", secret), ("--namespace", namespace)):
        if not _NAME.fullmatch(name):
            raise Failure(f"{option}: {name!r} is no name of Kubernetes, such as fairlead-api-keys", code=USED_WRONGLY)
    return SecretPlace(secret, namespace, kubeconfig)


def run_create(
    kept: KeyLocation, agent: str, groups: list[str], expires: str | None, output: Output, to: KeyOutput | None = None
) -> None:
    """Make a key and print it, or write it to a file, after its hash was kept. Raises Failure."""
    if not agent.strip() or not agent.isprintable():
        raise Failure("AGENT must be a name", code=USED_WRONGLY)
    now = datetime.now(UTC)
    key, record = new_key(agent, groups, now=now, expires=None if expires is None else now + _duration(expires))
    if to is not None:
        to.check()
    kept.change(lambda document: KeyDocument((*document.keys, record)))
    if to is not None:
        to.write(key)
    shown = {"key": key} if to is None else {"file": str(to.path)}
    if output is Output.json:
        print_json({**_shown(record), **shown})
    elif to is None:
        print(key)
    else:
        print(f"The key {record.id} of {agent} is in {to.path}")


def run_list(kept: KeyLocation, output: Output) -> None:
    """Everything that is kept but the hashes."""
    records = kept.load().keys
    if output is Output.json:
        print_json([_shown(record) for record in records])
        return
    rows = [[one.id, one.agent, ", ".join(one.groups), one.created, one.expires or "never"] for one in records]
    print_table(["ID", "AGENT", "GROUPS", "CREATED", "EXPIRES"], rows)


def run_revoke(kept: KeyLocation, ident: str, output: Output) -> None:
    """Take a key out. Raises Failure where there is none of that id."""
    wanted = id_of(ident) or ident

    def without(document: KeyDocument) -> KeyDocument:
        left = tuple(record for record in document.keys if record.id != wanted)
        if len(left) == len(document.keys):
            raise Failure(f"there is no key {wanted[:16]}: `fairlead keys list` shows them", code=USED_WRONGLY)
        return KeyDocument(left)

    kept.change(without)
    if output is Output.json:
        print_json({"revoked": wanted})
    else:
        print(f"{wanted} is revoked")


class KeyOutput:
    """A file that gets one key, and that its owner alone can read from the beginning."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite

    def check(self) -> None:
        """Raises Failure where the file cannot be written, before there is a key that would be lost."""
        if not self._overwrite and (self.path.exists() or self.path.is_symlink()):
            raise self._there_already()
        if not os.access(self.path.parent, os.W_OK):
            raise Failure(f"{self.path} cannot be written: {self.path.parent} is no folder that you may write to")

    def write(self, key: str) -> None:
        """Raises Failure; the key is lost then, and of no use to anybody."""
        try:
            if self._overwrite:
                with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False) as file:  # its mode is 0600
                    file.write(key + "\n")
                os.replace(file.name, self.path)  # noqa: PTH105  # Path.replace takes no name
            else:
                with open(self.path, "x", encoding="utf-8", opener=_for_the_owner) as new:
                    new.write(key + "\n")
        except FileExistsError:
            raise self._there_already() from None
        except OSError as error:
            raise Failure(f"{self.path} cannot be written, and the key is lost: {error}; revoke it") from error

    def _there_already(self) -> Failure:
        return Failure(f"{self.path} is there already: name another file, or add --overwrite", code=USED_WRONGLY)


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class FilePlace:
    """A file, written as a whole and readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> KeyDocument:
        try:
            return read(self._path.read_bytes())
        except FileNotFoundError:
            return KeyDocument()
        except (OSError, BadKeys) as error:
            raise Failure(f"{self._path} cannot be used: {error}") from error

    def change(self, change: Change) -> None:
        data = written(change(self.load()).keys)
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path)  # noqa: PTH105  # Path.replace takes no name
        except OSError as error:
            raise Failure(f"{self._path} cannot be written: {error}") from error


def _shown(record: KeyRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "agent": record.agent,
        "groups": list(record.groups),
        "created": record.created,
        "expires": record.expires or None,
    }


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Failure(f"--expires: {text!r} is no duration such as 30m, 12h or 90d", code=USED_WRONGLY)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
