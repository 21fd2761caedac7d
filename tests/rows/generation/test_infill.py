"""Holes and their fills, in texts and images."""

import numpy as np
import pytest
import torch

from mac_policy.rows.generation.infill import (
    check_text,
    fill_text,
    read_picture,
    three_rows,
    with_holes,
    write_picture,
)
from mac_policy.rows.patterns import PATTERNS, given_by_pattern, pieces
from mac_policy.rows.sets.text8 import ALPHABET
from mac_policy.rows.spec import ModelSpec, build

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested

SHAPE = (3, 4, 6)


@pytest.fixture(scope="module")
def text_model():
    return build(ModelSpec("mac", (10,), 27, {"kind": "mlp", "width": 16, "depth": 1}, {"kind": "categorical"})).eval()


@pytest.mark.parametrize("text", ["a_c", "the _at sa", "the cat s_t on the m_t and __", "_", "no holes", "_" * 25])
def test_given_letters_stay_and_every_hole_is_filled(text_model, text):
    generator = torch.Generator().manual_seed(0)
    filled = fill_text(text_model, text, generator=generator)
    assert len(filled) == len(text)
    assert set(filled) <= set(ALPHABET)
    assert all(new == old for new, old in zip(filled, text, strict=True) if old != "_")
    assert fill_text(text_model, text, generator=torch.Generator().manual_seed(0)) == filled


def test_the_rest_of_a_short_texts_chunk_is_neither_seen_nor_filled(text_model, monkeypatch):
    asked = {}
    real = text_model.sample
    monkeypatch.setattr(text_model, "sample", lambda x, **k: asked.update(k) or real(x, **k))
    fill_text(text_model, "a_cd" + "abc_efghij"[:0])
    assert asked["missing"].tolist() == [[False] * 4 + [True] * 6]
    assert asked["given"].tolist() == [[True, False, True, True] + [False] * 6]


def test_an_empty_text_is_refused(text_model):
    for refuse in (check_text, lambda text: fill_text(text_model, text)):
        with pytest.raises(ValueError, match="the text is empty"):
            refuse("")


def test_steps_of_a_text_are_its_network_passes(text_model, monkeypatch):
    passes = []
    real = text_model.model.network.forward
    monkeypatch.setattr(text_model.model.network, "forward", lambda *a, **k: passes.append(1) or real(*a, **k))
    counts = []
    for steps in (None, 2):
        passes.clear()
        assert "_" not in fill_text(text_model, "_" * 10, steps=steps, generator=torch.Generator().manual_seed(0))
        counts.append(len(passes))
    assert counts == [10, 2]
    with pytest.raises(ValueError, match="steps must be a whole number"):
        fill_text(text_model, "_", steps=0)


def test_texts_are_checked():
    assert check_text("The C_t") == "the c_t"
    with pytest.raises(ValueError, match=r"2 characters that are not a-z, a space or an underscore: '!', '7'"):
        check_text("a7 _!")
    assert pieces("abcdefg", 3) == ["abc", "def", "g"]
    assert with_holes("abc", [False, True, False]) == "_b_"


# ---- patterns ----


def missing(pattern, ratio=0.5, shape=SHAPE, rows=2):
    found = ~given_by_pattern(pattern, ratio, rows, shape, torch.Generator().manual_seed(0))
    assert found.shape == (rows, int(np.prod(shape)))
    return found.view(rows, *shape)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_channels_of_a_pixel_are_missing_together(pattern):
    holes = missing(pattern)
    assert (holes == holes[:, :1]).all()
    assert 0 < holes.float().mean() < 1


def test_image_patterns_leave_out_what_they_name():
    row, column = torch.arange(4)[:, None].expand(4, 6), torch.arange(6).expand(4, 6)
    regions = {"left": column < 3, "right": column >= 3, "top": row < 2, "bottom": row >= 2}
    for pattern, region in regions.items():
        assert torch.equal(missing(pattern)[0, 0], region), pattern
    inner = missing("interior")[0, 0]
    assert inner[1:3, 1:5].all()
    assert not inner[0].any()
    assert torch.equal(missing("exterior")[0, 0], ~inner)
    chess = missing("alternate")[0, 0]
    assert torch.equal(chess, (row + column) % 2 == 1)


