"""Choice of the line in a program's standard error that says why it failed.

The last line is the wrong one for many programs: npm ends with the path of its log, docker with advice, Node.js with
its version, Java with a stack frame. `diagnosis` reads the lines into statements and ranks each by the table `_ROWS`;
the last statement of the highest rank is the answer. A traceback, npm's block of errors or uv's chain of causes is one
statement. Progress, banners, warnings and advice are never chosen.

This file imports the standard library only, because the runner image has a copy of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

MOST_LINES: Final = 100
"""Lines that are read, counted from the end."""
_READ_CHARACTERS: Final = 600
"""Characters of a line that are read, from its start."""
MOST_CHARACTERS: Final = 400
"""Most characters of the chosen line."""


class LineRank(IntEnum):
    """How likely a statement is the reason of a failure."""

    NOISE = 0
    """Never the reason."""
    INDENTED = 1
    """Indented, so that it continues another statement."""
    PLAIN = 2
    """Any other line."""
    COMPLAINT = 3
    """Has words of failure."""
    FAILURE = 4
    """Has the form in which a known program prints its errors."""


class _Row(NamedTuple):
    """Pattern of lines, with the rank of the statement in such a line."""

    rank: LineRank
    pattern: re.Pattern[str]
    """The statement is the group `reason` if the pattern has one, else the whole line."""


class _Statement(NamedTuple):
    """One statement of a program: a line, or several lines that belong together, joined."""

    rank: LineRank
    text: str


def _row(rank: LineRank, pattern: str, flags: int = 0) -> _Row:
    return _Row(rank, re.compile(pattern, flags))


_ROWS: Final = (
    # uv and uvx, before the row that ranks warnings as noise
    _row(LineRank.FAILURE, r"^(?:warning: )?(?P<reason>An executable named \S+ is not provided by package .*)"),
    _row(LineRank.FAILURE, r"^The executable \S+ was not found"),
    _row(LineRank.FAILURE, r"^Package \S+ does not provide any executables"),
    _row(LineRank.NOISE, r"^(?:The following executables are (?:available|provided)|Consider using|- )"),
    _row(LineRank.NOISE, r"^\s*(?:Installed|Resolved|Prepared|Downloaded|Audited|Uninstalled) \d+ packages? "),
    _row(LineRank.NOISE, r"^\s*(?:Building|Built|Downloading|Downloaded|Updating|Updated|Creating virtual) "),
    # npm and npx, before the rows for errors of any program
    _row(LineRank.NOISE, r"^npm (?:warn|notice|http|info|verb|sill|timing)\b", re.IGNORECASE),
    _row(LineRank.FAILURE, r"^\s*ERR_PNPM_"),
    # docker and podman
    _row(
        LineRank.NOISE, r"^(?:Unable to find image|Trying to pull|[0-9a-f]{12}: |Digest: |Status: |\S+: Pulling from)"
    ),
    _row(LineRank.NOISE, r"^(?:See|Run|Try) ['\"`]?\S.*--?h(?:elp)?\b"),
    _row(LineRank.FAILURE, r"^docker: (?P<reason>.*)"),
    _row(LineRank.FAILURE, r"Is the docker daemon running\?"),
    # Node.js
    _row(LineRank.NOISE, r"^(?:Node\.js v\d|Require stack:|Emitted 'error' event|Thrown at:|\(node:\d+\)|\(Use `node)"),
    _row(LineRank.COMPLAINT, r"\bTypeError: fetch failed$"),  # its cause says more
    _row(LineRank.COMPLAINT, r"^\s+\[cause\]: (?P<reason>\w*Error\b.*?)(?: \{)?$"),
    _row(LineRank.FAILURE, r"(?P<reason>The promise rejected with the reason .*?)\]?(?: \{)?$"),
    _row(LineRank.FAILURE, r"^\S*node: (?:bad option|.* requires an argument)"),
    # Python
    _row(LineRank.COMPLAINT, r"^(?:KeyboardInterrupt|(?:asyncio\.\w+\.)?CancelledError|SystemExit)\b"),
    _row(LineRank.NOISE, r"^(?:During handling of the above exception|The above exception was the direct cause)"),
    _row(LineRank.NOISE, r"^[^\s:]+:\d+: \w*Warning: |^\w*Warning: "),
    # log of the package mcp, without a level; in a narrow terminal, it breaks the line before the name
    _row(LineRank.NOISE, r"^Processing request of type\b[ \w]*$"),
    _row(
        LineRank.NOISE,
        r"^\s*(?:Initialize|Ping|Complete|Subscribe|Unsubscribe|(?:List|Call|Get|Read|Set)[A-Za-z]+)Request\s*$",
    ),
    _row(LineRank.FAILURE, r": (?:can't open file |No module named )"),
    # Go, Rust, Java
    _row(LineRank.NOISE, r"^(?:goroutine \d+ |\[signal |exit status \d+$|created by |stack backtrace:|note: )"),
    _row(LineRank.NOISE, r"^(?=[^\s(]*[./])[^\s(:]++\(.*\)$"),  # Go: the function of a frame
    _row(LineRank.NOISE, r"^Caused by: |^\.\.\. \d+ more"),
    _row(LineRank.FAILURE, r"^Exception in thread \"[^\"]*\" (?P<reason>.*)"),
    _row(LineRank.FAILURE, r"^panic: (?!$)"),
    # shells
    _row(
        LineRank.FAILURE, r": (?:(?:command )?not found|[Pp]ermission denied|No such file(?: or directory)?|not set)$"
    ),
    _row(LineRank.FAILURE, r": Syntax error: |: syntax error near "),
    # any program: first an error that is logged at a low level, then lines without errors
    _row(LineRank.FAILURE, r"\b[Uu]ncaught exception: (?P<reason>\S.*)"),
    _row(LineRank.NOISE, r"^\s*(?:hint|tip|help|note|usage|warn|warning|info|debug|notice)\b\s*[:!]", re.IGNORECASE),
    _row(LineRank.NOISE, r"^See (?:also |the |https?://)|^(?:Docs|Documentation): "),
    _row(LineRank.NOISE, r"^(?:A complete log of this run|For more information)|Application startup failed\. Exiting"),
    _row(
        LineRank.FAILURE, r"^(?:[^\s:]+: )?(?:fatal |critical )?(?:error|fatal|critical)\b[^:]{0,60}: ", re.IGNORECASE
    ),
    _row(LineRank.NOISE, r"^(?:.{0,40}\W)?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING)\b"),
    _row(LineRank.NOISE, r"^.{0,40}\[(?:trace|debug|info|notice|warn|warning)\]"),
    _row(
        LineRank.NOISE, r"\blevel=\"?(?:trace|debug|info|notice|warn)|\"level\":\s*(?:[1-4]0\b|\"(?:debug|info|warn))"
    ),
    _row(LineRank.NOISE, r"^\W*+(?:(?:exiting|bye|goodbye|aborted)\W*+)?$", re.IGNORECASE),
    _row(LineRank.NOISE, r"^[╭│╰├─┌└]"),  # the box of a traceback that rich prints
    # any program: then its errors
    _row(
        LineRank.FAILURE,
        r"(?:\blevel=\"?(?:error|fatal)|\"level\":\s*(?:[56]0\b|\"(?:error|fatal)))"
        r".{0,200}?(?:\bmsg=\"|\"(?:msg|message)\":\s*\")(?P<reason>(?:[^\"\\]|\\.)*)",
        re.IGNORECASE,
    ),
    _row(LineRank.FAILURE, r"\b[A-Z]\w*(?:Error|Exception)(?: \[\w+\])?(?:: |$)"),
    _row(LineRank.FAILURE, r"^(?:.{0,60}\W)?(?:ERROR|FATAL|CRITICAL|SEVERE)\b"),
    _row(LineRank.FAILURE, r"^(?:unknown (?:shorthand )?flag|unknown option|unrecognized (?:option|argument))"),
    _row(LineRank.INDENTED, r"^\s"),
    _row(
        LineRank.COMPLAINT,
        r"\b(?:fail(?:ed|ure|s)?|error|fatal|can(?:not|'t)|could(?: not|n't)|unable|no such|missing|requires?d?|must"
        r"|invalid|unknown|unexpected|unsupported|denied|refused|forbidden|unauthori[sz]ed|revoked|expired|timed out"
        r"|timeout|already in use|please (?:set|provide|specify|install)|not (?:found|set|installed|supported"
        r"|available|configured|provided|defined|exist|allowed)|does(?: not|n't)|is deprecated)\b",
        re.IGNORECASE,
    ),
    _row(
        LineRank.NOISE,
        r"\b(?:(?:running|listening|serving|started|ready) (?:on|at|with)|shutting down)\b",
        re.IGNORECASE,
    ),
    _row(LineRank.PLAIN, r""),
)
"""The first row whose pattern matches decides the rank of a line."""

_NPM: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"^404 +(?P<reason>.*(?:could not be found|is not in this registry).*)",
        r"^notarget (?P<reason>No matching version .*)",
        r"^(?P<reason>npx canceled due to .*)",
        r"^(?P<reason>could not determine executable to run.*)",
        r"^(?P<reason>Missing script: .*)",
        r"^enoent (?P<reason>(?!This is related).+)",
        r"^JSON\.parse (?P<reason>Invalid .*)",
        r"^(?P<reason>\w*Error: .*)",
        r"^(?P<reason>(?:request to|network) .*)",
        r"^(?P<reason>404 Not Found .*)",
    )
)
"""Patterns of statements in npm's block of errors, the most specific first."""
_NPM_FIELD: Final = re.compile(r"^(code|syscall|path) (.+)")
_NPM_NOISE: Final = re.compile(
    r"^(?:\s|$|errno |dest |cwd |signal |command |Lifecycle script|workspace |location |[}\]]|A complete log"
    r"|Log files were not|You can rerun|Your cache folder|To permanently fix|To see a list|If you are behind"
    r"|404 Note|404 tarball|404 *$|notarget In most|enoent|JSON\.parse|code \d+$|node-)"
)
_NPM_LINE: Final = re.compile(r"^npm (?:error|ERR!)(?: (.*))?$")
_CHAIN: Final = re.compile(r"^(?:error: |\s*× )(?P<reason>.*)")
_CAUSE: Final = re.compile(r"^\s+(?:cause: |Caused by: |[├╰]─▶ ?)(?P<reason>.*)")
_CONTINUED: Final = re.compile(r"^ {6}\S")
_GENERIC: Final = re.compile(r"^No solution found|^Request failed after")
_TRACEBACK: Final = re.compile(r"^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME: Final = re.compile(r"^\s+File \"|^[\s^~]*$")
"""Lines of a frame other than its statement."""
_WITHOUT_MESSAGE: Final = re.compile(r"[\w.]*(?:Error|Exception)")
_PANIC: Final = re.compile(r"^thread '.*panicked at (?:'(?P<reason>.*)', )?\S+:\d+")
_LOCATION: Final = re.compile(r"^(?:file://)?(?:/|node:|[A-Za-z]:\\)\S*:\d+$")
_UNFINISHED: Final = re.compile(
    r"[\[{:(]$|^\S*ValidationError: .* for \S+$|^An executable named \S+ is not provided by package \S+\.$"
)
"""Lines that continue in the next lines; uvx goes on with a list of the executables, and with the right command."""
_UNKNOWN_REQUEST: Final = re.compile(r"^(?:.*\W)?Failed to validate request: \d+ validation errors? for ClientRequest$")
"""Log of version 1 of the package mcp about a request that it does not know, such as `server/discover`. The server goes
on running.
"""
_UNKNOWN_REQUEST_DETAIL: Final = re.compile(r"^\s+\S|^\w+Request\.[\w.]+$")
_USAGE: Final = re.compile(r"^\s*usage:\s+\S", re.IGNORECASE)
_GROUP_START: Final = re.compile(r"^\s*\+ Exception Group Traceback |^\s+\+-{16,}(?: \d+ -{16,})?$")
"""Beginning of the box of an exception group, or a line between two of its exceptions: of a long one, the beginning is
not among the lines that are read.
"""
_GROUP_BORDER: Final = re.compile(r"^\s*\| ?|^\s*\+[-+ \d]*$")
_TIME: Final = re.compile(
    r"^\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?[ :-]*(?=\S)"
)  # timestamp in front of a line
_LOG_LEVEL: Final = re.compile(r"^(?:\[(?:TRACE|DEBUG|INFO|NOTICE)\b[^\]]*\]|(?:TRACE|DEBUG|INFO|NOTICE)\b)[\s:|-]*")
"""Level below that of a warning in front of a line, with what follows it in the same brackets."""

