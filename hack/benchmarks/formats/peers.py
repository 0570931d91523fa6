"""Schema transformers of other projects, run on the same tools in an environment of their own.

The module runs itself as a script with the interpreter FAIRLEAD_PEERS_PYTHON. The script reads schemas as JSON lines
and writes one line per schema: the output of each transformer, or null where it fails.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "FAIRLEAD_PEERS_PYTHON"
Schema = dict[str, Any]


def peers(tools: list[Schema], notes: list[str]) -> list[tuple[str, list[tuple[Schema, Schema, bool]]]]:
    """(name, [(original, converted, strict)]) for each available transformer; a note if there are none."""
    python = os.environ.get(VARIABLE)
    if not python:
        notes.append(f"no peers: {VARIABLE} names no Python with pydantic-ai, openai-agents or litellm")
        return []
    schemas = [tool["inputSchema"] for tool in tools]
    lines = "\n".join(json.dumps(schema) for schema in schemas)
    command = [python, "-I", str(Path(__file__).resolve())]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        notes.append(f"peers failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no message'}")
        return []
    pairs_by_peer: dict[str, list[tuple[Schema, Schema, bool]]] = {}
    failed: dict[str, int] = {}
    for original, line in zip(schemas, done.stdout.splitlines(), strict=True):
        for name, converted in json.loads(line).items():
            if converted is None:
                failed[name] = failed.get(name, 0) + 1
            else:
                pairs_by_peer.setdefault(name, []).append((original, converted, "strict" in name))
    notes += [f"{name}: fails on {count} tools" for name, count in sorted(failed.items())]
    return sorted(pairs_by_peer.items())


def _transformers() -> dict[str, Callable[[Schema], Any]]:
    """Installed transformers. Each may change its argument."""
    out: dict[str, Callable[[Schema], Any]] = {}
    with contextlib.suppress(ImportError):
        from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
        from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

        out["pydantic-ai, openai strict"] = lambda schema: OpenAIJsonSchemaTransformer(schema, strict=True).walk()
        out["pydantic-ai, openai"] = lambda schema: OpenAIJsonSchemaTransformer(schema, strict=False).walk()
        out["pydantic-ai, gemini"] = lambda schema: GoogleJsonSchemaTransformer(schema).walk()
    with contextlib.suppress(ImportError):
        from agents.strict_schema import ensure_strict_json_schema

        out["openai-agents, strict"] = ensure_strict_json_schema
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise its import downloads prices
    with contextlib.suppress(ImportError):
        from litellm.litellm_core_utils.prompt_templates.common_utils import (
            sanitize_input_schema_for_anthropic,
        )
        from litellm.llms.vertex_ai.common_utils import build_vertex_schema

        out["litellm, anthropic"] = sanitize_input_schema_for_anthropic
        out["litellm, gemini parameters"] = build_vertex_schema
    return out


def _answer(transform: Callable[[Schema], Any], schema: Schema) -> Any:
    try:
        return transform(copy.deepcopy(schema))
    except Exception:  # noqa: BLE001 - whatever theirs raises, it did not convert
        return None


if __name__ == "__main__":
    transformers = _transformers()
    for text in sys.stdin:
        given = json.loads(text)
        print(json.dumps({name: _answer(transform, given) for name, transform in transformers.items()}))