def test_text_patterns_leave_out_their_share():
    assert missing("end", 0.3, (10,))[0].tolist() == [False] * 7 + [True] * 3
    assert missing("middle", 0.4, (10,))[0].tolist() == [False] * 3 + [True] * 4 + [False] * 3
    assert missing("alternate", 0.5, (5,))[0].tolist() == [False, True, False, True, False]
    drawn = missing("random", 0.3, (10,), rows=50)
    assert set(drawn.sum(1).tolist()) == {3}
    assert len({tuple(row) for row in drawn.tolist()}) > 10
    assert missing("random", 1.0, (10,)).all()
    assert not missing("random", 0.0, (10,)).any()


def test_wrong_patterns_are_refused():
    with pytest.raises(ValueError, match=r"unknown pattern 'lefty'; .* did you mean 'left'"):
        given_by_pattern("lefty", 0.5, 1, SHAPE)
    with pytest.raises(ValueError, match=r"ratio must be the share .* got 1.5"):
        given_by_pattern("random", 1.5, 1, SHAPE)
    with pytest.raises(ValueError, match="pattern 'left' is for images"):
        given_by_pattern("left", 0.5, 1, (10,))


# ---- pictures ----


def test_three_rows_are_the_whole_the_holes_in_grey_and_the_fill():
    x = torch.randint(0, 256, (2, 72), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    given = given_by_pattern("left", 0.5, 2, SHAPE)
    filled = torch.where(given, x, 9)
    picture = three_rows(x, given, filled, SHAPE, 256)
    assert picture.shape == (12, 12, 3)
    for number in range(2):
        whole = picture[:4, 6 * number : 6 * number + 6]
        np.testing.assert_array_equal(whole, x[number].view(SHAPE).permute(1, 2, 0).numpy())
    assert (picture[4:8, :3] == 127).all()
    np.testing.assert_array_equal(picture[4:8, 3:6], picture[:4, 3:6])
    assert (picture[8:, :3] == 9).all()


def test_two_levels_are_black_and_white():
    x = torch.tensor([[0, 1, 1, 0]], dtype=torch.uint8)
    given = torch.tensor([[True, True, False, True]])
    picture = three_rows(x, given, x, (1, 2, 2), 2)
    assert picture[:2].tolist() == [[[0] * 3, [255] * 3], [[255] * 3, [0] * 3]]
    assert picture[3, 0].tolist() == [127] * 3


def test_a_picture_is_written_and_read(tmp_path):
    x = torch.randint(0, 256, (1, 72), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    picture = x.view(SHAPE).permute(1, 2, 0).numpy()
    path = write_picture(tmp_path / "new" / "picture.png", picture, zoom=1)
    assert torch.equal(read_picture(path, SHAPE), x)
    large = write_picture(tmp_path / "large.png", picture, zoom=2)
    with pytest.raises(ValueError, match="is 8 x 12 pixels, this model's images are 4 x 6"):
        read_picture(large, SHAPE)
    path.write_bytes(b"no picture")
    with pytest.raises(ValueError, match="is not a readable image"):
        read_picture(path, SHAPE)


def test_rows_are_filled_where_they_have_holes_and_nowhere_else():
    model = build(
        ModelSpec(
            "ardm", (1, 2, 4), 4, {"kind": "mlp", "width": 8, "depth": 1}, {"kind": "logistic", "num_components": 2}
        )
    ).eval()
    x = torch.randint(0, 4, (3, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    given = given_by_pattern("bottom", 0.5, 3, (1, 2, 4))
    for steps in (None, 2):
        filled = model.sample(x, given=given, steps=steps, generator=torch.Generator().manual_seed(1))
        assert torch.equal(filled[given], x[given])
        assert filled.max() < 4
    with pytest.raises(ValueError, match="steps must be a whole number"):
        model.sample(x, given=given, steps=0)


@pytest.mark.parametrize("zoom", [0, -1, "x"])
def test_a_wrong_zoom_is_named(zoom, tmp_path):
    with pytest.raises(ValueError, match="zoom must be a whole number of at least 1, got"):
        write_picture(tmp_path / "a.png", np.zeros((2, 2, 3), np.uint8), zoom)
