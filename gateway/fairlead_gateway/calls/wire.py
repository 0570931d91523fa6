"""What is looked at in a tool's result, and in a notification of progress.

Declarations only, for `calls.translate`.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

TOKEN: Final = "progressToken"  # noqa: S105 - the name of a member


class Result(msgspec.Struct):
    """What is looked at in a result. Types are checked, so that no client meets `isError: "yes"`."""

    is_error: bool = msgspec.field(name="isError", default=False)
    result_type: str | UnsetType = msgspec.field(name="resultType", default=UNSET)
    meta: Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


class Progress(msgspec.Struct):
    """Whose progress a notification tells of."""

    token: Raw = msgspec.field(name=TOKEN)
