"""Refusal to replace a read-only file."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

from fairlead_cli.failure import USAGE_ERROR, Failure


def refuse_read_only(file: Path) -> None:
    """Raise Failure for a file whose owner may not write it. A rename would replace it nevertheless, and a program that
    manages such files, as dotfiles, would undo the change later.
    """
    target = file.resolve()
    if not target.exists() or target.stat().st_mode & stat.S_IWUSR:
        return
    where = file if target == file else f"{file}, a link to {target},"
    instruction = f"run `chmod u+w {shlex.quote(str(target))}` and this command again, or make the change"
    message = f"{where} is read-only and is not changed: {instruction} where the file is managed"
    raise Failure(message, code=USAGE_ERROR)
