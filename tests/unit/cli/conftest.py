"""Fixtures of the tests of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead_cli.wording import NAMED_URL


@pytest.fixture(autouse=True)
def no_named_url() -> Iterator[None]:
    """Hints without `--url`, whatever gateway a test before named in this process."""
    token = NAMED_URL.set("")
    yield
    NAMED_URL.reset(token)
