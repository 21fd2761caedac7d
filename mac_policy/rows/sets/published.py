"""Published data sets: where their files lie on this machine, and how to get them where they do not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mac_policy.common.download import Download, fetch

CACHE = "MAC_CACHE"


@dataclass(frozen=True)
class Published:
    """A data set as it is published.

    >>> from mac_policy.rows.sets.published import Published
    >>> Published("text8", files=("text8",), markers=("text8*",), downloads=()).folders
    ('text8', '')
    """

    name: str
    files: tuple[str, ...]
    """The names to expect, for people."""
    markers: tuple[str, ...]
    """Patterns; a folder with a file of each is taken."""
    downloads: tuple[Download, ...]
    aliases: tuple[str, ...] = ()
    """Folders that may hold the files, below a root, besides `name` and the root itself."""
    home: str | None = None
    """The cache's folder for downloads, where it is not `name`; one of the aliases."""
    has_folder: bool = False
    """Whether the files are told by the folder they are in alone; then a root itself is not taken for it."""

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.name, *self.aliases) if self.has_folder else (self.name, *self.aliases, "")

    def locate(self, root: str | Path | None = None, *, download: bool = False, console: Console | None = None) -> Path:
        """The folder with the files: in `root`, else in $MAC_DATA, else among those downloaded before.

        `download` fetches them where they are nowhere; an error says how to get them otherwise.
        """
        roots = list(search_roots(root))
        for candidate in (place / folder for place in roots for folder in self.folders):
            if self.is_in(candidate):
                return candidate
        if not download or root is not None or not self.downloads:
            raise ValueError(self.how_to_get(roots, root))
        target = self.target
        for entry in self.downloads:
            fetch(entry, target, console or Console(stderr=True))
        if not self.is_in(target):
            raise ValueError(f"{target} has no {' and '.join(self.markers)} after the download of {self.name}")
        return target

    @property
    def target(self) -> Path:
        """Where a download goes."""
        return cache_folder() / (self.home or self.name)

    def is_in(self, folder: Path) -> bool:
        return folder.is_dir() and all(next(folder.glob(marker), None) is not None for marker in self.markers)

    def how_to_get(self, roots: list[Path], root: str | Path | None) -> str:
        """What was looked for and where, and the ways to get it."""
        lines = [f"{self.name}: no {', '.join(self.files)} in"]
        lines += [f"  {place} (or its {' or '.join(filter(None, self.folders))})" for place in roots]
        lines += ["How to get it:"]
        lines += [f"  {entry.url}{entry.facts()}" for entry in self.downloads]
        lines += [
            f"  unpack it into a folder {self.home or self.name}; data.root or $MAC_DATA is the folder above that"
        ]
        if self.downloads and root is None:
            lines += [f"  or let data.download=true fetch it into {self.target}"]
        return "\n".join(lines)


def search_roots(root: str | Path | None) -> Iterator[Path]:
    """An explicit root alone; else $MAC_DATA, if set, and the cache."""
    if root is not None:
        yield Path(root).expanduser()
        return
    if os.environ.get("MAC_DATA"):
        yield Path(os.environ["MAC_DATA"])
    yield cache_folder()


def cache_folder() -> Path:
    """Where downloads are kept: $MAC_CACHE, else ~/.cache/mac-policy."""
    given = os.environ.get(CACHE)
    return Path(given) if given else Path.home() / ".cache" / "mac-policy"


def sole_file(folder: Path, *names: str) -> Path | None:
    """The first of these files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)
