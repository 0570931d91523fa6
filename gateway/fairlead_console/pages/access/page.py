"""The page `/console/access`: whether an agent may call a tool, as by the command `fairlead can`."""

from __future__ import annotations

from typing import Final

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.rest_client import RestProblem
from fairlead_offers.problems import ProblemDocument
from fairlead_rest.resources.access import AccessDocument

PATH: Final = "/console/access"
ENTRY: Final = NavigationEntry("Access", PATH, 50)
MAX_FIELD: Final = 8000
"""Maximum length of a field in characters."""


class AccessQuestion(msgspec.Struct, frozen=True):
    """Submitted form."""

    tool: str = ""
    agent: str = ""
    groups: str = ""
    claims: str = ""
    """`NAME=VALUE`, one per line."""
    arguments: str = ""

    @property
    def parameters(self) -> dict[str, str | list[str]]:
        """Query parameters for `/v1/access`, without empty parameters."""
        parameters: dict[str, str | list[str]] = {"tool": self.tool.strip()}
        for name in ("agent", "groups", "arguments"):
            if text := getattr(self, name).strip():
                parameters[name] = text
        if claims := [line.strip() for line in self.claims.splitlines() if line.strip()]:
            parameters["claims"] = claims
        return parameters


def router(console: ConsoleContext) -> APIRouter:
    """Make the route of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def ask(request: Request) -> Response:
        visit, query = console.visit(request), request.query_params
        question = AccessQuestion(
            **{name: query.get(name, "")[:MAX_FIELD] for name in AccessQuestion.__struct_fields__}
        )
        decision: AccessDocument | None = None
        problem: ProblemDocument | None = None
        if question.tool.strip():
            try:
                decision = await visit.api.get("/v1/access", AccessDocument, question.parameters)
            except RestProblem as error:
                problem = error.document
        return await visit.page("access/ask.html", question=question, decision=decision, problem=problem)

    return routes
