"""What every script shares: a user's mistake is one clean line and exit code 2, never a traceback."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable


def clean_errors(main: Callable[..., None]) -> Callable[..., None]:
    """Turn a ValueError or OSError of `main` into one line on stderr and exit code 2.

    Goes under `@hydra.main`, so that hydra never sees the error:

        @hydra.main(config_path="../configs", config_name="train_policy", version_base=None)
        @clean_errors
        def main(config: DictConfig) -> None: ...
    """

    @functools.wraps(main)
    def run(*args: object) -> None:
        try:
            main(*args)
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would break into the exit
            print("interrupted", file=sys.stderr)
            sys.exit(130)

    return run
