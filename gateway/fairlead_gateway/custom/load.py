"""Loads custom tools from entry points of installed packages and from the modules that a setting names.

Runs once, before a gateway is built. A module that cannot be loaded is reported in `LoadedTools.problems`; all other
modules are loaded.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from fairlead_tools.handlers.problems import BadTool
from fairlead_tools.handlers.tool import CustomTool, find_marked
from fairlead_tools.handlers.tools import CustomTools

log = logging.getLogger(__name__)

GROUP: Final = "fairlead.tools"
"""Group of entry points; each refers to a module, a tool, a list of tools or a `CustomTools`."""


class LoadProblem(msgspec.Struct, frozen=True):
    """Failure to load a source of custom tools, or one of the source's tools; `str()` is the message for users."""

    source: str
    """Module or entry point."""
    message: str

    def __str__(self) -> str:
        return f"the custom tools of {self.source}: {self.message}"


class LoadedTools(msgspec.Struct, frozen=True):
    """Custom tools that were loaded, and the reasons why other custom tools were not loaded."""

    tools: CustomTools
    problems: tuple[LoadProblem, ...] = ()


def load(modules: Iterable[str] = (), *, points: Iterable[EntryPoint] | None = None) -> LoadedTools:
    """Load the tools of `modules` and of entry points, by default those of installed packages.

    A module is given as `package.module`, `package.module:member` or the path of a file. If several tools have the same
    name, only the first is loaded.
    """
    tools = CustomTools()
    problems: list[LoadProblem] = []
    installed = entry_points(group=GROUP) if points is None else points
    sources: list[tuple[str, Callable[[], Any]]] = [(name, _importer(name)) for name in modules]
    sources += [(f"{point.name} = {point.value}", point.load) for point in installed]
    for source, import_source in sources:
        count_before = len(tools)
        try:
            source_tools = list(_tools_in(import_source()))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # an author's code may raise anything
            message = f"the source cannot be loaded: {type(error).__name__}: {error}{_location_of(error)}"
            problems.append(LoadProblem(source, message))
            continue
        problems += [LoadProblem(source, message) for message in _add_tools(tools, source_tools)]
        log.info("Loaded %d custom tools of %s", len(tools) - count_before, source)
    tools.problems = len(problems)
    return LoadedTools(tools, tuple(problems))


def _add_tools(tools: CustomTools, custom_tools: list[CustomTool]) -> list[str]:
    problems = [] if custom_tools else ["the source defines no tools: mark functions with @tool"]
    for tool in custom_tools:
        try:
            tools.add(tool)
        except BadTool as error:
            problems.append(str(error))
    return problems


def _importer(source: str) -> Callable[[], Any]:
    def import_source() -> Any:
        if source.endswith(".py") or "/" in source:
            return _from_file(Path(source))
        name, _, member = source.partition(":")
        imported_object: Any = _from_module(name)
        for name_part in member.split(".") if member else ():
            imported_object = getattr(imported_object, name_part)
        return imported_object

    return import_source


def _from_module(name: str) -> ModuleType:
    """Import a module of an installed package; if there is no such module, import one in the working directory."""
    working_directory = str(Path.cwd())
    if working_directory not in sys.path:
        # at the end, so that files in the working directory do not shadow modules of packages
        sys.path.append(working_directory)
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    full_path = path.resolve()
    name = f"fairlead_tools_{full_path.stem}_{abs(hash(full_path)):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full_path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # needed to resolve type hints
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _tools_in(imported_object: Any) -> Iterable[CustomTool]:
    """The tools in an imported object, without duplicates."""
    if isinstance(imported_object, ModuleType):
        members = [value for name, value in vars(imported_object).items() if not name.startswith("_")]
        tools = [each for value in members for each in _tools_of(value)]
    elif isinstance(imported_object, CustomTools | CustomTool) or find_marked(imported_object) is not None:
        tools = list(_tools_of(imported_object))
    elif isinstance(imported_object, Iterable) and not isinstance(imported_object, str):
        tools = [each for value in imported_object for each in (_tools_of(value) or [CustomTool(handler=value)])]
    elif callable(imported_object):
        tools = [CustomTool(handler=imported_object)]
    else:
        raise TypeError(f"{type(imported_object).__name__} is not a tool, a list of tools or a module")
    return {id(tool): tool for tool in tools}.values()


def _tools_of(member: Any) -> list[CustomTool]:
    if isinstance(member, CustomTool):
        return [member]
    if isinstance(member, CustomTools):
        return [prepared.tool for prepared in member]
    mark = find_marked(member)
    return [] if mark is None else [mark]


def _location_of(error: BaseException) -> str:
    """File and line of the author's code that raised an exception, for messages; empty if unknown."""
    location = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<") and "importlib" not in file:
            location = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return location or ""
