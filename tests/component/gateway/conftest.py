"""The authorization server that the tests of a module share."""

from __future__ import annotations

from tokenproviders import shared_provider

__all__ = ["shared_provider"]
