"""The procedure that benchmarks/masks.py times against is the paper's: the same law but for its known bias."""

import torch

from benchmarks.masks import resampled_masks
from mac_policy.core import UniformCardinality, induced_mask_distribution
from mac_policy.core.masks import mask_codes


def test_resampling_comes_near_the_exact_law_from_a_large_excess():
    g = torch.Generator().manual_seed(0)
    drawn = torch.cat([resampled_masks(50, 4, g) for _ in range(400)])
    law = induced_mask_distribution(UniformCardinality(4), cardinality_reweighting=True)
    frequencies = torch.bincount(mask_codes(drawn), minlength=16) / len(drawn)
    torch.testing.assert_close(frequencies, law.float(), atol=0.02, rtol=0)
    assert (frequencies[law == 0] == 0).all()
