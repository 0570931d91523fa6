"""Reads a YAML file that a setting names."""

from __future__ import annotations

from pathlib import Path

from fairlead_api.bad_setting import BadSetting


def read_yaml(path: Path, what: str) -> object:
    """Decode a YAML file. Raises BadSetting, whose message names the file and describes its content by `what`, such as
    `the routes`.
    """
    import yaml  # takes 1 MB, so imported only if such files are used

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{what} in {path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError) as error:  # an invalid date raises ValueError
        raise BadSetting(f"{path} is not valid YAML: {yaml_problem(error)}") from error
    except RecursionError as error:
        raise BadSetting(f"{path} is nested too deeply") from error


def yaml_problem(error: Exception) -> str:
    """Mistake in a text of YAML, and its position. Unlike the error's own text, it quotes no line, which may contain a
    secret.
    """
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or "syntax error"
    return f"{problem}, line {mark.line + 1}, column {mark.column + 1}"
