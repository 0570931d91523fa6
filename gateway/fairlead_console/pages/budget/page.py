"""The page `/console/budget`: a plan for a model and messages."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.rest_client import RestProblem
from fairlead_formats.tokens.exposure import ExposureAdvice
from fairlead_formats.tokens.outcome import Cut, Numbers, SkippedModel
from fairlead_offers.problems import ProblemDocument
from fairlead_rest.resources.models import ModelList

PATH: Final = "/console/budget"
ENTRY: Final = NavigationEntry("Budget", PATH, 60)
DEFAULT: Final = "gpt-4o"
MOST: Final = 100
"""Tools of one list; the others are counted."""


class PlannedNames(msgspec.Struct, frozen=True):
    """Names of an offer, as the model sees them, to tools."""

    names: dict[str, str]


class PlanOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a plan that the page shows; definitions are left out, as they may be megabytes."""

    model: str
    offer: PlannedNames
    numbers: Numbers
    cut: tuple[Cut, ...] = ()
    skipped: tuple[SkippedModel, ...] = ()
    offline: tuple[str, ...] = ()
    exposure: ExposureAdvice | None = None


class BudgetForm(msgspec.Struct, frozen=True):
    """Fields of the form."""

    model: str = DEFAULT
    messages: str = ""
    """Plain text, a user's message, or JSON in any provider's form."""
    max_tools: str = ""
    calls: str = "1"

    def body(self) -> dict[str, Any]:
        """The request for a plan. Raises ValueError with a sentence."""
        members: dict[str, Any] = {"models": [model.strip() for model in self.model.split(",") if model.strip()]}
        text = self.messages.strip()
        if text:
            members["messages"] = _json(text) if text[0] in "[{" else [{"role": "user", "content": text}]
        if self.max_tools.strip():
            members["maxTools"] = _whole(self.max_tools, "the limit of tools")
        return {**members, "task": {"calls": _whole(self.calls or "1", "the number of calls")}}


def router(console: ConsoleContext) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter()

    async def page(request: Request, form: BudgetForm, plan: PlanOutcome | None, why: str, status: int) -> Response:
        visit = console.visit(request)
        models = await visit.api.get("/v1/models", ModelList, {"known": "true"})
        return await visit.page(
            "budget/plan.html",
            status,
            form=form,
            plan=plan,
            why=why,
            most=MOST,
            models=[model.id for model in models.data][:300],
        )

    @routes.get(PATH)
    async def empty(request: Request) -> Response:
        return await page(request, BudgetForm(), None, "", 200)

    @routes.post(PATH)
    async def planned(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        form = BudgetForm(**{name: fields.get(name, "") for name in BudgetForm.__struct_fields__})
        try:
            plan = await visit.api.post("/v1/plan", form.body(), PlanOutcome)
        except RestProblem as refused:
            return await page(request, form, None, _sentence(refused.document), 200)
        except ValueError as error:
            return await page(request, form, None, str(error), 400)
        return await page(request, form, plan, "", 200)

    return routes


def _sentence(problem: ProblemDocument) -> str:
    fits = f" It would fit with: {'; '.join(problem.would_fit)}." if problem.would_fit else ""
    return f"{problem.title}: {problem.detail}.{fits}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the messages begin like JSON and are none: {error}") from error


def _whole(text: str, what: str) -> int:
    if not (text.strip().isdecimal() and len(text) < 9):
        raise ValueError(f"{what} is a whole number")
    return int(text)
