"""What becomes of an input: refused with an error of the allowed kinds, accepted, or a defect."""

from __future__ import annotations

import traceback
from typing import NamedTuple


class Started(BaseException):
    """The work begins here: everything before it accepted the input."""


def started(*args, **settings):
    raise Started


class Outcome(NamedTuple):
    kind: str
    """refused, started, done, or a defect: traceback."""
    message: str = ""
    value: object = None
    """What a call that is done returned."""


def outcome(call, *args, allowed=(ValueError, OSError), **settings):
    """What a call does with its arguments."""
    try:
        value = call(*args, **settings)
    except Started:
        return Outcome("started")
    except allowed as error:
        return Outcome("refused", str(error))
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("traceback", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")
    return Outcome("done", value=value)
