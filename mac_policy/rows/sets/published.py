"""Published data sets: the location of their files on this machine, and their downloads."""

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
    """The files of a published data set, and their downloads.

    >>> from mac_policy.rows.sets.published import Published
    >>> Published("text8", files=("text8",), markers=("text8*",), downloads=()).folders
    ('text8', '')
    """

    name: str
    files: tuple[str, ...]
    """Names of the files, for error messages."""
    markers: tuple[str, ...]
    """Glob patterns. A folder that matches every pattern holds the data set."""
    downloads: tuple[Download, ...]
    aliases: tuple[str, ...] = ()
    """Further folders below a root that may hold the files, besides `name` and the root itself."""
    home: str | None = None
    """The cache folder of the downloads, one of the aliases. None: `name`."""
    has_folder: bool = False
    """Whether only the folder's name identifies the files. If true, the root itself is not searched."""

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.name, *self.aliases) if self.has_folder else (self.name, *self.aliases, "")

    def locate(self, root: str | Path | None = None, *, download: bool = False, console: Console | None = None) -> Path:
        """The folder with the files, below `root` or, if `root` is None, below $MAC_DATA or the cache.

        `download` fetches files that are not found in $MAC_DATA or the cache. Otherwise a ValueError says how to get
        the files.
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
        """The folder that downloads are written to."""
        return cache_folder() / (self.home or self.name)

    def is_in(self, folder: Path) -> bool:
        return folder.is_dir() and all(next(folder.glob(marker), None) is not None for marker in self.markers)

    def how_to_get(self, roots: list[Path], root: str | Path | None) -> str:
        """An error message: the missing files, the searched folders and the ways to get the files."""
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
    """The root if it is given; otherwise $MAC_DATA, if it is set, and the cache."""
    if root is not None:
        yield Path(root).expanduser()
        return
    if os.environ.get("MAC_DATA"):
        yield Path(os.environ["MAC_DATA"])
    yield cache_folder()


def cache_folder() -> Path:
    """The folder of downloads: $MAC_CACHE, by default ~/.cache/mac-policy."""
    given = os.environ.get(CACHE)
    return Path(given) if given else Path.home() / ".cache" / "mac-policy"


def sole_file(folder: Path, *names: str) -> Path | None:
    """The path of the first of these files that exists, or None."""
    return next((folder / name for name in names if (folder / name).is_file()), None)
