"""Files that entries of client configurations name: environment variables (`.env`), and single secrets."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Final

from fairlead_api.extras import install_command

MAX_BYTES: Final = 1024 * 1024


def read_secret_file(path: Path) -> str:
    """Text of a file that holds one secret, such as a private key. Raises ValueError with a sentence."""
    return _text_of(path)


def read_env_file(path: Path) -> dict[str, str]:
    """Variables of a file in python-dotenv's syntax. References to other variables are not resolved; names without a
    value are left out.

    Raises ValueError with a sentence if the file cannot be read.
    """
    try:
        from dotenv import dotenv_values  # part of the extra `up`: few configurations need it
    except ImportError as error:
        raise ValueError(
            f"needs the Python package python-dotenv, which is missing: {install_command('up')}"
        ) from error
    values = dotenv_values(stream=StringIO(_text_of(path)), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _text_of(path: Path) -> str:
    """Text of a small file. Raises ValueError with a sentence."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path} is larger than {MAX_BYTES // 1024} KiB")
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
