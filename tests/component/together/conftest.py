"""The world of these tests: a tenant's namespace and a release's on the shared API server; an authorization server."""

from __future__ import annotations

from operatorworld import world
from tokenproviders import shared_provider

__all__ = ["shared_provider", "world"]
