"""The page about missing values runs."""

from tests.docs.pages import ROOT, blocks


def test_the_blocks_of_the_page_run():
    namespace = {}
    for block in blocks(ROOT / "docs" / "imputer.md"):
        exec(block.code.replace("Imputer(", "Imputer(steps=20, "), namespace)
    assert namespace["imputer"].n_steps_ == 20
