"""The clock of a provider, estimated from the `Date` of its answers."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.oauth.provider_clock import MAX_OFFSET, clock_offset

NOW = 1_795_000_000.0


@pytest.mark.parametrize(("ahead", "offset"), [(120, 120), (-120, -120), (0, 0), (5, 0), (601, 0), (-86_400, 0)])
def test_offset_is_that_of_the_date_within_ten_minutes(ahead: float, offset: float) -> None:
    assert clock_offset(formatdate(NOW + ahead, usegmt=True).encode(), NOW) == offset


@given(st.none() | st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_offset_of_any_bytes_is_bounded(date: bytes | None) -> None:
    assert abs(clock_offset(date, NOW)) <= MAX_OFFSET
