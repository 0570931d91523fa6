"""Error of an endpoint in front of models, before a family writes it in its form. Pure module."""

from __future__ import annotations

from collections.abc import Mapping


class LlmError(Exception):
    """An answer that is no success."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """Code of the REST API's problems, or `model_not_found`, `provider_unavailable`, `bad_answer`, `timeout`."""
        self.param = param
        self.headers = dict(headers or {})
