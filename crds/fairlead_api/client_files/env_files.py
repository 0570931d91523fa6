"""Files of environment variables (`.env`), which entries of client configurations name."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Final

from fairlead_api.extras import install_command

MAX_BYTES: Final = 1024 * 1024


def read_env_file(path: Path) -> dict[str, str]:
    """Variables of a file in the form of python-dotenv, references to others as they are; a name alone is left out.

    Raises ValueError with a sentence where it cannot be read.
    """
    try:
        from dotenv import dotenv_values  # brought by the extra `up`: most configurations name no such file
    except ImportError as error:
        raise ValueError(
            f"needs the Python package python-dotenv, which is missing: {install_command('up')}"
        ) from error
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path} is larger than {MAX_BYTES // 1024} KiB")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    values = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}
