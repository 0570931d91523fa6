"""Playlists by mood: audio files of the data folder, or titles of music that a client has to find by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

ENDINGS: Final = frozenset({".aac", ".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav"})
MOST_TRACKS: Final = 500
"""Maximum number of files of one mood; further files are left out."""
MOST_MOODS: Final = 200
TITLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "battle": ("Holst: Mars, the Bringer of War", "Prokofiev: Battle on the Ice"),
        "calm": ("Satie: Gymnopédie No. 1", "Debussy: Clair de lune"),
        "mystery": ("Saint-Saëns: Aquarium", "Holst: Neptune, the Mystic"),
        "sorrow": ("Chopin: Prelude in E minor, Op. 28 No. 4", "Grieg: Åse's Death"),
        "tavern": ("Playford: Greensleeves", "Susato: La Mourisque"),
        "travel": ("Grieg: Morning Mood", "Smetana: Vltava"),
    }
)
"""Titles of music, by mood, for moods without files. Clients that have this music can play it."""


@dataclass(frozen=True)
class Track:
    """One piece of music. `file` is None if only the title is known."""

    title: str
    file: Path | None = None


class Playlists:
    """Moods and their tracks. Each folder of `root` is a mood with its audio files. Folders are read at each call."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def moods(self) -> list[str]:
        """All moods, sorted."""
        return sorted({*TITLES, *self._folders()})[:MOST_MOODS]

    def tracks(self, mood: str) -> list[Track]:
        """Tracks of a mood: its files, or its titles if it has no files; empty for an unknown mood."""
        folder = self._folders().get(mood)
        files = [] if folder is None else sorted(self._files(folder))[:MOST_TRACKS]
        if files:
            return [Track(file.stem, file) for file in files]
        return [Track(title) for title in TITLES.get(mood, ())]

    def _folders(self) -> dict[str, Path]:
        try:
            return {each.name.casefold(): each for each in self._root.iterdir() if each.is_dir()}
        except FileNotFoundError:
            return {}

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        return [each for each in folder.iterdir() if each.suffix.lower() in ENDINGS and each.is_file()]
