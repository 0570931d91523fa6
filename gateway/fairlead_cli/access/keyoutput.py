"""A new key, shown once: printed, or written to a file of its owner; how long keys live, and how they are named."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, print_json
from fairlead_gateway.identity.key_format import PREFIX, id_of

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(m|h|d)")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


class KeyOutput:
    """A file that gets one key, and that its owner alone can read from the beginning."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite

    def check(self) -> None:
        """Raises Failure where the file cannot be written, before there is a key that would be lost."""
        if not self._overwrite and (self.path.exists() or self.path.is_symlink()):
            raise self._there_already()
        if not self.path.parent.is_dir():
            raise Failure(f"{self.path} cannot be written: there is no folder {self.path.parent.absolute()}")
        if not os.access(self.path.parent, os.W_OK):
            raise Failure(f"{self.path} cannot be written: you may not write to {self.path.parent.absolute()}")

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


def show_key(key: str, facts: Mapping[str, object], whose: str, to: KeyOutput | None, output: Output) -> None:
    """Write the key to its file, or print it. Raises Failure."""
    if to is not None:
        to.write(key)
    shown = {"key": key} if to is None else {"file": str(to.path)}
    if output is Output.json:
        print_json({**facts, **shown})
    elif to is None:
        print(key)
    else:
        print(f"The key {whose} is in {to.path}")


def life(text: str) -> timedelta:
    """A life such as 30m, 12h or 90d. Raises Failure."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Failure(f"--expires: {text!r} is not a valid duration, such as 30m, 12h or 90d", code=USED_WRONGLY)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def key_id(given: str) -> str:
    """The id of a key that is named by its id, or by the whole key. Raises Failure for a part of a key, which it does
    not quote: a secret stands in no URL and in no message.
    """
    ident = id_of(given) or given
    if ident.startswith(PREFIX):
        message = f"that begins like a key and is not a whole one: give its id, which stands behind {PREFIX}"
        raise Failure(message, code=USED_WRONGLY)
    return ident
