import copy
import pickle
from dataclasses import replace

import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale import BatchedEnergyEntropy
from beebo_scale.linalg.roots import CholeskyRoot, DenseRoot
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import LAWS, close, condition, exact_toy, normal, sparse_toy, uniform

TOYS = {
    "cholesky": lambda: exact_toy(),
    "dense": lambda: exact_toy(dense=True),
    "sparse": lambda: sparse_toy(),
    "wide": lambda: sparse_toy(largest=1.6),  # knows less than the prior in some directions
}
BATCH_SHAPES = [(), (3,), (2, 3)]


@pytest.fixture(params=TOYS)
def toy(request):
    return TOYS[request.param]()


# --- moments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", BATCH_SHAPES)
def test_moments_are_those_of_the_textbook(toy, batch):
    X = uniform(*batch, 5, 2, seed=3)
    close(toy.posterior.mean(X), toy.mean(X))
    close(toy.posterior.covar(X), toy.covar(X))
    close(toy.posterior.variance(X), toy.covar(X).diagonal(dim1=-2, dim2=-1))


@pytest.mark.parametrize("batch", BATCH_SHAPES)
def test_all_ways_to_the_moments_agree(toy, batch):
    posterior, X = toy.posterior, uniform(*batch, 5, 2, seed=3)
    mean, covar = posterior.mean_and_covar(X)
    assert torch.equal(mean, posterior.mean(X))
    assert torch.equal(covar, posterior.covar(X))
    mean, variance = posterior.mean_and_variance(X)
    assert torch.equal(mean, posterior.mean(X))
    assert torch.equal(variance, posterior.variance(X))
    assert mean.shape == variance.shape == (*batch, 5)
    assert posterior.features(X).shape == (*batch, 5, posterior.rank)


def test_a_batch_is_computed_as_if_alone(toy):
    X = uniform(4, 5, 2, seed=3)
    mean, covar = toy.posterior.mean_and_covar(X)
    for i in range(4):
        close(mean[i], toy.posterior.mean(X[i]), rtol=1e-13, atol=1e-13)
        close(covar[i], toy.posterior.covar(X[i]), rtol=1e-13, atol=1e-13)


def test_cross_covariance_is_a_block_of_the_covariance(toy):
    X1, X2 = uniform(4, 2, seed=3), uniform(3, 2, seed=4)
    F1, F2 = toy.posterior.features(X1), toy.posterior.features(X2)
    cross = toy.posterior.cross_covar(X1, F1, X2, F2)  # 4 x 3
    close(cross, toy.covar(X1, X2))
    close(cross, toy.posterior.covar(torch.cat([X1, X2]))[:4, 4:], rtol=1e-13, atol=1e-13)


def test_amplitude_is_the_prior_variance(toy):
    assert toy.posterior.amplitude == pytest.approx(toy.outputscale, rel=1e-14)


def test_variance_is_never_negative():
    posterior = exact_toy(n=25, sigma2=1e-17).posterior
    variance = posterior.variance(posterior.centers)
    assert (posterior.covar(posterior.centers).diagonal() < 0).any()  # rounding does take some below zero here
    assert (variance >= 0).all()
    assert variance.max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["mean", "variance", "covar", "features"])
