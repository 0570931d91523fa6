"""`fairlead convert`: converts tool definitions from one format to another, without a gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from fairlead_cli.failure import FAILED, USAGE_ERROR, Failure
from fairlead_cli.models.printed_tools import print_tools_and_losses
from fairlead_cli.output import Output
from fairlead_formats.registry import UnknownFormat, find
from fairlead_formats.tool_format import Options
from fairlead_formats.tools.between import between
from fairlead_mcp.misread_values import explain_misreading


def run_convert(file: str, source: str, target: str, options: Options, output: Output, *, losses: bool = False) -> None:
    """Convert a file and print the outcome. Exits with 1 if a tool was refused."""
    try:
        conversion = between(read_json(file), find(source), find(target), options)
    except UnknownFormat as error:
        raise Failure(str(error), code=USAGE_ERROR) from error
    print_tools_and_losses("convert", msgspec.to_builtins(conversion), output, losses=losses)
    if any(loss.action == "refused" for loss in conversion.report):
        sys.stdout.flush()
        sys.exit(FAILED)


def read_json(file: str) -> Any:
    """Parse a JSON file, or standard input for `-`. Raises Failure."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror or error}", code=USAGE_ERROR) from error
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failure(explain_misreading(error, file), code=USAGE_ERROR) from error
