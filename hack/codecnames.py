"""Check that no bytes are decoded by a codec that somebody outside names. Run from `hack/check`.

Prints `FILE:LINE: what is wrong; what to write instead` per finding and exits with 1 when there is one.

Python's codecs are more than the encodings of the web: one page with `charset=punycode` holds a processor for hours. In
what ships, the name of an encoding is therefore a literal; names from outside go to `webencodings`. HTTP clients and
forms that take the name from their peer count as well: their bytes are read, and decoded here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from sourcefiles import report, source_files

FOLDERS = ("crds", "operator", "gateway", "examples")
"""Folders of shipped code, and of code that users copy."""
OTHER_DECODERS = ("msgspec.json", "msgspec.msgpack", "_document", "jsonrpc", "jwt", "webencodings", "json")
"""Receivers whose `decode` and `encode` take a document instead of the name of a codec."""
MADE_DECODERS = ("json.JSONDecoder(", "encoder(", "codecs.getincrementaldecoder(")
NAMED = {
    "codecs.decode": 1,
    "codecs.encode": 1,
    "bytes.decode": 1,
    "bytearray.decode": 1,
    "str.encode": 1,
    "str": 1,
    "bytes": 1,
    "bytearray": 1,
    "codecs.lookup": 0,
    "codecs.getdecoder": 0,
    "codecs.getencoder": 0,
    "codecs.getincrementaldecoder": 0,
    "codecs.getincrementalencoder": 0,
    "codecs.getreader": 0,
    "codecs.getwriter": 0,
    "codecs.iterdecode": 1,
    "codecs.iterencode": 1,
    "codecs.open": 2,
    "codecs.EncodedFile": 1,
    "open": 3,
    "io.open": 3,
    "TextIOWrapper": 1,
    "io.TextIOWrapper": 1,
}
"""Functions, with the position of the codec's name among their arguments."""
METHODS = {"decode": 0, "encode": 0, "read_text": 0, "write_text": 1}
CLIENTS = ("httpx", "httpx2", "requests")
OF_THE_PEER = ("text", "iter_text", "aiter_text", "iter_lines", "aiter_lines")
"""Members of responses of `CLIENTS` that decode with the peer's `charset`."""


def main() -> int:
    """Print all findings of the working directory, and return the exit code of the program."""
    return report(finding for file in source_files(Path(), FOLDERS) for finding in chosen_outside(file.name, file.tree))


def chosen_outside(name: str, tree: ast.Module) -> Iterator[str]:
    """Findings in one file."""
    client = any(module in CLIENTS for module in _imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (codec := _codec(node)) is not None and not _is_literal(codec):
            yield (
                f"{name}:{node.lineno}: `{ast.unparse(codec)[:60]}` names the codec; write a literal, or decode by a "
                "label of the web with `webencodings`"
            )
        elif isinstance(node, ast.Await) and (call := _by_the_peer(node.value)):
            yield f"{name}:{node.lineno}: `.{call}()` decodes by the peer's charset; read bytes, and decode these"
        elif client and isinstance(node, ast.Attribute) and node.attr in OF_THE_PEER:
            yield f"{name}:{node.lineno}: `.{node.attr}` decodes by the peer's charset; read bytes, and decode these"


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _codec(call: ast.Call) -> ast.expr | None:
    """Argument of a call that names a codec; None if there is none."""
    function = ast.unparse(call.func)
    for keyword in call.keywords:
        if keyword.arg == "encoding":
            return keyword.value
    at = NAMED.get(function)
    if at is None and isinstance(call.func, ast.Attribute) and not _is_other(function.rpartition(".")[0]):
        at = METHODS.get(call.func.attr)
    return call.args[at] if at is not None and at < len(call.args) else None


def _is_other(receiver: str) -> bool:
    """Whether the call's receiver decodes documents: a module, or a decoder that is created in the same expression."""
    return receiver in OTHER_DECODERS or receiver.startswith(MADE_DECODERS)


def _is_literal(codec: ast.expr) -> bool:
    return isinstance(codec, ast.Constant)


def _by_the_peer(awaited: ast.expr) -> str | None:
    """Name of a method of aiohttp or Starlette that decodes with the peer's `charset` because the call names none."""
    if not isinstance(awaited, ast.Call) or not isinstance(awaited.func, ast.Attribute) or awaited.args:
        return None
    if any(keyword.arg == "encoding" for keyword in awaited.keywords):
        return None
    method, receiver = awaited.func.attr, ast.unparse(awaited.func.value).rpartition(".")[2]
    forms = method in ("post", "form") and receiver.lstrip("_") == "request"
    return method if method in ("text", "json") or forms else None


if __name__ == "__main__":
    sys.exit(main())
