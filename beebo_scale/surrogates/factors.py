"""How a fitted process becomes a `Posterior`: what a surrogate keeps beside hyperparameters and data.

Exact: nothing, the factor is computed when first asked for. LOVE and the sparse kinds: the root and the weights, which
took long to find.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from ..kernel_posterior import KernelPosterior
from ..kernels.stationary import freeze
from ..linalg.block_factors import BlockFactor
from ..linalg.conjugate_gradients import CovarianceSolver
from ..linalg.kernel_matrix import KernelMatrix
from ..linalg.partition import Partition
from ..linalg.roots import DenseRoot
from ..posterior import Posterior
from ..protocols import Noise
from .approximate.blocks.fit import Rows, Sums
from .approximate.blocks.posterior import BlocksPosterior
from .approximate.love import LoveReport
from .data.observations import Measurements
from .gaussian_process.gaussian_process import GaussianProcess, exact_posterior, own_noise


class Recipe(Protocol):
    """What `Surrogate` asks of a recipe."""

    def posterior(self, gp: GaussianProcess, data: Measurements, noise: Noise | None) -> Posterior:
        """The posterior; `noise` None takes the process's own."""
        ...

    def summary(self) -> dict[str, Any]:
        """What there is to say about the approximation, in plain types, with `information_gain_error`."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        ...


@dataclass(frozen=True)
class Exact:
    """One n x n factor, nothing approximated.

    Attributes:
        dtype: of the factor, "float64", or "float32" for half the memory, see `condition_exactly`.
    """

    dtype: Literal["float64", "float32"] = "float64"

    def posterior(self, gp: GaussianProcess, data: Measurements, noise: Noise | None) -> KernelPosterior:
        """See `exact_posterior`."""
        return exact_posterior(gp, data, noise, getattr(torch, self.dtype))

    def summary(self) -> dict[str, Any]:
        """No error beyond rounding."""
        return {"information_gain_error": 0.0, "factor": self.dtype}

    def to_dict(self) -> dict[str, Any]:
        """The number format."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Exact:
        """Inverse of `to_dict`; files of earlier versions hold nothing."""
        return cls(**content)


