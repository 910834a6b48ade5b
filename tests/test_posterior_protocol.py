"""A posterior that readers have never seen, without kernel, centers or solver, goes through each of them unchanged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import beebo_scale as bs
from beebo_scale.energy import TargetEnergy, valued
from beebo_scale.posterior import Posterior
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.library.certified import choose_certified
from beebo_scale.proposal.library.dense_greedy import greedy_eagerly
from beebo_scale.proposal.library.exchanges import improve
from beebo_scale.proposal.library.lazy_greedy import greedy
from beebo_scale.specs import BoxSearch, Choice
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import close, half_logdet, normal, uniform
from tests.proposal.library.test_certified import encoded, full_greedy, library_of

D, FEATURES, SIGMA2 = 3, 12, 0.05


@dataclass(frozen=True)
class LinearModel(Posterior):
    """f(x) = cos(W x + b)' w with w ~ N(mean, root root'): Bayesian linear regression on random features."""

    W: Tensor  # d x r
    b: Tensor  # r
    w: Tensor  # r
    root: Tensor  # r x r
    noise: Any

    @property
    def points(self) -> Tensor:
        return self.W.new_zeros(0, len(self.W))

    @property
    def rank(self) -> int:
        return len(self.b)

    @property
    def amplitude(self) -> float:
        return 0.5 * self.rank

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        phi = torch.cos(X @ self.W + self.b)
        F = phi @ self.root
        return phi @ self.w, F.square().sum(-1), F

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        return F1 @ F2.mT

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> Posterior:
        mean, _, F = self.mean_variance_and_features(X)
        noise = self.noise(X) if noise is None else torch.as_tensor(noise, dtype=X.dtype).expand(len(X))
        gain = torch.linalg.solve(F @ F.mT + noise.diag(), F).mT  # r x q
        covar = torch.eye(self.rank, dtype=X.dtype) - gain @ F
        w = self.w if Y is None else self.w + self.root @ gain @ (Y - mean)
        return replace(self, w=w, root=self.root @ torch.linalg.cholesky(0.5 * (covar + covar.mT)))

    def to(self, *args: Any, **kwargs: Any) -> Posterior:
        moved = {name: value.to(*args, **kwargs) for name, value in vars(self).items()}
        return replace(self, **moved)


@dataclass(frozen=True)
class Known:
    """The model by whole matrices."""

    posterior: LinearModel

    def mean(self, X: Tensor) -> Tensor:
        return torch.cos(X @ self.posterior.W + self.posterior.b) @ self.posterior.w

    def covar(self, X: Tensor) -> Tensor:
        F = torch.cos(X @ self.posterior.W + self.posterior.b) @ self.posterior.root
        return F @ F.mT


@pytest.fixture
def model() -> Known:
    root = torch.eye(FEATURES, dtype=torch.float64) / math.sqrt(FEATURES)
    noise = ConstantNoise(torch.tensor(SIGMA2, dtype=torch.float64))
    return Known(LinearModel(3 * normal(D, FEATURES), 6 * uniform(FEATURES), normal(FEATURES, seed=1), root, noise))


def test_acquisition_and_pending_points(model):
    X, pending, T = uniform(5, D, seed=2), uniform(4, D, seed=3), 0.5 * math.sqrt(model.posterior.amplitude)
    sigma2 = torch.full((9,), SIGMA2, dtype=torch.float64)
    expected = model.mean(X).sum() + T * half_logdet(model.covar(X), sigma2[:5])
    assert float(bs.BatchedEnergyEntropy(model.posterior, 0.5)(X)) == pytest.approx(float(expected), rel=1e-10)
    C = model.covar(torch.cat([X, pending]))
    given = C[:5, :5] - C[:5, 5:] @ torch.linalg.solve(C[5:, 5:] + sigma2[5:].diag(), C[5:, :5])
    expected = model.mean(X).sum() + T * half_logdet(given, sigma2[:5])
    acqf = bs.BatchedEnergyEntropy(model.posterior, 0.5, X_pending=pending)
    assert float(acqf(X)) == pytest.approx(float(expected), rel=1e-10)


def test_values_move_the_mean_as_conditioning_does(model):
    X, Z, Y = uniform(5, D, seed=2), uniform(4, D, seed=3), normal(4, seed=4)
    both = torch.cat([X, Z])
    sigma2 = torch.full((4,), SIGMA2, dtype=torch.float64)
    C, mean = model.covar(both), model.mean(both)
    found = model.posterior.augment(Z, Y=Y)
    weights = torch.linalg.solve(C[5:, 5:] + sigma2.diag(), torch.cat([(Y - mean[5:]).unsqueeze(-1), C[5:, :5]], -1))
    close(found.mean(X), mean[:5] + C[:5, 5:] @ weights[:, 0])
    close(found.covar(X), C[:5, :5] - C[:5, 5:] @ weights[:, 1:])


def test_library_choices_are_the_greedy_one(model):
    X, q = uniform(150, D, seed=5), 8
    rows, gains = full_greedy(model, X, q, 0.5)
    T = 0.5 * math.sqrt(model.posterior.amplitude)
    found = choose_certified(model.posterior, encoded(library_of(X)), Choice(q=q, temperature=0.5))
    assert found.certificate["certified"]
    assert found.rows.tolist() == rows
    close(found.gain, gains)
    alone, _ = greedy(model.posterior, X, q, T)
    assert alone.tolist() == rows
    again, _ = greedy_eagerly(model.posterior, X, q, T)
    assert len(again) == q


def test_exchanges_raise_the_joint_value(model):
    X = uniform(60, D, seed=6)
    acqf = bs.BatchedEnergyEntropy(model.posterior, 0.5)
    start = torch.arange(6)
    swapped = improve(acqf, X, start)
    assert float(acqf(X[swapped.places])) > float(acqf(X[start])) + 0.1


def test_box_search_beats_random_batches(model):
    acqf = bs.BatchedEnergyEntropy(model.posterior, 0.5)
    space = Space(torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.float64))
    X, value, _ = optimize_box(acqf, space, 6, BoxSearch(restarts=2, steps=40))
    assert float(acqf(X)) == pytest.approx(value, rel=1e-8)
    assert value > max(float(acqf(uniform(6, D, seed=seed))) for seed in range(50))


def test_energies_of_points_stand_on_it(model):
    X = uniform(7, D, seed=7)
    target = valued(model.posterior, TargetEnergy(0.3))
    close(target.covar(X), model.covar(X))
    assert not torch.equal(target.mean(X), model.mean(X))
    assert isinstance(target.augment(X[:2]), Posterior)


def test_conditioning_step_by_step_is_augmenting(model):
    X, Z = uniform(5, D, seed=8), uniform(6, D, seed=9)
    once, twice = model.posterior.augment(Z), model.posterior.augment(Z[:2]).augment(Z[2:])
    close(once.covar(X), twice.covar(X))
