"""The page `/console/budget`: plans which tools fit into a model's context together with messages."""

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
MAX_SHOWN: Final = 100
"""Maximum number of tools that one list shows."""


class PlannedNames(msgspec.Struct, frozen=True):
    """Names of the offered tools, by the names that the model sees."""

    names: dict[str, str]


class PlanOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """Members of a plan that the page shows. The definitions of tools, which may have megabytes, are not decoded."""

    model: str
    offer: PlannedNames
    numbers: Numbers
    cut: tuple[Cut, ...] = ()
    skipped: tuple[SkippedModel, ...] = ()
    offline: tuple[str, ...] = ()
    exposure: ExposureAdvice | None = None


class BudgetForm(msgspec.Struct, frozen=True):
    """Submitted form."""

    model: str = DEFAULT
    messages: str = ""
    """Plain text of a user's message, or messages as JSON in any provider's format."""
    max_tools: str = ""
    calls: str = "1"

    def body(self) -> dict[str, Any]:
        """Make the body of the request to the REST API. Raises ValueError with a sentence for the visitor."""
        members: dict[str, Any] = {"models": [model.strip() for model in self.model.split(",") if model.strip()]}
        text = self.messages.strip()
        if text:
            members["messages"] = _json(text) if text[0] in "[{" else [{"role": "user", "content": text}]
        if self.max_tools.strip():
            members["maxTools"] = _whole_number(self.max_tools, "the limit of tools")
        return {**members, "task": {"calls": _whole_number(self.calls or "1", "the number of calls")}}


def router(console: ConsoleContext) -> APIRouter:
    """Make the routes of the page."""
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
            most=MAX_SHOWN,
            models=[model.id for model in models.data][:300],
        )

    @routes.get(PATH)
    async def show_form(request: Request) -> Response:
        return await page(request, BudgetForm(), None, "", 200)

    @routes.post(PATH)
    async def show_plan(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        form = BudgetForm(**{name: fields.get(name, "") for name in BudgetForm.__struct_fields__})
        try:
            plan = await visit.api.post("/v1/plan", form.body(), PlanOutcome)
        except RestProblem as error:
            return await page(request, form, None, _sentence(error.document), 200)
        except ValueError as error:
            return await page(request, form, None, str(error), 400)
        return await page(request, form, plan, "", 200)

    return routes


def _sentence(problem: ProblemDocument) -> str:
    remedies = f" Any one of these would be enough: {'; '.join(problem.would_fit)}." if problem.would_fit else ""
    return f"{problem.title}: {problem.detail}.{remedies}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the messages begin like JSON but are not valid JSON: {error}") from error


def _whole_number(text: str, label: str) -> int:
    if not (text.strip().isdecimal() and len(text) < 9):
        raise ValueError(f"{label} must be a whole number")
    return int(text)