def test_gradients_against_finite_differences(toy, moment):
    X = uniform(2, 3, 2, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(getattr(toy.posterior, moment), X)


def test_gradients_survive_augment_and_compress(toy):
    posterior = toy.posterior.augment(uniform(3, 2, seed=6), 0.1, normal(3)).compress(6)
    X = uniform(3, 2, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(posterior.mean_and_covar, X)


def test_gradients_are_finite_where_points_meet(toy):
    X = torch.cat([toy.Z[:2], toy.Z[:2], uniform(1, 2, seed=3)]).requires_grad_()  # on centers and on each other
    mean, covar = toy.posterior.mean_and_covar(X)
    (grad,) = torch.autograd.grad(mean.sum() + covar.sum(), X)
    Xr = X.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(toy.mean(Xr).sum() + toy.covar(Xr).sum(), Xr)
    close(grad, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (4, 3), (2, 4, 1)])
def test_points_of_the_wrong_width_are_an_error(toy, shape):
    with pytest.raises(ValueError, match="x 2"):
        toy.posterior.mean(uniform(*shape))


# --- augment -----------------------------------------------------------------------------------------------


def refit(toy, X, noise, y, sigma2=0.05, y_seed=1):
    """Moments at the test points of a fit from scratch to the toy's own data and more."""
    test = uniform(5, 2, seed=9)
    Z, targets = torch.cat([toy.Z, X]), torch.cat([normal(len(toy.Z), seed=y_seed), y])
    variance = torch.cat([torch.full((len(toy.Z),), sigma2, dtype=torch.float64), noise])
    joint = torch.cat([Z, test])
    constant = torch.full((len(joint),), toy.constant, dtype=torch.float64)
    return condition(constant, toy.k(joint, joint), variance, targets)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("noise", [0.2, [0.01, 3.0, 0.2, 0.5]])
def test_augment_is_a_refit(dense, noise):
    toy, X, y, test = exact_toy(dense=dense), uniform(4, 2, seed=6), normal(4, seed=7), uniform(5, 2, seed=9)
    noise = torch.tensor(noise, dtype=torch.float64)
    updated = toy.posterior.augment(X, noise, y)
    mean, covar = refit(toy, X, noise.expand(4), y)
    close(updated.mean(test), mean)
    close(updated.covar(test), covar)
    assert isinstance(updated.down, DenseRoot if dense else CholeskyRoot)
    assert updated.rank == len(updated.centers) == 16


def test_augment_is_gaussian_conditioning(toy):
    X, y, test, noise = uniform(4, 2, seed=6), normal(4, seed=7), uniform(5, 2, seed=9), uniform(4, seed=8)
    both = torch.cat([X, test])
    mean, covar = condition(toy.mean(both), toy.covar(both), noise, y)
    updated = toy.posterior.augment(X, noise, y)
    close(updated.mean(test), mean)
    close(updated.covar(test), covar)
    close(updated.variance(test), covar.diagonal())


def test_augment_twice_in_any_order_is_augment_once(toy):
    X, y, test, noise = uniform(5, 2, seed=6), normal(5, seed=7), uniform(5, 2, seed=9), uniform(5, seed=8)
    both = torch.cat([X, test])
    mean, covar = condition(toy.mean(both), toy.covar(both), noise, y)
    A, B = slice(0, 2), slice(2, 5)
    for first, second in [(A, B), (B, A)]:
        updated = toy.posterior.augment(X[first], noise[first], y[first]).augment(X[second], noise[second], y[second])
        close(updated.mean(test), mean)
        close(updated.covar(test), covar)
    flipped = toy.posterior.augment(X.flip(0), noise.flip(0), y.flip(0))
    close(flipped.mean(test), mean)
    close(flipped.covar(test), covar)


def test_augment_after_compress_conditions_the_compressed_posterior(toy):
    small = toy.posterior.compress(4)
    X, y, test = uniform(4, 2, seed=6), normal(4, seed=7), uniform(5, 2, seed=9)
    both = torch.cat([X, test])
    mean, covar = condition(small.mean(both), small.covar(both), torch.full((4,), 0.1, dtype=torch.float64), y)
    updated = small.augment(X, 0.1, y)
    close(updated.mean(test), mean)
    close(updated.covar(test), covar)


def test_augment_without_values_leaves_the_mean(toy):
    X, test = uniform(4, 2, seed=6), uniform(5, 2, seed=9)
    noise = torch.full((4,), 0.1, dtype=torch.float64)
    updated = toy.posterior.augment(X, 0.1)
    close(updated.mean(test), toy.posterior.mean(test), rtol=1e-14, atol=1e-14)
    both = torch.cat([X, test])
    close(updated.covar(test), condition(toy.mean(both), toy.covar(both), noise, torch.zeros_like(noise))[1])


def test_augment_takes_the_posteriors_own_noise(toy):
    X, test = uniform(4, 2, seed=6), uniform(5, 2, seed=9)
    assert torch.equal(toy.posterior.augment(X).covar(test), toy.posterior.augment(X, 0.05).covar(test))


def test_augment_leaves_the_original_alone(toy):
    test = uniform(5, 2, seed=9)
    before = toy.posterior.mean_and_covar(test)
    toy.posterior.augment(uniform(4, 2, seed=6), 0.1, normal(4))
    after = toy.posterior.mean_and_covar(test)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_augment_by_nothing_changes_nothing(toy):
    test = uniform(5, 2, seed=9)
    updated = toy.posterior.augment(uniform(0, 2), 0.1, normal(0))
    close(updated.mean(test), toy.posterior.mean(test), rtol=1e-14, atol=1e-14)
    close(updated.covar(test), toy.posterior.covar(test), rtol=1e-14, atol=1e-14)


def test_augment_on_measured_points_and_on_repeats(toy):
    X = toy.Z[[0, 0, 1]]
    y, test, noise = normal(3, seed=7), uniform(5, 2, seed=9), torch.full((3,), 1e-6, dtype=torch.float64)
    both = torch.cat([X, test])
    mean, covar = condition(toy.mean(both), toy.covar(both), noise, y)
    updated = toy.posterior.augment(X, 1e-6, y)
    close(updated.mean(test), mean, rtol=1e-6, atol=1e-6)
    close(updated.covar(test), covar, rtol=1e-7, atol=1e-7)


X4 = uniform(4, 2, seed=6)


@pytest.mark.parametrize(
    ("X", "noise", "Y", "match"),
    [
        (uniform(4, 3), 0.1, None, "q x"),
        (uniform(1, 4, 2), 0.1, None, "q x"),
        (uniform(2), 0.1, None, "q x"),
        (X4, uniform(3), None, "noise is a number or one for each of 4"),
        (X4, uniform(4, 1), None, "noise is a number or one for each of 4"),
        (X4, 0.1, normal(3), "one value for each of 4"),
        (X4, 0.1, normal(1), "one value for each of 4"),
        (X4[:1], 0.1, normal(3), "one value for each of 1"),
        (X4[[0] * 30], 0.0, None, "not positive definite"),
        (X4[[0, 1]] * torch.nan, 0.1, None, "not positive definite"),
        (X4, -1e-3, None, "must not be negative"),
        (X4, torch.nan, None, "must not be negative"),
    ],
)
def test_augment_says_what_is_wrong(toy, X, noise, Y, match):
    with pytest.raises(ValueError, match=match):
        toy.posterior.augment(X, noise, Y)


@LAWS
@given(st.integers(1, 6), st.integers(0, 10_000), st.sampled_from(sorted(TOYS)))
def test_measuring_never_adds_variance(q, seed, name):
    posterior, test = TOYS[name]().posterior, uniform(6, 2, seed=seed + 1)
    difference = posterior.covar(test) - posterior.augment(uniform(q, 2, seed=seed), 0.01).covar(test)
    assert torch.linalg.eigvalsh(difference).min() > -1e-10


# --- warped inputs -----------------------------------------------------------------------------------------


class Halved(torch.nn.Module):
    """Callers give inputs in [0, 2], the kernel takes [0, 1]; the second one bends."""

    def forward(self, X):
        return torch.stack([X[..., 0] / 2, (X[..., 1] / 2) ** 1.5], dim=-1)


def test_a_warped_posterior_is_the_plain_one_at_the_warped_points(toy):
    warp = Halved()
    posterior = replace(toy.posterior, warp=warp)
    X, test, y = 2 * uniform(4, 2, seed=6), 2 * uniform(3, 5, 2, seed=9), normal(4, seed=7)
    pairs = [
        (posterior, toy.posterior),
        (posterior.augment(X, 0.1, y), toy.posterior.augment(warp(X), 0.1, y)),
        (posterior.compress(4), toy.posterior.compress(4)),
        (posterior.compress(4).augment(X), toy.posterior.compress(4).augment(warp(X))),
    ]
    for warped, plain in pairs:
        close(warped.mean(test), plain.mean(warp(test)), rtol=1e-13, atol=1e-13)
        close(warped.covar(test), plain.covar(warp(test)), rtol=1e-13, atol=1e-13)
        close(warped.variance(test), plain.variance(warp(test)), rtol=1e-13, atol=1e-13)
    F = posterior.features(X)
    close(posterior.cross_covar(X, F, X, F), posterior.covar(X))


def test_gradients_pass_through_the_warp(toy):
    posterior = replace(toy.posterior, warp=Halved())
    assert torch.autograd.gradcheck(posterior.mean_and_covar, (2 * uniform(3, 2, seed=5)).requires_grad_())


# --- compress ----------------------------------------------------------------------------------------------


def discarded(toy, rank):
    """By how much the trace of the covariance at the centers grows for the best root of this rank.

    The data take F (1 - S S') F' away from the prior; of its positive part the `rank` largest eigenvalues stay.
    """
    F = toy.posterior.features(toy.Z)  # n x r
    up = torch.zeros(F.shape[-1], 1, dtype=F.dtype) if toy.posterior.up is None else toy.posterior.up
    g, Q = torch.linalg.eigh(torch.eye(F.shape[-1], dtype=F.dtype) - up @ up.mT)
    positive = F @ (Q * g.clamp_min(0)) @ Q.mT @ F.mT
    return torch.linalg.eigvalsh(positive).flip(0)[rank:].sum()


@pytest.mark.parametrize("rank", [1, 2, 3, 5, 7])
def test_compress_only_adds_variance_and_as_little_as_possible(toy, rank):
    small, test = toy.posterior.compress(rank), torch.cat([uniform(9, 2, seed=9), toy.Z[:3]])
    growth = small.covar(test) - toy.posterior.covar(test)
    assert torch.linalg.eigvalsh(growth).min() > -1e-10
    close((small.variance(toy.Z) - toy.posterior.variance(toy.Z)).sum(), discarded(toy, rank), rtol=1e-8, atol=1e-9)
    assert torch.equal(small.mean(test), toy.posterior.mean(test))


def test_compress_gets_better_with_rank(toy):
    variance = torch.stack([toy.posterior.compress(r).variance(toy.Z).sum() for r in range(1, toy.posterior.rank)])
    assert (variance.diff() < 1e-12).all()
    assert variance[0] > variance[-1] + 0.1


def test_compress_by_one_is_close(toy):
    small, test = toy.posterior.compress(toy.posterior.rank - 1), uniform(9, 2, seed=9)
    close(small.covar(test), toy.posterior.covar(test), rtol=0, atol=0.03)


def test_compress_keeps_rank_and_the_directions_of_more_variance():
    assert exact_toy().posterior.compress(3).rank == 3
    assert exact_toy().posterior.compress(3).up is None
    assert sparse_toy().posterior.compress(3).rank == 3
    toy = sparse_toy(largest=1.6)
    wide = int((torch.linalg.svdvals(toy.posterior.up) > 1).sum())
    assert wide > 0
    assert toy.posterior.compress(3).rank == 3 + wide


@pytest.mark.parametrize("rank", [8, 12, 100])
def test_compress_to_no_less_returns_the_same(rank):
    posterior = sparse_toy().posterior
    assert posterior.compress(rank) is posterior


@pytest.mark.parametrize("rank", [0, -1])
def test_compress_to_nothing_is_an_error(toy, rank):
    with pytest.raises(ValueError, match="rank is at least 1"):
        toy.posterior.compress(rank)


def test_compress_when_the_posterior_knows_less_than_the_prior_everywhere():
    toy = sparse_toy()
    posterior = replace(toy.posterior, up=1.5 * torch.eye(8, dtype=torch.float64))
    small, test = posterior.compress(2), uniform(5, 2, seed=9)
    close(small.covar(test), posterior.covar(test))


def test_compress_of_many_centers_in_chunks():
    toy = exact_toy(n=30)
    Z = torch.cat([uniform(1100, 2, seed=20), toy.Z])  # more centers than a chunk; the first have no weight in R
    R = torch.cat([torch.zeros(1100, 30, dtype=torch.float64), torch.linalg.inv(toy.posterior.down.L).mT])
    weights = torch.cat([torch.zeros(1100, dtype=torch.float64), toy.weights])
    posterior = replace(toy.posterior, centers=Z, weights=weights, down=DenseRoot(R))
    F = posterior.features(Z)
    small = posterior.compress(5)
    close((small.variance(Z) - posterior.variance(Z)).sum(), torch.linalg.eigvalsh(F.mT @ F)[:-5].sum(), rtol=1e-8)


# --- copies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_are_the_same_posterior(toy, copied):
    X = uniform(5, 2, seed=3)
    twin = copied(toy.posterior.augment(uniform(2, 2, seed=6), 0.1, normal(2)))
    original = toy.posterior.augment(uniform(2, 2, seed=6), 0.1, normal(2))
    assert torch.equal(twin.mean(X), original.mean(X))
    assert torch.equal(twin.covar(X), original.covar(X))
    assert twin.amplitude == original.amplitude


def test_a_posterior_with_priors_on_its_kernel_can_be_pickled():
    toy = exact_toy()
    kernel = ScaleKernel(
        MaternKernel(nu=2.5, ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0)),
        outputscale_prior=GammaPrior(2.0, 0.15),
    ).double()
    kernel.load_state_dict(toy.posterior.kernel.state_dict(), strict=False)
    posterior = replace(toy.posterior, kernel=kernel.requires_grad_(False))
    X = uniform(5, 2, seed=3)
    assert torch.equal(pickle.loads(pickle.dumps(posterior)).covar(X), toy.posterior.covar(X))


