"""The world of these tests: a tenant's namespace and a release's on the shared API server."""

from __future__ import annotations

from operatorworld import world

__all__ = ["world"]
