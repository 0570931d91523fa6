"""Reads a YAML file that a setting names."""

from __future__ import annotations

from pathlib import Path

from fairlead_api.bad_setting import BadSetting


def read_yaml(path: Path, what: str) -> object:
    """The decoded document of a file. Raises BadSetting with a sentence that names the file; `what` says what it
    holds, such as `the routes`.
    """
    import yaml  # a megabyte, of which a gateway without such files has no use

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{what} in {path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError) as error:  # a date that there is none of is a ValueError
        raise BadSetting(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise BadSetting(f"{path} is nested too deeply") from error
