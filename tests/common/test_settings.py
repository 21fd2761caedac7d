"""Settings: every value is checked against the annotation of its field, however the settings are made."""

from __future__ import annotations

import dataclasses
import doctest
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest

from mac_policy.common import settings
from mac_policy.common.settings import Count, NonNegative, Settings, Share, choice, from_mapping, needed


@dataclass(frozen=True)
class Brush(Settings):
    prefix: ClassVar[str] = "brush."

    width: Count = 3
    pressure: Share = 0.5
    dip: NonNegative | None = None
    colour: Literal["red", "blue"] = "red"
    hair: Annotated[str, choice(("hog", "sable"), "kind of hair")] = "hog"
    strokes: tuple[Count, ...] = ()
    layers: tuple[tuple[int, ...], ...] = ()
    wet: bool = True
    case: Path | None = None
    label: str | int = ""
    shades: Mapping[str, float] = dataclasses.field(default_factory=dict)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 0}, "brush.width must be a whole number of at least 1, got 0"),
        ({"width": True}, "brush.width must be a whole number of at least 1, got True"),
        ({"width": None}, "brush.width must be a whole number of at least 1, got None"),
        ({"pressure": 1.5}, "brush.pressure must be in [0, 1], got 1.5"),
        ({"pressure": "0.5"}, "brush.pressure must be in [0, 1], got '0.5'"),
        ({"pressure": float("nan")}, "brush.pressure must be in [0, 1], got nan"),
        ({"dip": -1}, "brush.dip must be at least 0 and finite, got -1"),
        ({"dip": float("inf")}, "brush.dip must be at least 0 and finite, got inf"),
        ({"colour": "bleu"}, "unknown brush.colour 'bleu'; allowed are 'red', 'blue'; did you mean 'blue'?"),
        ({"hair": "sabel"}, "unknown kind of hair 'sabel'; allowed are 'hog', 'sable'; did you mean 'sable'?"),
        ({"strokes": 3}, "brush.strokes must be a list such as [a,b], got 3; write brush.strokes=[3]"),
        ({"strokes": [2, 0]}, "brush.strokes[1] must be a whole number of at least 1, got 0"),
        ({"layers": [1]}, "brush.layers[0] must be a list such as [a,b], got 1; write brush.layers[0]=[1]"),
        ({"layers": [[1.5]]}, "brush.layers[0][0] must be a whole number, got 1.5"),
        ({"wet": 1}, "brush.wet must be true or false, got 1"),
        ({"case": [1]}, "brush.case must be a path or null, got [1]"),
        ({"label": None}, "brush.label must be a text or a whole number, got null"),
        ({"shades": 3}, "brush.shades must be a mapping, got 3"),
    ],
)
def test_what_an_annotation_does_not_allow_is_refused(values, message):
    for make in (lambda: Brush(**values), lambda: from_mapping(Brush, values, "brush")):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            make()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(Brush(), **values)


def test_allowed_values_are_kept_and_lists_and_texts_of_paths_converted():
    values = {"width": np.int64(4), "pressure": 1, "dip": 0, "strokes": [1, 2], "layers": [[0, 1], []], "case": "box"}
    brush = from_mapping(Brush, values | {"wet": np.False_, "label": 7, "shades": {"a": 0.5}}, "brush")
    assert (brush.width, brush.pressure, brush.dip, brush.wet, brush.label) == (4, 1, 0, False, 7)
    assert (brush.strokes, brush.layers, brush.case) == ((1, 2), ((0, 1), ()), Path("box"))
    assert Brush() == from_mapping(Brush, {}, "brush")


def test_the_defaults_of_fields_stay_plain_values():
    defaults = {field.name: field.default for field in dataclasses.fields(Brush)}
    assert (defaults["width"], defaults["colour"], defaults["strokes"]) == (3, "red", ())


def test_an_unknown_key_and_a_missing_option_are_named():
    with pytest.raises(ValueError, match=r"unknown key in the brush 'widht'.*did you mean 'width'"):
        from_mapping(Brush, {"widht": 3}, "brush")

    @dataclass(frozen=True)
    class Options(Settings):
        run: Annotated[Path, needed("the folder of a painting")]

    with pytest.raises(ValueError, match=r"^run=\.\.\. is missing: the folder of a painting$"):
        Options(None)
    assert Options("there").run == Path("there")


def test_the_examples_run():
    assert doctest.testmod(settings).failed == 0
