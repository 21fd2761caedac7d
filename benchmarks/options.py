"""Types of command-line options with their ranges: what is wrong is one line of argparse."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least `least`."""

    def read(text: str) -> int:
        if not text.lstrip("-").isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
        return int(text)

    return read


def proportion(text: str) -> float:
    """A number above 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and below 1, got {text!r}")
    return value


def existing_folder(text: str) -> Path:
    """A folder that is there."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return Path(text)


def add_commanded(parser: argparse.ArgumentParser) -> None:
    """The options of what replays demonstrations whose actions command some dims."""
    parser.add_argument("--task", default="kitchen-intent")
    parser.add_argument("--source", default="auto", help="of the demonstrations [auto]")
    parser.add_argument("--episodes", type=int, default=None, help="of the demonstrations, as in the training")
    parser.add_argument("--dims", nargs="+", default=["none", "0,1", "0,1,2,3", "5,6,7,8"], help="that are commanded")


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of the command line, with the folder --out made."""
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def run(main: Callable[[], None]) -> None:
    """Call `main`; a mistake in what it was given ends it with one line."""
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
