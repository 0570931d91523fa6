"""Guards of tool servers that read what the web sends: see `guards`."""

from __future__ import annotations

from product_guard import Guard

_PROCESSES = "fairlead_servers.limited_process"
_AT = "tests/component/servers/test_limited_process.py"
PAGES = (
    Guard(
        "a page that names a codec of Python's, which takes hours",
        "fairlead_servers.web_search.page_text",
        (('encoding = webencodings.lookup(page.charset or "")', 'return page.body.decode(page.charset or "utf-8")'),),
        "tests/unit/servers/test_web_fetching.py::test_a_codec_of_python_is_not_an_encoding_of_the_web",
        "assert ('', 'A+AGE-b') ==",
    ),
    Guard(
        "six pages at once, with a process for each",
        _PROCESSES,
        (("self._slots = asyncio.Semaphore(MAX_PROCESSES)", "self._slots = asyncio.Semaphore(1000)"),),
        f"{_AT}::test_limited_processes_run_three_at_once_and_a_call_that_waits_too_long_is_told_so",
        "assert 6 <= 3",
    ),
    Guard(
        "pages of one host that leave no process for those of others",
        _PROCESSES,
        (("asyncio.Semaphore(MAX_PROCESSES - 1)", "asyncio.Semaphore(MAX_PROCESSES)"),),
        f"{_AT}::test_an_owner_of_processes_leaves_a_slot_to_others",
        "SlotsTaken: no process became free",
    ),
    Guard(
        "a page that takes the memory of the machine",
        _PROCESSES,
        (("ProcessLimits(MAX_MEMORY,", "ProcessLimits(2**40,"),),
        f"{_AT}::test_work_that_needs_more_memory_is_refused_by_the_system",
        "returns more than 32 MiB",
    ),
)
"""Pages that are made to hold up who reads them."""
