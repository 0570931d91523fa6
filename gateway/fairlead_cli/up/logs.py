"""Configures the log of `fairlead up`: on standard error, or above the live table."""

from __future__ import annotations

import logging
import sys

from rich.console import Console
from rich.logging import RichHandler

from fairlead_cli.up.repeats import FewerRepeats


def configure_logging(*, verbose: bool, console: Console | None) -> None:
    """Set up the root logger. With a live table only errors are logged, because the table shows the rest."""
    if console is not None:
        handler: logging.Handler = RichHandler(console=console, show_path=False)
        level = logging.INFO if verbose else logging.ERROR
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        if not verbose:
            handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))  # the format of --plain
            handler.addFilter(FewerRepeats())
        level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if verbose:
        logging.getLogger("fairlead_mcp.child").setLevel(logging.DEBUG)  # the output of servers
    else:
        logging.getLogger("fairlead_operator").setLevel(logging.ERROR)  # its warnings are shown as states
