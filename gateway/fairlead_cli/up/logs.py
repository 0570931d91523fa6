"""Where the log of `fairlead up` goes: to standard error, or above the live table."""

from __future__ import annotations

import logging
import sys

from rich.console import Console
from rich.logging import RichHandler

from fairlead_cli.up.repeats import FewerRepeats


def configure_logging(*, verbose: bool, console: Console | None) -> None:
    """Set up the root logger. With a live table only what is broken is said: the rest stands in the table."""
    if console is not None:
        handler: logging.Handler = RichHandler(console=console, show_path=False)
        level = logging.INFO if verbose else logging.ERROR
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        if not verbose:
            handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))  # as the lines of --plain
            handler.addFilter(FewerRepeats())
        level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if verbose:
        logging.getLogger("fairlead_mcp.child").setLevel(logging.DEBUG)  # what servers print
    else:
        logging.getLogger("fairlead_operator").setLevel(logging.ERROR)  # its warnings are states, which are shown
