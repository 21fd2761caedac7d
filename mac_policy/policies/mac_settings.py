"""Settings of MAC policies, and the networks and heads that they name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

from mac_policy.common.checks import check_count, check_distinct, check_range
from mac_policy.common.settings import Count, Depth, Natural, NonNegative, Share, Size, choice
from mac_policy.core.heads import GaussianMixture, Head
from mac_policy.core.heads.continuous import MIN_LOG_STD
from mac_policy.core.networks import MLP, Network, PathTransformer, TrunkQuery
from mac_policy.policies.decoding import Decode
from mac_policy.policies.settings import PolicySettings

NETWORKS: dict[str, tuple[type[Network], dict[str, str]]] = {
    "trunk_query": (
        TrunkQuery,
        {"trunk_width": "width", "trunk_depth": "depth", "query_width": "query_width", "query_depth": "query_depth"},
    ),
    "mlp": (MLP, {"width": "width", "depth": "depth"}),
    "path_transformer": (
        PathTransformer,
        {
            "trunk_width": "width",
            "trunk_depth": "depth",
            "width": "query_width",
            "depth": "query_depth",
            "heads": "query_heads",
        },
    ),
}
"""Each network, and which setting each of its sizes is."""

HEADS: dict[str, Callable[[MACSettings], GaussianMixture]] = {
    "mixture": lambda s: GaussianMixture(s.components, s.min_log_std)
}
Dims = Annotated[tuple[int | str, ...], check_distinct]
"""Action dims, by index or name."""
NetworkName = Annotated[str, choice(NETWORKS)]
Floor = Annotated[float, partial(check_range, low=MIN_LOG_STD, high=-1e-3)]
TrainedMasks = Literal["conditional", "marginal", "both"]


@dataclass(frozen=True)
class MACSettings(PolicySettings):
    """network: 'trunk_query', 'mlp' (the paper's) or 'path_transformer' (which reads every value once)
    head: the conditional of a dim; 'mixture' of Gaussians
    width, depth: of the trunk, which reads the observation once, or of the whole MLP
    query_width, query_depth: of the network that reads the evidence, once for each filled dim
    query_heads: attention heads of a path_transformer
    components, min_log_std: of the mixture, and the floor of its log standard deviations in normalised units (null =
        about e^-7)
    masks: queries to train for: 'conditional' (the held dims are given), 'marginal' or 'both'
    subsets: subsets of dims that the operator may hold in training, as lists of indices or names ([] = all, of uniform
        cardinality)
    alone: share of the training rows without an operator, for full autonomy; their evidence is the policy's own
    weights, reweighting: MaskTuned's `weights` and `cardinality_reweighting`
    order: action dims, by index or name, in the order in which they are filled in ([] = 0, 1, ...); a chunk is filled
        in step by step
    evidence_noise: in training rows with an operator, who is no demonstrator, the evidence has noise of a standard
        deviation from U(0, this)
    plans: share of the training rows with an operator in which the next steps of a chunk are evidence, too: a command
        during a chunk then changes the present step alone, and the plan is kept while it agrees with the command
    label_shown: share of the training rows in which a label is evidence; in the others it is asked for, and the actions
        are learned without it
    assume: which class of a label that is not said is assumed: the 'likeliest', a 'sampled' one, or 'nothing'
    belief_change, belief_tempering: of the rule by which a belief moves while the policy acts (see belief.py); null: as
        fitted to demonstrations. There a person moves the whole arm; where the policy moves some dims of it, what the
        observation says of a wish is partly the policy's own doing, and commands say more
    least_belief: a class that is believed less is not assumed
    honest_steps, honest_folds: training steps of a second network that stops early, whose densities are the policy's,
        and the parts of the episodes by which its spreads are fitted; for few demonstrations, which the acting network
        learns by heart (0 steps: the acting network's densities, its spreads fitted to the held-out episodes)
    honest_noise, honest_floor: evidence_noise and min_log_std of that second network, since what acts well is not what
        is honest; null: as those of the acting one
    masks_per_row: questions for each training row; the trunk reads its observation once for all of them
    decode: 'mode', 'sample', 'mean', or 'best' of `candidates` samples by likelihood
    decode_alone: the same where nothing is commanded: the mode may stand still for ever at a place whose likeliest
        action is to stay, and a sample leaves it; null: as decode
    temperature: of samples
    noise: a sample's randomness is 'fresh' at every step, kept for an 'episode', or 'slow' (an AR(1) process with
        `noise_correlation` from step to step)
    stickiness: how much 'best' dislikes a change from the last action, in nats for one squared standard deviation
    """

    network: NetworkName = "trunk_query"
    head: Annotated[str, choice(HEADS)] = "mixture"

    width: Size = 512
    depth: Depth = 4
    query_width: Size = 512
    query_depth: Depth = 3
    query_heads: Size = 4
    components: Size = 20
    min_log_std: float | None = -1.5
    masks: TrainedMasks = "conditional"
    subsets: tuple[Dims, ...] = ()
    alone: Share = 0.5
    weights: Literal["parallel", "edge"] = "parallel"
    reweighting: bool = True
    order: Dims = ()
    evidence_noise: NonNegative = 0.5
    plans: Share = 0.0
    label_shown: Share = 0.5
    assume: Literal["likeliest", "sampled", "nothing"] = "likeliest"
    belief_change: Share | None = 0.05
    belief_tempering: NonNegative | None = 2.0
    least_belief: Share = 0.0
    honest_steps: Natural = 0
    honest_folds: Annotated[int, partial(check_count, least=2)] = 3
    honest_noise: NonNegative | None = None
    honest_floor: Floor | None = None
    masks_per_row: Count = 4
    decode: Decode = "mode"
    decode_alone: Literal["mode", "sample", "mean"] | None = None
    temperature: NonNegative = 1.0
    candidates: Count = 16
    noise: Literal["fresh", "episode", "slow"] = "fresh"
    noise_correlation: Share = 0.98
    stickiness: NonNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decode_alone is not None and self.decode == "best":
            raise ValueError(f"decode_alone={self.decode_alone} needs decode=mode, sample or mean, got decode=best")
        is_path = NETWORKS[self.network][0].kind == "path"
        if self.plans and (is_path or self.masks == "marginal" or self.subsets):
            raise ValueError(
                f"plans={self.plans} asks how likely any part of a command is given a plan, which {self.network} "
                f"with masks={self.masks!r} and subsets={list(self.subsets)} does not learn: use plans with a "
                "trunk_query or mlp, masks='conditional' or 'both', and all subsets"
            )
        if is_path and self.masks == "marginal":
            raise ValueError(
                f"masks='marginal' trains on queries with nothing given, and a {self.network} would not learn to read "
                "what an operator holds: use masks='conditional' or 'both'"
            )
        if is_path and (self.weights != "parallel" or not self.reweighting):
            raise ValueError(
                f"weights and reweighting correct the parallel training of unseen dims, which a {self.network} does "
                f"not do: leave them as they are, got weights={self.weights!r}, reweighting={self.reweighting!r}"
            )

    @property
    def of_honest(self) -> MACSettings:
        """The settings of a network whose densities are honest."""
        noise = self.evidence_noise if self.honest_noise is None else self.honest_noise
        floor = self.min_log_std if self.honest_floor is None else self.honest_floor
        return replace(self, honest_steps=0, evidence_noise=noise, min_log_std=floor)

    def check_labels(self) -> None:
        """ValueError unless training teaches how likely any part of a command is given a label."""
        is_path = NETWORKS[self.network][0].kind == "path"
        if (is_path or self.subsets or self.weights == "edge") and self.masks != "both":
            raise ValueError(
                "a belief about labels asks how likely any part of a command is given a label, which "
                f"{self.network} with masks={self.masks!r}, subsets={[list(each) for each in self.subsets]} and "
                f"weights={self.weights!r} does not learn: use masks='both', or labels=false"
            )
        if self.masks == "marginal":
            raise ValueError("masks='marginal' does not learn actions given a command and a label: use 'conditional'")
        if not 0 < self.label_shown < 1:
            raise ValueError(
                f"label_shown={self.label_shown} never {'asks for' if self.label_shown else 'shows'} a label in "
                "training: use a share between 0 and 1, or labels=false"
            )

    def make_network(self, head: Head, num_variables: int, context_dim: int) -> Network:
        """An untrained network for this head; the sizes are those of the settings."""
        network, sizes = NETWORKS[self.network]
        return network(
            num_variables=num_variables,
            num_features=head.num_features,
            num_params=head.num_params,
            context_dim=context_dim,
            **{name: getattr(self, setting) for name, setting in sizes.items()},
        )


@dataclass(frozen=True)
class MACPaperSettings(MACSettings):
    """MACSettings with the paper's values: one MLP of width 2048 and depth 8, marginal masks, no floor."""

    network: NetworkName = "mlp"
    width: Size = 2048
    depth: Depth = 8
    min_log_std: float | None = None
    masks: TrainedMasks = "marginal"
    alone: Share = 0.0
    evidence_noise: NonNegative = 0.0
    masks_per_row: Count = 1
    decode: Decode = "sample"


@dataclass(frozen=True)
class MACPathSettings(MACSettings):
    """MACSettings for a path network, which trains on the edges that inference walks and on no others."""

    network: NetworkName = "path_transformer"
    query_width: Size = 64
    query_depth: Depth = 2
