"""Opens pages in the browser of this machine."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping


def open_in_browser(url: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Open a page in a window of a browser; False if this machine shows no windows, or has no browser.

    Without a display, `webbrowser` would start a text browser in this terminal.
    """
    shows_windows = sys.platform != "linux" or any(
        environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    try:
        return shows_windows and webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
