"""A custom tool for the tour: it runs inside the gateway."""

from __future__ import annotations

from fairlead_gateway import tool

USERS = {"ada@example.com": {"id": 7, "name": "Ada"}}


@tool
async def lookup_user(email: str) -> dict[str, object]:
    """Look up a user by email address.

    Args:
        email: The user's email address
    """
    return USERS[email]


@tool(estimated_duration_ms=2000)
async def yearly_report(year: int) -> str:
    """Sum up a year.

    Args:
        year: Which one
    """
    return f"{year}: 12 months"
