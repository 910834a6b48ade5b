import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from beebo_scale import information_gain, marginal_gain
from tests.helpers import LAWS, close, exact_toy, half_logdet, normal, sparse_toy, uniform


def spectrum(eigenvalues, seed=0):
    """A random symmetric matrix with these eigenvalues."""
    Q, _ = torch.linalg.qr(normal(len(eigenvalues), len(eigenvalues), seed=seed))
    return Q @ torch.diag(eigenvalues) @ Q.mT


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_equals_the_difference_of_two_log_determinants(batch):
    C = exact_toy().covar(uniform(*batch, 5, 2, seed=3))
    noise = 0.01 + uniform(*batch, 5, seed=4)
    assert information_gain(C, noise).shape == batch
    close(information_gain(C, noise), half_logdet(C, noise), rtol=1e-9)
    close(information_gain(C, noise.reshape(-1, 5)[0]), half_logdet(C, noise.reshape(-1, 5)[0]), rtol=1e-9)
    close(information_gain(C, 0.1), half_logdet(C, torch.full_like(noise, 0.1)), rtol=1e-9)


@pytest.mark.parametrize("sigma2", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e2, 1e4])
def test_any_noise_gives_the_value_of_the_spectrum(sigma2):
    eigenvalues = torch.logspace(-5, 1, 20, dtype=torch.float64)
    expected = 0.5 * torch.log1p(eigenvalues / sigma2).sum()
    close(information_gain(spectrum(eigenvalues), sigma2), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("sigma2", [1e-12, 1e-6, 1e-2, 1.0, 1e4])
def test_repeats_of_one_point_average_its_noise(sigma2):
    C = torch.full((50, 50), 0.7, dtype=torch.float64)
    rtol = 1e-10 + 1e-15 / sigma2  # rounding in C counts in units of sigma2
    assert float(information_gain(C, sigma2)) == pytest.approx(0.5 * math.log1p(50 * 0.7 / sigma2), rel=rtol)


@pytest.mark.parametrize("sigma2", [1e-8, 1e-4, 1e-2, 1.0])
def test_five_hundred_points_in_one_spot(sigma2):
    toy = exact_toy()
    X = uniform(1, 2, seed=3) + 1e-6 * uniform(500, 2, seed=4)
    C = toy.posterior.covar(X)
    close(information_gain(C, sigma2), 0.5 * torch.log1p(torch.linalg.eigvalsh(C).clamp_min(0) / sigma2).sum(), 1e-5)
    one_point = 0.5 * math.log1p(500 * float(toy.posterior.variance(X[:1])) / sigma2)
    if sigma2 > 1e-6:  # with less noise, differences over 1e-6 do tell something
        assert float(information_gain(C, sigma2)) == pytest.approx(one_point, rel=1e-5)
    assert float(information_gain(C, sigma2)) > one_point - 1e-4


def many_digits(toy, X, sigma2):
    """The information of measuring X, from the kernel's formula on, with 50 digits."""
    X, Z, lengthscale = X.tolist(), toy.Z.tolist(), toy.lengthscale.tolist()

    def k(a, b):
        r = mp.sqrt(5 * sum(((mp.mpf(s) - t) / length) ** 2 for s, t, length in zip(a, b, lengthscale, strict=True)))
        return toy.outputscale * (1 + r + r**2 / 3) * mp.exp(-r)

    def gram(A, B):
        return mp.matrix([[k(a, b) for b in B] for a in A])

    with mp.workdps(50):
        A = gram(Z, Z) + 0.05 * mp.eye(len(Z))
        C = gram(X, X) - gram(X, Z) * A**-1 * gram(Z, X)
        return float(mp.log(mp.det(mp.eye(len(X)) + C / sigma2)) / 2)


@pytest.mark.parametrize("distance", [0.0, 1e-8, 1e-6, 1e-4, 1e-1])
@pytest.mark.parametrize("sigma2", [1e-12, 1e-9, 1e-4])
def test_near_repeats_against_many_digits(distance, sigma2):
    toy = exact_toy(n=5)
    X = uniform(1, 2, seed=3) + distance * uniform(6, 2, seed=4)
    error = 1e-9 + 2e-15 / sigma2  # C is known to a few ulp
    assert float(information_gain(toy.posterior.covar(X), sigma2)) == pytest.approx(
        many_digits(toy, X, sigma2), abs=error
    )


def test_repeats_within_a_batch_share_their_noise():
    toy = exact_toy()
    X = uniform(3, 2, seed=3)
    repeated = information_gain(toy.posterior.covar(X[[0, 1, 1, 1, 2, 2]]), 0.06)
    merged = information_gain(toy.posterior.covar(X), torch.tensor([0.06, 0.02, 0.03], dtype=torch.float64))
    close(repeated, merged)


def test_on_measured_points():
    toy = exact_toy(sigma2=0.05)  # eigenvalues of K in the textbook: C = K - K (K + s)^-1 K at the training rows
    kappa = torch.linalg.eigvalsh(toy.k(toy.Z, toy.Z))
    C = toy.posterior.covar(toy.Z)
    close(information_gain(C, 0.05), 0.5 * torch.log1p(kappa / (kappa + 0.05)).sum())


def test_one_row_and_one_input():
    toy = exact_toy(n=1, d=1)
    X = uniform(4, 1, seed=3)
    C = toy.covar(X)
    close(information_gain(toy.posterior.covar(X), 0.1), half_logdet(C, torch.full((4,), 0.1, dtype=torch.float64)))


def test_far_outside_the_data_only_the_prior_counts():
    toy = exact_toy()
    X = 50.0 + uniform(5, 2, seed=3)
    expected = half_logdet(toy.k(X, X), torch.full((5,), 0.1, dtype=torch.float64))
    close(information_gain(toy.posterior.covar(X), 0.1), expected)


def test_of_one_point_is_the_marginal_gain():
    toy = exact_toy()
    X = uniform(7, 1, 2, seed=3)
    noise = 0.01 + uniform(7, 1, seed=4)
    gain = information_gain(toy.posterior.covar(X), noise)
    close(gain, marginal_gain(toy.posterior.variance(X), noise).squeeze(-1), rtol=1e-13)
    v = toy.covar(X).squeeze(-1)
    close(gain, 0.5 * torch.log((v + noise) / noise).squeeze(-1))


def test_marginal_gain_of_little_variance_is_exact():
    variance = torch.tensor([1e-20, 0.0], dtype=torch.float64)
    close(marginal_gain(variance, 1.0), variance / 2, rtol=1e-14, atol=0)


@pytest.mark.parametrize("sigma2", [1e-3, 1e-1, 10.0])
def test_float32_is_close_to_float64(sigma2):
    C = exact_toy().posterior.covar(uniform(3, 20, 2, seed=3))
    single = information_gain(C.float(), sigma2)
    assert single.dtype == torch.float32
    close(single.double(), information_gain(C, sigma2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("times", [1, 2, 4, 10])
def test_repeated_points_with_little_noise_in_float32(times):
    X = uniform(20 // times, 2, seed=3).repeat(times, 1)
    C = exact_toy().posterior.prior_covar(X, X).float()
    assert float(information_gain(C, 1e-8)) == pytest.approx(float(information_gain(C.double(), 1e-8)), rel=1e-6)


def test_gradients_against_finite_differences():
    toy = exact_toy()
    X = uniform(2, 4, 2, seed=3).requires_grad_()
    noise = (0.05 + uniform(2, 4, seed=4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda X, noise: information_gain(toy.posterior.covar(X), noise), (X, noise))


def test_gradients_are_finite_where_points_meet():
    toy = exact_toy()
    X = torch.cat([toy.Z[:2], toy.Z[:2], uniform(2, 2, seed=3)]).requires_grad_()
    (grad,) = torch.autograd.grad(information_gain(toy.posterior.covar(X), 0.05), X)
    Xr = X.detach().clone().requires_grad_()
    brute = 0.5 * torch.logdet(torch.eye(6, dtype=torch.float64) + toy.covar(Xr) / 0.05)
    close(grad, torch.autograd.grad(brute, Xr)[0], rtol=1e-6, atol=1e-6)


# --- where the Cholesky factor does not exist --------------------------------------------------------------


def below_zero():
    """A covariance whose smallest eigenvalue rounding took far below -sigma^2, and the one it should have been."""
    eigenvalues = torch.tensor([2.0, 0.5, 0.1, 1e-3, -1e-8, 0.0], dtype=torch.float64)
    sigma2 = 1e-9
    bad, good = spectrum(eigenvalues), spectrum(eigenvalues.clamp_min(0.0))
    assert torch.linalg.cholesky_ex(torch.eye(6) + bad / sigma2).info > 0
    assert torch.linalg.cholesky_ex(torch.eye(6) + good / sigma2).info == 0
    return bad, good, sigma2


def test_fallback_has_the_value_of_the_nearest_covariance():
    bad, good, sigma2 = below_zero()
    close(information_gain(bad, sigma2), information_gain(good, sigma2), rtol=1e-7, atol=0)


def test_fallback_has_the_gradient_of_the_nearest_covariance():
    bad, good, sigma2 = below_zero()
    fallback, regular = bad.requires_grad_(), good.requires_grad_()
    (grad,) = torch.autograd.grad(information_gain(fallback, sigma2), fallback)
    (expected,) = torch.autograd.grad(information_gain(regular, sigma2), regular)
    expected = 0.5 * (expected + expected.mT)
    close(grad, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    M_inv = torch.linalg.inv(torch.eye(6) + good.detach() / sigma2)
    close(grad, 0.5 / sigma2 * M_inv, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


def test_fallback_of_one_batch_leaves_the_others_right():
    bad, good, sigma2 = below_zero()
    other = spectrum(torch.linspace(0.1, 1.0, 6, dtype=torch.float64), seed=5)
    both = information_gain(torch.stack([bad, other]), sigma2)
    close(both, information_gain(torch.stack([good, other]), sigma2), rtol=1e-7, atol=0)


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, -0.1, math.nan, [0.1, 0.1, 0.0], torch.tensor([0.1, 0.1, -1e-9])])
def test_noise_has_to_be_above_zero(noise):
    with pytest.raises(ValueError, match="noise variances must be above zero"):
        information_gain(torch.eye(3, dtype=torch.float64), noise)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("entry", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("q", [2, 3])
def test_a_covariance_that_is_not_finite_is_an_error(value, entry, q):
    C = torch.eye(q, dtype=torch.float64)
    C[entry] = value
    with pytest.raises(ValueError, match="not finite"):
        information_gain(C, 0.1)


def test_noise_without_bound_is_an_error():
    with pytest.raises(ValueError, match="not finite"):
        information_gain(torch.eye(2, dtype=torch.float64), math.inf)


# --- laws --------------------------------------------------------------------------------------------------

POSTERIORS = [exact_toy().posterior, sparse_toy(largest=1.3).posterior]
posteriors = st.sampled_from(POSTERIORS)
points = st.tuples(st.integers(0, 6), st.integers(0, 6))  # a coarse grid, so that points do repeat
sigma2s = st.sampled_from([1e-6, 1e-3, 0.1, 10.0])


def at(grid_points):
    return torch.tensor(grid_points, dtype=torch.float64).reshape(-1, 2) / 6.0


def gain(posterior, grid_points, sigma2):
    return float(information_gain(posterior.covar(at(grid_points)), sigma2))


@LAWS
@given(posteriors, st.lists(points, min_size=1, max_size=8), sigma2s, st.randoms(use_true_random=False))
def test_information_is_positive_whatever_the_order(posterior, batch, sigma2, random):
    shuffled = random.sample(batch, len(batch))
    I = gain(posterior, batch, sigma2)
    assert I > 0
    assert gain(posterior, shuffled, sigma2) == pytest.approx(I, rel=1e-7)


@LAWS
@given(posteriors, st.lists(points, min_size=1, max_size=6), points, sigma2s)
def test_one_more_point_never_tells_less(posterior, batch, point, sigma2):
    assert gain(posterior, [*batch, point], sigma2) >= gain(posterior, batch, sigma2) - 1e-9


@LAWS
@given(
    posteriors,
    st.lists(points, min_size=1, max_size=4),
    st.lists(points, min_size=1, max_size=4),
    points,
    sigma2s,
)
def test_a_point_tells_less_the_more_is_known(posterior, batch, more, point, sigma2):
    early = gain(posterior, [*batch, point], sigma2) - gain(posterior, batch, sigma2)
    late = gain(posterior, [*batch, *more, point], sigma2) - gain(posterior, [*batch, *more], sigma2)
    assert late <= early + 1e-8


@LAWS
@given(posteriors, st.lists(points, min_size=1, max_size=4), st.lists(points, min_size=1, max_size=4), sigma2s)
def test_chain_rule(posterior, first, second, sigma2):
    both = gain(posterior, first + second, sigma2)
    after = gain(posterior.augment(at(first), sigma2), second, sigma2)
    assert gain(posterior, first, sigma2) + after == pytest.approx(both, rel=1e-6)


@LAWS
@given(posteriors, st.lists(points, min_size=1, max_size=6), sigma2s)
def test_greedy_sum_of_marginal_gains_is_the_information(posterior, batch, sigma2):
    total = 0.0
    conditioned = posterior
    for point in batch:
        total += float(marginal_gain(conditioned.variance(at([point])), sigma2))
        conditioned = conditioned.augment(at([point]), sigma2)
    assert total == pytest.approx(gain(posterior, batch, sigma2), rel=1e-6)


@LAWS
@given(posteriors, st.lists(points, min_size=1, max_size=6), sigma2s, st.integers(1, 7))
def test_a_compressed_posterior_never_tells_less(posterior, batch, sigma2, rank):
    assert gain(posterior.compress(rank), batch, sigma2) >= gain(posterior, batch, sigma2) - 1e-8
