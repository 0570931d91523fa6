"""The validators of botocore and google-genai, run on converted tools in an environment of their own.

botocore and the Kubernetes client need different versions of python-dateutil, so they cannot share an environment;
google-genai is large. As a script it reads tools by format as JSON and writes what the validators say, one JSON list of
`[format, tool, sentence]`; a validator that is not installed says nothing and is named on standard error.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

VARIABLE = "FAIRLEAD_VALIDATORS_PYTHON"
NEEDED = ("botocore", "google.genai")


def judge(python: str, tools: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """Errors of the validators in the environment of `python` about tools, given by format."""
    command = [python, "-I", str(Path(__file__).resolve())]
    done = subprocess.run(command, input=json.dumps(tools), capture_output=True, text=True, timeout=300, check=True)
    refusals: list[list[str]] = json.loads(done.stdout)
    return refusals


def _bedrock(tools: list[dict[str, Any]]) -> list[list[str]]:
    import botocore.session
    from botocore.validate import ParamValidator

    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("Converse").input_shape
    refusals = []
    for tool in tools:
        request = {"modelId": "m", "messages": [], "toolConfig": {"tools": [tool]}}
        report = ParamValidator().validate(request, shape)
        if report.has_errors():
            refusals.append(["bedrock-converse", str(tool["toolSpec"]["name"]), report.generate_report()])
    return refusals


def _gemini(name: str, tools: list[dict[str, Any]]) -> list[list[str]]:
    from google.genai import types
    from pydantic import ValidationError

    refusals = []
    for tool in tools:
        try:
            types.Tool.model_validate({"functionDeclarations": [tool]})
        except (ValidationError, AttributeError) as error:  # its enumerations call `upper` on whatever they get
            refusals.append([name, str(tool["name"]), str(error)])
    return refusals


def _main() -> None:
    missing = [name for name in NEEDED if not _is_installed(name)]
    tools = json.load(sys.stdin)
    refusals: list[list[str]] = []
    for name in tools:
        if name == "bedrock-converse" and "botocore" not in missing:
            refusals += _bedrock(tools[name])
        elif name.startswith("gemini") and "google.genai" not in missing:
            refusals += _gemini(name, tools[name])
    sys.stderr.write("".join(f"{name} is not installed\n" for name in missing))
    json.dump(refusals, sys.stdout)


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    _main()