def test_float32_is_close_and_the_way_back_too(toy):
    X = uniform(5, 2, seed=3)
    single = toy.posterior.to(torch.float32)
    assert single.dtype == torch.float32
    mean, covar = single.mean_and_covar(X.float())
    assert mean.dtype == covar.dtype == single.noise(X.float()).dtype == torch.float32
    close(mean.double(), toy.mean(X), rtol=1e-4, atol=1e-4)
    close(covar.double(), toy.covar(X), rtol=1e-4, atol=1e-4)
    back = single.to(torch.float64)
    close(back.covar(X), toy.covar(X), rtol=1e-4, atol=1e-4)
    close(toy.posterior.covar(X), toy.covar(X))  # the original has not moved


def test_float32_is_refused_where_it_would_decide_the_information(toy):
    quiet = replace(toy.posterior, noise=ConstantNoise(torch.tensor(1e-5 * toy.posterior.amplitude)))
    with pytest.raises(ValueError, match="use float64"):
        quiet.to(torch.float32)
    assert quiet.to(torch.device("cpu")).dtype == torch.float64


def test_backward_leaves_no_gradient_in_the_kernel(toy):
    acqf = BatchedEnergyEntropy(toy.posterior, X_pending=uniform(2, 2, seed=6))
    X = uniform(2, 3, 2, seed=3).requires_grad_()
    acqf(X).sum().backward()
    assert X.grad.abs().min() > 0
    parameters = [*toy.posterior.kernel.parameters(), *toy.posterior.prior_mean.parameters(), *acqf.parameters()]
    assert len(parameters) >= 3
    assert all(p.grad is None for p in parameters)
    assert toy.posterior.weights.grad is None
