"""A guard of the product, and the attack that it stops. The lists of them are in `guards`."""

from __future__ import annotations

from dataclasses import dataclass

GATEWAY = "fairlead_gateway"
AT = "tests/component/gateway"


@dataclass(frozen=True)
class Guard:
    """`swaps` are texts of the module, each of which is there once, and what stands in its place without the guard.
    The module may be a file of the chart, by its path. `shows` is in the report of the failed test: the attack
    succeeded, and nothing else went wrong.
    """

    attack: str
    module: str
    swaps: tuple[tuple[str, str], ...]
    test: str
    shows: str
