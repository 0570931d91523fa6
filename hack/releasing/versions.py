"""Versions of a release in tag, package and chart, and the section of the changelog that is the release note."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from releasing.faults import Fault

UNRELEASED: Final = "Unreleased"
_TAG: Final = re.compile(r"v(\d+\.\d+\.\d+)(?:-rc\.(\d+))?")
_HEADING: Final = re.compile(r"^## \[?([^]\s]+)\]?.*$", re.MULTILINE)


@dataclass(frozen=True)
class Version:
    """A version in both notations."""

    package: str
    """In the notation of PEP 440: `1.2.0rc1`."""
    chart: str
    """In the notation of SemVer, also for images: `1.2.0-rc.1`."""

    @property
    def tag(self) -> str:
        """Tag of the repository."""
        return f"v{self.chart}"


def version_of_tag(tag: str) -> Version:
    """Parse a tag such as `v1.2.0` or `v1.2.0-rc.1`. Raises Fault."""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise Fault(f"{tag} is not a tag of a release: it has to be like v1.2.0 or v1.2.0-rc.1")
    number, candidate = match.groups()
    if candidate is None:
        return Version(number, number)
    return Version(f"{number}rc{candidate}", f"{number}-rc.{candidate}")


def agreed(package: str, chart: str, app: str, tag: str | None) -> Version:
    """Common version of pyproject.toml, Chart.yaml (`version`, `appVersion`) and the tag, if any. Raises Fault if they
    differ.
    """
    version = version_of_tag(f"v{chart}")
    agreement = {"pyproject.toml": package == version.package, "appVersion of Chart.yaml": app == chart}
    wrong = [where for where, right in agreement.items() if not right]
    if tag is not None and version_of_tag(tag) != version:
        wrong.append(f"the tag {tag}")
    if wrong:
        raise Fault(f"Chart.yaml has the version {chart}, which is not that of {' and '.join(wrong)}: make them agree")
    return version


def changelog_section(text: str, version: str) -> str:
    """Text of a version's section of the changelog, or of UNRELEASED. Raises Fault when it is missing or empty."""
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            section = text[heading.end() : following.start() if following else None].strip()
            if section:
                return section + "\n"
    raise Fault(f"CHANGELOG.md says nothing of {version}: it needs a section `## {version}`")


def newest(tags: Iterable[str]) -> Version | None:
    """Newest version among the tags, without release candidates; None if there is none. Other tags are ignored."""
    matches = (_TAG.fullmatch(tag) for tag in tags)
    numbers = [tuple(map(int, match[1].split("."))) for match in matches if match and match[2] is None]
    if not numbers:
        return None
    number = ".".join(map(str, max(numbers)))
    return Version(number, number)
