"""A modern server that accepts only tokens of a `tokenendpoint.TokenEndpoint`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rawserver import Reply, Request
from tokenendpoint import TokenEndpoint
from toolservers import answer_modern, tool


@dataclass
class TokenProtectedServer:
    """Handler that lists a tool `add` to callers with a token of `provider`; a refusal quotes the token."""

    provider: TokenEndpoint
    refused: set[str] = field(default_factory=set)
    """Valid tokens that the server refuses nevertheless."""
    scope: str = ""
    """Scope that a token needs."""
    refuse_all: bool = False
    seen: list[str] = field(default_factory=list)

    async def __call__(self, request: Request, reply: Reply) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.seen.append(token)
        try:
            claims = self.provider.verify(token)
        except ValueError:
            claims = {}
        if not claims or token in self.refused or self.refuse_all:
            reply.send(401, f"not {token}".encode(), www_authenticate='Bearer error="invalid_token"')
        elif self.scope and self.scope not in claims["scope"].split():
            challenge = f'Bearer error="insufficient_scope", scope="{self.scope}"'
            reply.send(403, b"more", www_authenticate=challenge)
        else:
            answer_modern(request, reply, [tool("add")])