_RICH_LOG: Final = re.compile(
    r"^(?:\[[^\]\s][^\]]{0,30}\]| {4,}) (?P<level>TRACE|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) +(?P<message>\S.*)"
)
"""First line of a log entry by rich, as servers of FastMCP print it: time, level and message in columns. Entries of the
same second have no time."""
_SOURCE: Final = re.compile(r"\s+\S+\.py:\d+$")
"""Last column of that line."""


def diagnosis(lines: Iterable[str]) -> str:
    """Choose the line that says why a program failed. `lines` is its standard error, oldest line first.

    Empty if no line says so. Returns at most `MOST_CHARACTERS`; the caller has to remove control characters.
    """
    best = _Statement(LineRank.NOISE, "")
    last_lines = [line[:_READ_CHARACTERS].rstrip() for line in lines][-MOST_LINES:]
    statements = _without_help(_statements(_unwrapped(_flat(last_lines))))
    for statement in statements:
        if statement.rank >= best.rank and statement.rank is not LineRank.NOISE and statement.text:
            best = statement
    if not best.text and statements:
        best = _logged_complaint(statements[-1].text)
    text = " ".join(_TIME.sub("", best.text.strip()).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _logged_complaint(line: str) -> _Statement:
    """The words of failure in a line that is logged at the level DEBUG or INFO, as some programs log why they exit."""
    message, levels = _LOG_LEVEL.subn("", _TIME.sub("", line.strip()))
    ranked = _rank(message)
    return ranked if levels and ranked.rank >= LineRank.COMPLAINT else _Statement(LineRank.NOISE, "")


def _without_help(statements: Iterable[_Statement]) -> list[_Statement]:
    """Remove help text after its usage line, except failures and the last line. The usage line stays, as it is the
    reason if the program prints nothing else: arguments are missing.
    """
    nonempty = [statement for statement in statements if statement.text.strip()]
    at = next((index for index, statement in enumerate(nonempty) if _USAGE.match(statement.text)), None)
    if at is None:
        return nonempty
    failures = [statement for statement in nonempty[at + 1 : -1] if statement.rank >= LineRank.FAILURE]
    last = [statement for statement in nonempty[at + 1 :][-1:] if statement.rank >= LineRank.COMPLAINT]
    return [*nonempty[:at], _Statement(LineRank.PLAIN, nonempty[at].text), *failures, *last]


def _flat(lines: list[str]) -> list[str]:
    """Remove the box that Python draws around the exceptions of a group."""
    if not any(_GROUP_START.match(line) for line in lines):
        return lines
    return [_GROUP_BORDER.sub("", line) for line in lines]


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Join the lines over which rich has wrapped the message of a log entry, below its column."""
    joined: list[str] = []
    column = 0
    for line in lines:
        if entry := _RICH_LOG.match(line):
            column = entry.start("message")
            joined.append(f"{entry['level']} {_SOURCE.sub('', entry['message'])}")
        elif column and line[:column].isspace() and line[column : column + 1].strip("╭│╰"):
            joined[-1] += f" {line.strip()}"
        else:
            column = 0
            joined.append(line)
    return joined


def _statements(lines: Sequence[str]) -> Iterator[_Statement]:
    at, ignored = 0, False
    while at < len(lines):
        line = lines[at]
        if _UNKNOWN_REQUEST.match(line):
            at = _while(lines, at + 1, _UNKNOWN_REQUEST_DETAIL)
        elif _NPM_LINE.match(line):
            end = _while(lines, at, _NPM_LINE)
            yield _Statement(LineRank.FAILURE, _npm([_NPM_LINE.sub(r"\1", each) for each in lines[at:end]]))
            at = end
        elif _TRACEBACK.match(line):
            exception, at = _find_raised(lines, at + 1)
            yield _Statement(LineRank.NOISE if ignored else _rank(exception).rank, exception)
        elif (chain := _CHAIN.match(line)) and at + 1 < len(lines) and _CAUSE.match(lines[at + 1]):
            text, at = _follow_chain(chain["reason"], lines, at + 1)
            yield _Statement(LineRank.FAILURE, text)
        elif panic := _PANIC.match(line):
            at += 1
            yield _Statement(LineRank.FAILURE, panic["reason"] or (lines[at] if at < len(lines) else ""))
            at += panic["reason"] is None
        elif _LOCATION.match(line):
            at += 2  # Node.js prints file and line of an error, then the source line
        else:
            at += 1
            yield _rank(_finish(line, lines[at : at + 8]) if not line[:1].isspace() else line)
        ignored = line.startswith("Exception ignored in")


def _rank(line: str) -> _Statement:
    if not line:
        return _Statement(LineRank.NOISE, "")
    row, match = next((row, match) for row in _ROWS if (match := row.pattern.search(line)))
    reason = match.groupdict().get("reason")
    return _Statement(row.rank, line if reason is None else reason)


def _while(lines: Sequence[str], at: int, pattern: re.Pattern[str]) -> int:
    """Return the index of the first line at or after `at` that does not match."""
    while at < len(lines) and pattern.match(lines[at]):
        at += 1
    return at


def _npm(block: Sequence[str]) -> str:
    """Return the reason in npm's block of errors, without prefixes; empty if it only repeats that a script failed."""
    for pattern in _NPM:
        for line in block:
            if match := pattern.match(line):
                return match["reason"]
    for line in block:
        if not _NPM_NOISE.match(line) and not _NPM_FIELD.match(line):
            return line
    fields = {match[1]: match[2] for line in block if (match := _NPM_FIELD.match(line))}
    code = fields.get("code", "")
    if not code.startswith("E"):
        return ""
    return f"{code}: {fields.get('syscall', '')} {fields.get('path', '')}".rstrip(": ")


def _find_raised(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return the exception of a Python traceback whose frames begin at `at`, and the index after it. An exception
    without a message is followed by the statement that raised it.
    """
    statement = ""
    while at < len(lines):
        line = lines[at]
        at += 1
        if line and not line[0].isspace():
            exception = _finish(line, lines[at : at + 8])
            return f"{exception}: {statement}" if statement and _WITHOUT_MESSAGE.fullmatch(exception) else exception, at
        if not _FRAME.match(line):
            statement = line.strip()
    return "", at


def _follow_chain(first: str, lines: Sequence[str], at: int) -> tuple[str, int]:
    """Join an error and its last cause, as uv and other Rust programs print them. Returns the text, and the index of
    the line after the chain of causes.
    """
    chain = [first.rstrip(":")]
    while at < len(lines) and lines[at][:1].isspace():
        if cause := _CAUSE.match(lines[at]):
            chain.append(cause["reason"])
        elif _CONTINUED.match(lines[at]) and len(chain) > 1 and len(chain[-1]) < MOST_CHARACTERS:
            chain[-1] = f"{chain[-1]} {lines[at].strip()}"
        else:
            break
        at += 1
    specific = [each for each in chain if not _GENERIC.match(each)] or chain
    return specific[0] if len(specific) == 1 else f"{specific[0]}: {specific[-1]}", at


def _finish(line: str, following: Sequence[str]) -> str:
    """Append the following lines to one that ends with an opening bracket, a colon or the like."""
    if not _UNFINISHED.search(line):
        return line
    joined = line
    for more in following:
        if _TRACEBACK.match(more) or re.match(r"^\s+at |^Node\.js v", more) or len(joined) > MOST_CHARACTERS:
            break
        joined = f"{joined} {more.strip()}"
    return joined
