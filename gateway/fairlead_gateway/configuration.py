"""Files that a setting names, read once at the start. Called by the composition root."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from fairlead_gateway.budget.routes import InvalidRoute, Route, read_routes
from fairlead_gateway.formats.registry import UnknownFormat
from fairlead_gateway.settings import BadSetting


def load_routes(path: Path | None) -> Mapping[str, Route]:
    """Routes by name from a YAML file `routes: {NAME: {models: [...]}}`; none without a file.

    Raises BadSetting with a sentence that names the file and the place.
    """
    if path is None:
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"the routes in {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise BadSetting(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or set(document) != {"routes"}:
        raise BadSetting(f"{path} must hold one member, routes: a map of names to lists of models")
    try:
        return read_routes(document["routes"])
    except (InvalidRoute, UnknownFormat) as error:
        raise BadSetting(f"{path}: {error}") from error
