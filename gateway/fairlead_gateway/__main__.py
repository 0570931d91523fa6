"""Deprecated way to start a gateway, `python -m fairlead_gateway`; it still works and warns."""

from __future__ import annotations

import runpy
import warnings

if __name__ == "__main__":
    warnings.warn(
        "`python -m fairlead_gateway` is deprecated; write `fairlead gateway` or `python -m fairlead_app`",
        DeprecationWarning,
        stacklevel=1,
    )
    # by name, as this package may not import fairlead_app
    runpy.run_module("fairlead_app", run_name="__main__", alter_sys=True)
