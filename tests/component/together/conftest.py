"""Fixtures of these tests: namespaces of a tenant and of a release on the shared API server, and an authorization
server."""

from __future__ import annotations

from operatorworld import world
from tokenproviders import shared_provider

__all__ = ["shared_provider", "world"]