@dataclass(frozen=True)
class Love:
    """A root of rank r over the measured rows.

    Attributes:
        R: n x r.
        weights: alpha, n.
        report: how good the rank is.
    """

    R: Tensor
    weights: Tensor
    report: LoveReport

    def posterior(self, gp: GaussianProcess, data: Measurements, noise: Noise | None) -> KernelPosterior:
        """With a solver, so that the root can be adapted to a batch."""
        posterior = _assemble(gp, data, noise, data.X, self.weights, self.R)
        with torch.no_grad():
            sigma2 = gp.noise_of(data)
        return replace(posterior, solver=CovarianceSolver(KernelMatrix(posterior.kernel, data.X), sigma2))

    def summary(self) -> dict[str, Any]:
        """Rank and estimated error of I."""
        return asdict(self.report)

    def note(self, exact: bool) -> str:
        """What a user should know of the mean, empty if nothing.

        Args:
            exact: the kind is exact, its mean by iterations.
        """
        report = self.report
        steps = f"{report.cg_iterations} steps of conjugate gradients"
        off = "" if report.mean_error is None else f"about {report.mean_error:.1g} standard deviations of a prediction"
        if not report.cg_converged:
            off = f" (the mean is off by {off})" if off else ""
            return f"{steps} did not converge: relative residual {report.cg_residual:.1g}{off}"
        return (
            f"no factor of all rows: the mean is by {steps} (relative residual {report.cg_residual:.1g}), off by {off};"
            f" the covariance is of rank {report.rank}, and exact at a batch that it is adapted to"
            if exact
            else ""
        )

    def with_root(self, R: Tensor) -> Love:
        """The same mean with another root, n x r."""
        return replace(self, R=R.cpu(), report=replace(self.report, rank=R.shape[-1]))

    def to_dict(self) -> dict[str, Any]:
        """Tensors and the report."""
        return {"R": self.R, "weights": self.weights, "report": asdict(self.report)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Love:
        """Inverse of `to_dict`."""
        return cls(content["R"], content["weights"], LoveReport(**content["report"]))


@dataclass(frozen=True)
class Sparse:
    """A posterior over m inducing points, from SGPR or SVGP.

    Attributes:
        Z: m x d.
        R: m x r.
        weights: alpha, m.
        error: of I on rows held out, relative to a reference; None where it is not measured yet.
        reference: what that is, in words.
    """

    Z: Tensor
    R: Tensor
    weights: Tensor
    error: float | None = None
    reference: str = ""

    def posterior(self, gp: GaussianProcess, data: Measurements, noise: Noise | None) -> KernelPosterior:
        """The model's own posterior: its C is what it is, so there is nothing to adapt."""
        return _assemble(gp, data, noise, self.Z, self.weights, self.R)

    def summary(self) -> dict[str, Any]:
        """Number of inducing points, and how wrong I is beside which reference (see `sparse_gain_error`)."""
        size = {"inducing_points": len(self.Z)}
        return size | {"information_gain_error": self.error, "information_gain_error_beside": self.reference}

    def to_dict(self) -> dict[str, Any]:
        """Tensors and what is known of the error."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Sparse:
        """Inverse of `to_dict`."""
        return cls(**content)


@dataclass(frozen=True)
class Blocks:
    """Exact within blocks of near rows, inducing points between them.

    Attributes:
        Z: m x d inducing points.
        heads: of the blocks, h x d.
        labels: block of each row, n.
        A: m x m, and ...
        c: ... m, sums over all rows (see `blocks.fit`).
        log_likelihood: of the rows under the kernel of blocks.
        precision: number format in which factors of blocks are kept.
        error: of I on rows held out, relative to a reference; None where it is not measured yet.
        reference: what that is, in words.
        larger: left-out error relative to that of blocks half as large; None where it is not measured yet.
        made: factors at hand, which no file keeps.
    """

    Z: Tensor
    heads: Tensor
    labels: Tensor
    A: Tensor
    c: Tensor
    log_likelihood: float
    precision: Literal["auto", "float64", "float32"] = "auto"
    error: float | None = None
    reference: str = ""
    larger: float | None = None
    made: dict[int, BlockFactor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def partition(self) -> Partition:
        """Rows by block."""
        return Partition.of(self.heads, self.labels.long(), int(self.labels.max()) + 1)

    @property
    def sums(self) -> Sums:
        """Over all rows."""
        return Sums(self.A, self.c, self.log_likelihood)

    def rows(self, gp: GaussianProcess, data: Measurements) -> Rows:
        """Measured rows in their blocks."""
        return Rows.of(gp, self.Z, self.partition, data)

    def posterior(self, gp: GaussianProcess, data: Measurements, noise: Noise | None) -> BlocksPosterior:
        """With the factors at hand; others are made when they are needed."""
        rows = self.rows(gp, data)
        found = rows.posterior(self.sums, noise, rows.precision(self.precision), factors=self.made)
        self.made.clear()
        return found

    def summary(self) -> dict[str, Any]:
        """Sizes, and how wrong I is beside which reference."""
        sizes = torch.bincount(self.labels)
        found = {"inducing_points": len(self.Z), "blocks": len(sizes), "largest_block": int(sizes.max())}
        errors = {"log_likelihood_of_blocks": self.log_likelihood, "error_beside_half_blocks": self.larger}
        return found | errors | {"information_gain_error": self.error, "information_gain_error_beside": self.reference}

    @property
    def notes(self) -> tuple[str, ...]:
        """What larger blocks are expected to gain, once that is measured."""
        if self.larger is None:
            return ()
        sizes = torch.bincount(self.labels)
        return (
            f"{len(sizes):,} blocks of up to {int(sizes.max()):,} rows, {len(self.Z):,} inducing points: the error of "
            f"rows left out is {self.larger:.3f} times that with blocks half as large; twice as large (block_rows) "
            "should lower it by about that factor at best",
        )

    def to_dict(self) -> dict[str, Any]:
        """Tensors and what is known of the errors."""
        return {name: value for name, value in vars(self).items() if name != "made"}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Blocks:
        """Inverse of `to_dict`."""
        return cls(**content)


def _assemble(
    gp: GaussianProcess, data: Measurements, noise: Noise | None, Z: Tensor, weights: Tensor, R: Tensor
) -> KernelPosterior:
    """The posterior over centers Z with a dense root, its hyperparameters frozen."""
    gp = copy.deepcopy(gp).requires_grad_(False)
    noise = own_noise(gp, data) if noise is None else noise
    return KernelPosterior(freeze(gp.kernel), gp.mean, Z, weights, DenseRoot(R), noise)
