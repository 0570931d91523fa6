"""Cache of compiled schemas, one per gateway.

The schemas of a tool's definition are compiled at the first call of the tool, or in advance if the definition is large.
Above a limit, the schemas that were compiled first are dropped. Parts of a schema that cannot be checked are logged
once per definition and counted.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_api.documents.catalog import definition_hash
from fairlead_tools.validation.checker import Checker
from fairlead_tools.validation.schema_compiler import Compiled, compile_schema

log = logging.getLogger(__name__)

MAX_BYTES: Final = 32 << 20
"""Maximum total size of the cached definitions, in bytes. Compiled schemas take about ten times as much memory."""
LARGE: Final = 8 << 10
"""Size in bytes above which a definition takes milliseconds to compile. A larger definition is compiled before its
snapshot is served, so that no call waits.
"""
MAX_RESULT_BYTES: Final = 4 << 20
"""Maximum number of bytes of a result that is checked; finding `structuredContent` in a larger one takes more than
5 ms.
"""
MAX_REPORTED: Final = 4096
"""Maximum number of definitions that are remembered so that their unusable parts are not logged again."""


class _Definition(msgspec.Struct):
    input: Raw | UnsetType = msgspec.field(name="inputSchema", default=UNSET)
    output: Raw | UnsetType = msgspec.field(name="outputSchema", default=UNSET)


_decode_definition = msgspec.json.Decoder(_Definition).decode


class _Outcome(msgspec.Struct):
    structured: Raw | UnsetType = msgspec.field(name="structuredContent", default=UNSET)
    result_type: Raw | UnsetType = msgspec.field(name="resultType", default=UNSET)


_decode_outcome = msgspec.json.Decoder(_Outcome).decode


class ToolCheck:
    """Validation by the schemas of one definition. `name` is the tool's name in logs."""

    __slots__ = (
        "__weakref__",
        "_checks",
        "_compiled_checks",
        "_output",
        "arguments_checker",
        "declares_output",
        "definition",
        "key",
        "name",
    )

    def __init__(self, checks: Checks, name: str, definition: bytes, key: str) -> None:
        self._checks = checks
        self.definition = definition
        self.key = key
        """Hash of the definition."""
        self.name = name
        self.declares_output = b'"outputSchema"' in definition
        """Whether the definition has an `outputSchema`; otherwise `result` finds no errors."""
        self._compiled_checks = False
        self.arguments_checker: Checker | None = None
        """Checker of arguments; None if there is nothing to check or the schemas are not compiled."""
        self._output: Checker | None = None

    def arguments(self, arguments: bytes | Raw | None) -> str | None:
        """Return the errors in the arguments of a call (raw JSON object or None), one per line; None if there are no
        errors."""
        if not self._compiled_checks:
            self._checks.compile(self)
        return None if self.arguments_checker is None else self.arguments_checker.argument_errors(arguments)

    def result(self, result: bytes | Raw) -> str | None:
        """Return the errors in the `structuredContent` of a raw result, one per line; None if there are no errors. Must
        only be called for results without `isError`.
        """
        if not self._compiled_checks:
            self._checks.compile(self)
        checker = self._output
        if checker is None:
            return None
        if len(result) > MAX_RESULT_BYTES:
            checker.unchecked += 1
            return None
        try:
            outcome = _decode_outcome(result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if outcome.result_type is not UNSET and bytes(outcome.result_type) != b'"complete"':
            return None
        if outcome.structured is UNSET:
            return "structuredContent is missing, which the outputSchema requires"
        return checker.errors(outcome.structured)

    def count_mismatch(self, server: str) -> None:
        """Count a result of a server that does not fit its tool's outputSchema."""
        self._checks.count_mismatch(server)

    # Called by Checks

    def take(self, of_input: Checker | None, of_output: Checker | None) -> None:
        self._compiled_checks = True
        self.arguments_checker = of_input
        self._output = of_output

    def give_back(self) -> int:
        """Drop the compiled schemas and return the number of values that they left unchecked."""
        unchecked = self.unchecked
        self._compiled_checks = False
        self.arguments_checker = None
        self._output = None
        return unchecked

    @property
    def unchecked(self) -> int:
        return sum(checker.unchecked for checker in (self.arguments_checker, self._output) if checker is not None)


class Checks:
    """Cache of compiled schemas by definition. `max_bytes` limits the total size of the definitions in it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._checks: WeakValueDictionary[str, ToolCheck] = WeakValueDictionary()
        self._compiled_checks: OrderedDict[str, ToolCheck] = OrderedDict()
        """Checks with compiled schemas, by hash of the definition, in the order in which they were compiled."""
        self._large: list[ToolCheck] = []
        """Checks that the next call of `take_large` returns."""
        self._reported_hashes: OrderedDict[str, None] = OrderedDict()
        """Hashes of definitions whose unusable parts were logged, oldest first."""
        self._unchecked = 0
        """Number of values that were left unchecked by checks whose compiled schemas were dropped later."""
        self._lock = threading.Lock()
        """Protects the cache: the checks of a new snapshot are compiled in a thread while calls use the cache."""
        self.compiled = 0
        """Number of compilations, including repeated compilations of a definition."""
        self.left_out: dict[str, int] = {}
        """Number of schemas, and parts of schemas, that cannot be checked, by reason."""
        self.mismatched: dict[str, int] = {}
        """Number of results that did not fit their outputSchema, by server."""

    def of(self, server: str, tool: str, definition: bytes, known_hash: str = "") -> ToolCheck:
        """Return the check of a tool by its raw definition; tools with equal definitions share a check.

        `known_hash` is the definition's hash, if it is known. New checks of definitions above LARGE are also returned
        by the next call of `take_large`.
        """
        key = known_hash or definition_hash(definition)
        check = self._checks.get(key)
        if check is None:
            check = self._checks.setdefault(key, ToolCheck(self, f"{tool} of {server}", definition, key))
            if len(definition) > LARGE:
                self._large.append(check)
        return check

    def take_large(self) -> list[ToolCheck]:
        """Return the new checks of large definitions since the last call. They should be compiled in a thread before
        they are used, to keep the event loop free.
        """
        large, self._large = self._large, []
        return large

    @property
    def compiled_now(self) -> int:
        """Number of cached definitions."""
        return len(self._compiled_checks)

    @property
    def unchecked(self) -> int:
        """Number of values that were not checked, because they were too large, too deep or not decodable."""
        return self._unchecked + sum(check.unchecked for check in list(self._compiled_checks.values()))

    def count_mismatch(self, server: str) -> None:
        """Count a result that does not fit its tool's outputSchema."""
        self.mismatched[server] = self.mismatched.get(server, 0) + 1

    def compile(self, check: ToolCheck) -> None:
        """Compile the schemas of a check, and drop old schemas beyond the limit."""
        self.compiled += 1
        try:
            schemas = _decode_definition(check.definition)
        except (msgspec.DecodeError, UnicodeDecodeError):
            schemas = _Definition()
        parts = [("inputSchema", schemas.input, True), ("outputSchema", schemas.output, False)]
        check.take(
            *(self._checker(check, schema_name, raw, of_objects=of_objects) for schema_name, raw, of_objects in parts)
        )
        with self._lock:
            self._store(check)

    def _store(self, check: ToolCheck) -> None:
        self._reported_hashes[check.key] = None
        if len(self._reported_hashes) > MAX_REPORTED:
            self._reported_hashes.popitem(last=False)
        if check.key not in self._compiled_checks:
            self._bytes += len(check.definition)
        self._compiled_checks[check.key] = check
        while self._bytes > self._max_bytes and len(self._compiled_checks) > 1:
            _, oldest = self._compiled_checks.popitem(last=False)
            self._bytes -= len(oldest.definition)
            self._unchecked += oldest.give_back()

    def _checker(self, check: ToolCheck, schema_name: str, raw: Raw | UnsetType, *, of_objects: bool) -> Checker | None:
        compiled = Compiled(None) if raw is UNSET else compile_schema(raw, of_objects=of_objects)
        if check.key not in self._reported_hashes:
            for part in compiled.left_out:
                self.left_out[part.reason] = self.left_out.get(part.reason, 0) + 1
                log.warning(
                    "Values are checked against only part of the %s of the tool %s: %s",
                    schema_name,
                    check.name,
                    part.message,
                )
        return compiled.checker
