"""`Fitting`: how a surrogate is fitted to measured rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..errors import InputError
from .setting import OneOf, number, part, setting, whole_number

Kind = Literal["auto", "exact", "love", "sgpr", "svgp"]
Transform = Literal["auto", "none", "sqrt", "log", "rank", "held-out"]
Priors = Literal["botorch", "paper", "search"]
Likelihood = Literal["gaussian", "student-t"]
FloatFormat = Literal["auto", "float64", "float32"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)
PRIORS: tuple[Priors, ...] = get_args(Priors)
LIKELIHOODS: tuple[Likelihood, ...] = get_args(Likelihood)
HELD_OUT: Transform = "held-out"


@dataclass(frozen=True)
class Approximation:
    """How large the approximate surrogates are, and how SVGP trains.

    Attributes:
        rank: of LOVE, a number, or "auto" for one whose estimated error of the information gain is at most 5 %.
        inducing_points: of SGPR and SVGP, at most.
        epochs: of SVGP, a number, or "auto" for 20, more where the rows are so few that these make no 1,000 steps.
        factor: number format of the exact factor; "auto" is float64 if the triangle fits into the free memory, else
            float32, which leaves about 1e-6 of the prior in the variance and nothing in the mean.
        learn_inducing: move the inducing points of SVGP too (never those that are molecules).
        precision: number format of the work on a minibatch of SVGP.
        lr: step size of Adam (SVGP), falling to zero along a cosine.
        natural_lr: length of the natural-gradient steps (SVGP), in (0, 1].
    """

    rank: int | Literal["auto"] = setting("auto", "of LOVE's root", OneOf(("auto",), whole_number))
    inducing_points: int = setting(512, "of sgpr and svgp, at most")
    epochs: int | Literal["auto"] = setting("auto", "of svgp: passes over the rows", OneOf(("auto",), whole_number))
    factor: FloatFormat = setting("auto", "number format of the exact factor", OneOf(get_args(FloatFormat)))
    learn_inducing: bool = setting(True, "move the inducing points of svgp, too")
    precision: Literal["float64", "float32"] = setting(
        "float64", "number format of a minibatch of svgp", OneOf(("float64", "float32"))
    )
    lr: float = setting(0.03, "step size of svgp", number)
    natural_lr: float = setting(0.1, "length of the natural-gradient steps of svgp", number)

    def __post_init__(self) -> None:
        if self.factor not in get_args(FloatFormat):
            raise InputError(f"factor {self.factor!r} is not known; choose one of {', '.join(get_args(FloatFormat))}")
        if self.precision not in ("float64", "float32"):
            raise InputError(f"precision {self.precision!r} is not known; choose float64 or float32")
        if self.rank != "auto" and (isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1):
            raise InputError(f"rank = {self.rank!r}: give a whole number, 1 or more, or 'auto'")
        if self.inducing_points < 1:
            raise InputError(f"inducing_points = {self.inducing_points!r}: give a whole number, 1 or more")
        if self.epochs != "auto" and self.epochs < 1:
            raise InputError(f"epochs = {self.epochs!r}: give a whole number, 1 or more, or 'auto'")
        if not 0 < self.natural_lr <= 1:
            raise InputError(f"natural_lr = {self.natural_lr:g}: give a length above 0, at most 1")


@dataclass(frozen=True)
class Fitting:
    """How a surrogate is fitted.

    Attributes:
        kind: "exact"; "love" (hyperparameters from `fit_rows` rows, a root of low rank over all); "sgpr" or "svgp"
            (inducing points); or "auto": exact as long as half of an n x n matrix fits into the free memory and can be
            factored in half an hour, see `choose_kind`.
        transform: of the target, "none", "sqrt", "log" or "rank"; "auto" looks at its distribution (see `TargetScale`),
            "held-out" tries all on held-out rows (see `choose_transform`).
        priors: of the hyperparameters, "botorch" (today's defaults), "paper" (those of the BEEBO paper) or "search"
            (those of the paper with a lower bound on the lengthscales, for closed loops over a box).
        likelihood: "gaussian", or "student-t" for targets with outliers: an SVGP for which a row counts less the
            farther out it lies. Its noise is the squared scale of the bulk of the rows, the target is centered and
            scaled by medians, and transform "auto" is "none", as outliers would decide it.
        approximation: rank, inducing points and epochs of the approximate kinds.
        iterations: limit of L-BFGS iterations; 0 keeps the hyperparameters of a warm start (SVGP trains on).
        fit_rows: at most so many distinct inputs, those of random measurements, are used for the hyperparameters (SGPR
            and SVGP start from what these give and go on with all rows); the posterior always uses all.
        seed: of all that is drawn.

    Raises:
        InputError: an unknown word, a number that is too small, or a likelihood that does not go with the kind.
    """

    kind: str = setting("auto", "of the surrogate", OneOf(KINDS))
    transform: str = setting("auto", "of the target; auto looks at its distribution", OneOf(TRANSFORMS))
    priors: str = setting("botorch", "of the hyperparameters", OneOf(PRIORS))
    likelihood: str = setting(
        "gaussian", "student-t is a robust fit by svgp, for which outliers count little", OneOf(LIKELIHOODS)
    )
    approximation: Approximation = part(Approximation, Approximation)
    iterations: int = setting(100, "of a fit by L-BFGS, at most")
    fit_rows: int = setting(3000, "rows that the hyperparameters are fitted to, at most")
    seed: int = setting(0, "the same seed and input give the same surrogate and batch")

    def __post_init__(self) -> None:
        if self.approximation is None:
            object.__setattr__(self, "approximation", Approximation())
        words: dict[str, tuple[str, ...]] = {"kind": KINDS, "transform": TRANSFORMS, "priors": PRIORS}
        for name, known in {**words, "likelihood": LIKELIHOODS}.items():
            if getattr(self, name) not in known:
                are = "are" if name == "priors" else "is"
                raise InputError(f"{name} {getattr(self, name)!r} {are} not known; choose one of {', '.join(known)}")
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

    def with_seed(self, seed: int) -> Fitting:
        """The same with another seed."""
        return replace(self, seed=seed)


def fitting_of(fitting: Fitting | None, given: dict[str, Any]) -> Fitting:
    """The spec that Python callers mean: one as it is, one by keywords, or one with some of them changed."""
    return replace(fitting, **given) if fitting is not None else Fitting(**given)
