"""Prints a new key, or writes it to a file that only its owner can read; parses lifetimes and ids of keys."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json
from fairlead_gateway.grants.private_files import replace_whole
from fairlead_gateway.identity.key_format import PREFIX, id_of

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(m|h|d)")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


class KeyOutput:
    """A file for one new key, which only its owner can read."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite

    def check(self) -> None:
        """Check that the file can be written, before a key is created that would be lost. Raises Failure."""
        if not self._overwrite and (self.path.exists() or self.path.is_symlink()):
            raise self._already_exists()
        if not self.path.parent.is_dir():
            raise Failure(f"{self.path} cannot be written: the folder {self.path.parent.absolute()} does not exist")
        if not os.access(self.path.parent, os.W_OK):
            raise Failure(f"{self.path} cannot be written: you may not write to {self.path.parent.absolute()}")

    def write(self, key: str, location: str) -> None:
        """Write the key. Raises Failure; the key is then lost, as only its hash is stored elsewhere. `location` is the
        option that names where the hash is stored.
        """
        try:
            if self._overwrite:
                replace_whole(self.path, f"{key}\n".encode())
            else:
                self._create(key)
        except FileExistsError:
            raise self._already_exists() from None
        except OSError as error:
            problem = f"{self.path} cannot be written, and the key is lost: {error}"
            raise Failure(f"{problem}; revoke it: fairlead keys revoke {id_of(key)} {location}") from error

    def _create(self, key: str) -> None:
        """Write a new file. If writing fails, the incomplete file is deleted, so that the command can be repeated."""
        with open(self.path, "x", encoding="utf-8", opener=_open_for_owner) as new:
            try:
                new.write(key + "\n")
                new.flush()
            except OSError:
                self.path.unlink(missing_ok=True)
                raise

    def _already_exists(self) -> Failure:
        return Failure(f"{self.path} already exists: choose another file, or add --overwrite", code=USAGE_ERROR)


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def show_key(
    key: str, facts: Mapping[str, object], name: str, key_output: KeyOutput | None, output: Output, location: str
) -> None:
    """Write the key to its file, or print it. `location` is the option that names where its hash is stored. Raises
    Failure.
    """
    if key_output is not None:
        key_output.write(key, location)
    members = {"key": key} if key_output is None else {"file": str(key_output.path)}
    if output is Output.json:
        print_json({**facts, **members})
    elif key_output is None:
        print(key)
    else:
        print(f"The key {name} is in {key_output.path}")


def parse_lifetime(text: str) -> timedelta:
    """Parse a lifetime such as 30m, 12h or 90d. Raises Failure."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Failure(f"--expires: {text!r} is not a valid duration, such as 30m, 12h or 90d", code=USAGE_ERROR)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def key_id(argument: str) -> str:
    """The id of a key that is given by its id or as the whole key. Raises Failure for an incomplete key; the message of
    the failure does not quote the argument, because secrets must not be printed.
    """
    ident = id_of(argument) or argument
    if ident.startswith(PREFIX):
        message = (
            f"the argument starts with {PREFIX} but is not a complete key: give the key's id (the part after {PREFIX}) "
            "or the whole key"
        )
        raise Failure(message, code=USAGE_ERROR)
    return ident
