"""The fixture of these tests: namespaces of a tenant and of a release on the shared API server."""

from __future__ import annotations

from operatorworld import world

__all__ = ["world"]
