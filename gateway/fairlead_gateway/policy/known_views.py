"""The views that were put together before, in one look: that of every request.

Pure module, and compiled; that of `selection` is not, as selections are held weakly and compiled objects cannot be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.view import View

if TYPE_CHECKING:
    from fairlead_gateway.policy.subject_views import SubjectViews


class KnownViews:
    """Views of one selection. `targets` are those of subjects of whom no policy speaks, by request target; `enforced`:
    whether any policy speaks of anybody.
    """

    __slots__ = ("_enforced", "_targets", "of_subject")

    def __init__(self, targets: dict[bytes, View], *, enforced: bool) -> None:
        self._targets = targets
        self._enforced = enforced
        self.of_subject: dict[Identity, SubjectViews] = {}
        """Views by subject, for those whose rule set is known. Another thread may look here too."""

    def find(self, identity: Identity, target: bytes) -> View | None:
        """The view of a target; None where it was not put together before or does not exist: see `Selection.ready`."""
        if not self._enforced:
            return self._targets.get(target)
        views = self.of_subject.get(identity)
        if views is None:
            return None
        views.is_used = True
        return views.views.get(target)
