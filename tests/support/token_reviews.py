"""Reviews tokens of ServiceAccounts in place of an API server.

tokens = ServiceAccountTokens(cast("Kube", Reviewer("fairlead")), ["fairlead"], 60.0)
"""

from __future__ import annotations

from typing import Any

import msgspec


class Reviewer:
    """Reviews tokens as an API server does: a review returns the requested audiences that the token has. All tokens
    belong to one ServiceAccount, and have one audience.
    """

    def __init__(self, audience: str) -> None:
        self.audience = audience

    async def review(self, resource: Any, spec: dict[str, Any], kind: Any) -> Any:
        audiences = [name for name in spec["audiences"] if name == self.audience]
        user = {"username": "system:serviceaccount:shop:npc", "uid": "1", "groups": []}
        return msgspec.convert(
            {"status": {"authenticated": bool(audiences), "audiences": audiences, "user": user}}, type=kind
        )
