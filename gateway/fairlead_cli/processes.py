"""`fairlead operator` and `fairlead gateway`: options to settings to their own `run`."""

from __future__ import annotations

import sys
from typing import Any

from fairlead_cli.failure import USED_WRONGLY, Failure, needs


def run_operator(**options: Any) -> None:
    """Run the operator until a signal, and end with its exit code. Options that are None follow the environment."""
    with needs("operator"):
        from fairlead_operator.__main__ import run
        from fairlead_operator.settings import BadSetting, Settings

    try:
        settings = Settings.from_env(**_upper(options))
    except BadSetting as error:
        raise Failure(str(error), code=USED_WRONGLY) from error
    sys.exit(run(settings))


def run_gateway(**options: Any) -> None:
    """Run the gateway until a signal, and end with its exit code. Options that are None follow the environment."""
    with needs("gateway"):
        from fairlead_gateway.__main__ import run
        from fairlead_gateway.settings import BadSetting, Settings

    try:
        settings = Settings.from_env(**_upper(options))
    except BadSetting as error:
        raise Failure(str(error), code=USED_WRONGLY) from error
    sys.exit(run(settings))


def _upper(options: dict[str, Any]) -> dict[str, Any]:
    """Levels as `logging` knows them."""
    level = options.get("log_level")
    return options if level is None else {**options, "log_level": level.upper()}
