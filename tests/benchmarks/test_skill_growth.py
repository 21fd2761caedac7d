"""Which settings are trained."""

from benchmarks.skill_growth import Setting, varied

BASE = Setting(1000, 4000, 512)


def test_one_option_is_varied_at_a_time():
    ways = varied(BASE, {"demonstrations": [100, 3000], "steps": [4000, 500], "width": []})
    assert ways["demonstrations"] == [Setting(100, 4000, 512), BASE, Setting(3000, 4000, 512)]
    assert ways["steps"] == [Setting(1000, 500, 512), BASE]
    assert ways["width"] == [BASE]
