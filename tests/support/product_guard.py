"""A guard in the product's code, and the attack that it prevents. The lists are in `guards`."""

from __future__ import annotations

from dataclasses import dataclass

GATEWAY = "fairlead_gateway"
AT = "tests/component/gateway"


@dataclass(frozen=True)
class Guard:
    """`swaps` are texts of the module, each of which occurs once, and their replacements without the guard. The module
    may be a path of a chart file. `shows` is a text in the failed test's report which proves that the attack succeeded
    and nothing else failed.
    """

    attack: str
    module: str
    swaps: tuple[tuple[str, str], ...]
    test: str
    shows: str
