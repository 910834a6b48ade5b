"""`Fitting`: how a surrogate is fitted to measured rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..errors import InputError
from .setting import number, one_of, part, refuse, setting, whole_number

Kind = Literal["auto", "exact", "blocks", "love", "sgpr", "svgp"]
Transform = Literal["auto", "none", "sqrt", "log", "rank", "held-out"]
Priors = Literal["botorch", "paper", "search"]
Likelihood = Literal["gaussian", "student-t"]
Factor = Literal["auto", "float64", "float32", "none"]
Precision = Literal["float64", "float32"]
Inducing = Literal["auto", "spread", "tail"]
KINDS: tuple[str, ...] = get_args(Kind)
TRANSFORMS: tuple[str, ...] = get_args(Transform)
PRIORS: tuple[str, ...] = get_args(Priors)
LIKELIHOODS: tuple[str, ...] = get_args(Likelihood)
HELD_OUT = "held-out"
COMBINE = ("auto", "product", "combinations", "likelihood")


@dataclass(frozen=True)
class Approximation:
    """How large the approximate surrogates are, and how SVGP trains."""

    rank: int | Literal["auto"] = setting(
        "auto",
        "of LOVE's root; auto takes one whose estimated error of the information gain is at most 5 %",
        one_of(("auto",), whole_number),
    )
    inducing_points: int | Literal["auto"] = setting(
        "auto",
        "of sgpr, svgp and blocks, at most; auto is 512, for blocks 4,096 up to 36,000 rows, 2,048 up to 145,000 and "
        "1,024 beyond",
        one_of(("auto",), whole_number),
    )
    block_rows: int | Literal["auto"] = setting(
        "auto",
        "of blocks: about so many rows in each; auto takes more the fewer rows there are, for the same work in all",
        one_of(("auto",), whole_number),
    )
    inducing_choice: Inducing = setting(
        "auto",
        "where inducing points lie: spread over the rows; tail has half of them from the rows with the most extreme "
        "targets, on the side where these reach farther (hits of a screen); auto is tail where few targets stick out",
        one_of(get_args(Inducing)),
    )
    epochs: int | Literal["auto"] = setting(
        "auto",
        "of svgp: passes over the rows; auto takes 20, more where the rows are so few that these make no 1,000 steps",
        one_of(("auto",), whole_number),
    )
    factor: Factor = setting(
        "auto",
        "number format of the exact factor; float32 leaves about 1e-6 of the prior in the variance and nothing in the "
        "mean; none solves for the mean by conjugate gradients, n^2 values of the kernel for each of some 30 steps, "
        "and has LOVE's root for the covariance; auto is the first of these that fits into the free memory",
        one_of(get_args(Factor)),
    )
    learn_inducing: bool = setting(True, "move the inducing points of svgp, too (never those that are molecules)")
    precision: Precision = setting("float64", "number format of a minibatch of svgp", one_of(get_args(Precision)))
    lr: float = setting(0.03, "step size of Adam (svgp), falling to zero along a cosine", number)
    natural_lr: float = setting(0.1, "length of the natural-gradient steps of svgp, above 0, at most 1", number)

    def __post_init__(self) -> None:
        words = {"factor": get_args(Factor), "precision": get_args(Precision), "inducing_choice": get_args(Inducing)}
        refuse(words, self)
        for name in ("rank", "inducing_points", "block_rows", "epochs"):
            value = getattr(self, name)
            if value != "auto" and (isinstance(value, (bool, str)) or value < 1 or value != int(value)):
                raise InputError(f"{name} = {value!r}: give a whole number, 1 or more, or 'auto'")
        if not 0 < self.natural_lr <= 1:
            raise InputError(f"natural_lr = {self.natural_lr:g}: give a length above 0, at most 1")


@dataclass(frozen=True)
class Fitting:
    """How a surrogate is fitted.

    Raises:
        InputError: an unknown word, a number that is too small, or a likelihood that does not go with the kind.
    """

    kind: str = setting(
        "auto",
        "of the surrogate: exact; blocks (exact within blocks of near rows, inducing points between them); love "
        "(a root of low rank over all rows); sgpr or svgp (inducing points); auto is exact as long as half of an n x n "
        "matrix fits into the free memory and can be factored in ten minutes, then blocks",
        one_of(KINDS),
    )
    transform: str = setting(
        "auto",
        "of the target: none, sqrt, log or rank; held-out tries all on held-out rows, where those count most that are "
        "good; auto does so where the target is far from normal, and takes sqrt or none by its distribution where that "
        "cannot be done (several targets, fewer than 12 inputs)",
        one_of(TRANSFORMS),
    )
    priors: str = setting(
        "botorch",
        "of the hyperparameters: botorch (today's defaults), paper (those of the BEEBO paper) or search (those of the "
        "paper with a lower bound on the lengthscales, for closed loops over a box)",
        one_of(PRIORS),
    )
    likelihood: str = setting(
        "gaussian",
        "student-t is a robust fit by svgp: a row counts less the farther out it lies. The target is then centered and "
        "scaled by medians, and transform auto is none, as outliers would decide it",
        one_of(LIKELIHOODS),
    )
    combine: str = setting(
        "auto",
        "the kernels of the features: product (all act together), combinations (main effects, pairs and the whole "
        "product, with learned weights), or likelihood (the one of these two that explains the rows better); auto is "
        "combinations for a library of lists, else product",
        one_of(COMBINE),
    )
    approximation: Approximation = part(Approximation)
    iterations: int = setting(100, "of L-BFGS, at most; 0 keeps the hyperparameters of a warm start (svgp trains on)")
    fit_rows: int = setting(
        3000,
        "distinct inputs, of random measurements, that the hyperparameters are fitted to at most (svgp starts from "
        "what these give and goes on with all rows); the posterior always uses all",
    )
    seed: int = setting(0, "the same seed and input give the same surrogate and batch")

    def __post_init__(self) -> None:
        if self.approximation is None:
            object.__setattr__(self, "approximation", Approximation())
        words = {
            "kind": KINDS,
            "transform": TRANSFORMS,
            "priors": PRIORS,
            "likelihood": LIKELIHOODS,
            "combine": COMBINE,
        }
        refuse(words, self)
        for name, least in {"iterations": 0, "fit_rows": 1}.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} = {getattr(self, name)}: give a whole number, {least} or more")
        if self.robust and self.kind not in ("auto", "svgp"):
            raise InputError(
                f"a robust fit is one by svgp, not by {self.kind}; take kind svgp or auto, or no robust fit"
            )

    @property
    def robust(self) -> bool:
        """Whether outliers among the targets count little."""
        return self.likelihood == "student-t"

    def check_noise(self, known: bool) -> None:
        """Refuse known noise variances where the likelihood learns the noise.

        Raises:
            InputError: the two do not go together.
        """
        if self.robust and known:
            raise InputError(
                "a robust fit learns the noise; leave the known noise variances out, or take no robust fit"
            )


def fitting_of(fitting: Fitting | None, given: dict[str, Any]) -> Fitting:
    """The spec that Python callers mean: one as it is, one by keywords, or one with some of them changed."""
    return replace(fitting, **given) if fitting is not None else Fitting(**given)
