import contextlib
import math
import re
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale import BatchedEnergyEntropy, MeanEnergy
from beebo_scale.energy import SoftmaxEnergy, TargetEnergy, TaskWeights, log_softmax_weights, valued
from tests.helpers import LAWS, close, exact_toy, matern52, normal, sparse_toy, uniform


def eye(q):
    return torch.eye(q, dtype=torch.float64)


def correlated(q, seed=0, sd=1.0):
    """Covariance of a smooth function at random points in a square."""
    X = uniform(q, 2, seed=seed)
    return sd**2 * matern52(X, X, torch.tensor([0.4, 0.4], dtype=torch.float64), 1.0)


COVARIANCES = {"independent": lambda q, sd: sd**2 * eye(q), "correlated": lambda q, sd: correlated(q, sd=sd)}


def literal(mean, C, beta, f_max=None, alpha=0.05, normalised=False):
    """The paper's closed form as it stands there: one batch, a direct solve of 1 + beta^2 C W.

    `normalised`: over all points and f_max, which then is one of the values, divided by the sum of their weights.
    """
    e = torch.exp(beta * (mean - mean.max()))  # q
    denominator = e.sum()
    if f_max is not None:
        rest = torch.exp((beta * (f_max - mean.max())).clamp_max(700.0))
        denominator = denominator + torch.minimum(rest, (1 - alpha) / alpha * e.sum())
    w = e / denominator
    W = torch.diag(w) - torch.outer(w, w)
    M = eye(len(mean)) + beta**2 * C @ W
    D = torch.linalg.solve(M, C - (C @ w).unsqueeze(-1))  # column i: C_softmax (e_i - w)
    nu = mean + beta * D.diagonal()
    c = beta**2 / 2 * (D.diagonal() - w @ D)
    K = torch.linalg.det(M) ** -0.5
    if not normalised:
        return len(mean) * K * (w * c.exp() * nu).sum()
    omega = K * w * c.exp()
    share = 1 - w.sum()  # of f_max
    rest = K * share * torch.exp(beta**2 / 2 * torch.einsum("i,ij,j", w, torch.linalg.solve(M, C), w))
    known = 0.0 if f_max is None else f_max
    return len(mean) * ((omega * nu).sum() + rest * known) / (omega.sum() + rest)


PAPER = partial(SoftmaxEnergy, normalised=False)


def monte_carlo(mean, C, beta, f_max=None, draws=200_000, seed=0, valued=True):
    """E sum_i omega_i(f) f_i and its standard error; f_max shares the weights, and the sum where `valued`."""
    eigenvalues, Q = torch.linalg.eigh(C)
    f = mean + normal(draws, len(mean), seed=seed) @ (Q * eigenvalues.clamp_min(0).sqrt()).mT
    e = torch.exp(beta * f)
    rest = 0.0 if f_max is None else math.exp(beta * f_max)
    value = ((e * f).sum(-1) + (rest * f_max if rest and valued else 0.0)) / (e.sum(-1) + rest)
    return float(value.mean()), float(value.std()) / math.sqrt(draws)


# --- values ------------------------------------------------------------------------------------------------


def test_mean_energy_is_the_sum_of_means():
    mean = normal(3, 5)
    assert torch.equal(MeanEnergy()(mean, eye(5), 1.0), mean.sum(-1))


@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.parametrize("q", [1, 2, 7, 40])
@pytest.mark.parametrize("beta", [0.1, 0.7, 1.4])
@pytest.mark.parametrize("f_max", [None, -2.0, 0.5, 3.0])
def test_softmax_is_the_closed_form_of_the_paper(name, q, beta, f_max):
    mean, C = normal(q, seed=q), COVARIANCES[name](q, 1.0)
    close(PAPER(beta, f_max)(mean, C, 1.0), literal(mean, C, beta, f_max), rtol=1e-10, atol=1e-12)
    value = SoftmaxEnergy(beta, f_max)(mean, C, 1.0)
    close(value, literal(mean, C, beta, f_max, normalised=True), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("beta", [3.0, 5.0, 20.0])
def test_softmax_is_that_closed_form_however_large_beta_is(beta):
    mean, C = normal(9), correlated(9)
    close(PAPER(beta, tolerance=math.inf)(mean, C, 1.0), literal(mean, C, beta), rtol=1e-8, atol=0)
    value = SoftmaxEnergy(beta, tolerance=math.inf)(mean, C, 1.0)
    close(value, literal(mean, C, beta, normalised=True), rtol=1e-8, atol=0)


def test_beta_is_by_default_one_over_the_root_of_the_amplitude():
    mean, C = normal(5), 4.0 * correlated(5)
    close(SoftmaxEnergy()(mean, C, 4.0), literal(mean, C, 0.5, normalised=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.parametrize("q", [3, 10, 100])
@pytest.mark.parametrize(("sd", "allowed"), [(0.25, 2e-3), (0.5, 5e-3), (1.0, 0.06), (1.5, 0.16)])
def test_softmax_is_near_monte_carlo(name, q, sd, allowed):
    """Means within one standard deviation of each other, as a batch that is worth measuring has."""
    mean = sd * uniform(q, seed=q)
    C = COVARIANCES[name](q, sd)
    expected, stderr = monte_carlo(mean, C, 1.0, draws=400_000 // q)
    energy = float(SoftmaxEnergy(1.0)(mean, C, 1.0)) / q
    assert energy == pytest.approx(expected, abs=5 * stderr + allowed * sd)


@pytest.mark.parametrize("energy", [SoftmaxEnergy, PAPER])
@pytest.mark.parametrize("f_max", [-1.0, 1.0, 2.0])
def test_softmax_with_f_max_is_near_monte_carlo(energy, f_max):
    mean, C = 0.5 * uniform(10), correlated(10, sd=0.5)
    expected, stderr = monte_carlo(mean, C, 1.0, f_max, valued=energy is SoftmaxEnergy)
    assert float(energy(1.0, f_max)(mean, C, 1.0)) / 10 == pytest.approx(expected, abs=5 * stderr + 2e-3)


@pytest.mark.parametrize(("sd", "bar"), [(1.0, 0.02), (1.5, 0.06), (2.0, 0.13)])
def test_the_normalised_form_is_nearer_to_monte_carlo(sd, bar):
    """Means some way from zero, beta = 1: the error in units of sd, the worst of three batches."""
    worst = {"paper": 0.0, "ours": 0.0}
    for seed in range(3):
        mean, C = 2.0 + sd * uniform(8, seed=seed), correlated(8, seed=seed, sd=sd)
        expected, stderr = monte_carlo(mean, C, 1.0, draws=100_000, seed=seed)
        assert stderr < 0.01 * sd
        for name, energy in (("paper", PAPER), ("ours", SoftmaxEnergy)):
            error = abs(float(energy(1.0, tolerance=math.inf)(mean, C, 1.0)) / 8 - expected) / sd
            worst[name] = max(worst[name], error)
    assert worst["ours"] < bar < worst["paper"]


@LAWS
@given(
    st.floats(-1e3, 1e3),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.sampled_from([None, -2.0, 0.5, 20.0]),
    st.integers(0, 3),
)
def test_the_zero_of_f_does_not_count(shift, beta, f_max, seed):
    """E(mu + s) = E + s exactly, also where the expansion is poor and however the weight of f_max is capped."""
    mean, C = normal(3, 6, seed=seed), correlated(6, seed)
    moved = None if f_max is None else f_max + shift
    plain = SoftmaxEnergy(beta, f_max, tolerance=math.inf)(mean, C, 1.0)
    value = SoftmaxEnergy(beta, moved, tolerance=math.inf)(mean + shift, C, 1.0)
    close(value, plain + 6 * shift, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("f_max", [0.0, 3.0])
def test_a_batch_without_hope_is_worth_what_is_known(f_max):
    mean, C = torch.full((4,), -2.0, dtype=torch.float64), 1e-6 * eye(4)
    value = SoftmaxEnergy(5.0, f_max, alpha=1e-9)(mean, C, 1.0) / 4
    assert float(value) == pytest.approx(f_max, abs=1e-3)


@pytest.mark.parametrize("name", COVARIANCES)
def test_small_beta_is_the_mean(name):
    mean, C = normal(3, 12), COVARIANCES[name](12, 1.0).expand(3, 12, 12)
    close(SoftmaxEnergy(1e-9)(mean, C, 1.0), mean.sum(-1), rtol=1e-6, atol=1e-6)
    first = (mean.var(-1, correction=0) + C.diagonal(dim1=-2, dim2=-1).mean(-1) - C.mean((-1, -2))) * 12
    slope = (SoftmaxEnergy(1e-4)(mean, C, 1.0) - mean.sum(-1)) / 1e-4  # q times variance within the batch
    close(slope, first, rtol=1e-3, atol=0)


@pytest.mark.parametrize("beta", [0.1, 1.0, 100.0])
def test_one_point_is_its_mean(beta):
    mean, C = normal(4, 1), 1.0 + uniform(4, 1, 1)
    close(SoftmaxEnergy(beta)(mean, C, 1.0), mean.squeeze(-1), rtol=1e-14)


def test_one_point_above_all_others_is_worth_q_times_its_mean():
    mean = torch.tensor([50.0, 0.0, 1.0, -3.0], dtype=torch.float64)
    close(SoftmaxEnergy(1.0)(mean, correlated(4), 1.0), torch.tensor(200.0, dtype=torch.float64), rtol=1e-12)
    assert float(SoftmaxEnergy(1.0).effective_points(mean, 1.0)) == pytest.approx(1.0, abs=1e-12)


def test_points_without_variance_are_a_plain_softmax():
    mean = normal(6)
    expected = 6 * (torch.softmax(3.0 * mean, -1) * mean).sum()
    close(SoftmaxEnergy(3.0)(mean, torch.zeros(6, 6, dtype=torch.float64), 1.0), expected)


def test_a_shift_and_a_scale_of_f_where_the_normalisation_holds():
    mean, C = 0.3 * normal(6), correlated(6, sd=0.1)
    plain = SoftmaxEnergy(1.0)(mean, C, 1.0)
    close(SoftmaxEnergy(1e-3)(1e3 * mean, 1e6 * C, 1.0), 1e3 * plain)  # exactly: other units
    close(SoftmaxEnergy()(1e3 * mean, 1e6 * C, 1e6), 1e3 * plain)
    close(PAPER(1.0)(mean + 2.0, C, 1.0), PAPER(1.0)(mean, C, 1.0) + 12.0, rtol=1e-4, atol=0)  # up to its error


def test_a_permutation_of_the_batch_changes_nothing():
    mean, C, order = normal(8), correlated(8), torch.randperm(8, generator=torch.Generator().manual_seed(1))
    energy = SoftmaxEnergy(1.0, f_max=0.5)
    close(energy(mean[order], C[order][:, order], 1.0), energy(mean, C, 1.0))


@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 3)])
def test_batches_are_what_their_parts_are(batch):
    mean, C = normal(*batch, 5), torch.stack([correlated(5, seed=i) for i in range(6)])
    C = C[: math.prod(batch)].reshape(*batch, 5, 5)
    energy = SoftmaxEnergy(1.0, f_max=0.2)
    values = energy(mean, C, 1.0)
    assert values.shape == batch
    assert energy.normalisation(mean, C, 1.0).shape == batch
    assert energy.effective_points(mean, 1.0).shape == batch
    flat = zip(mean.reshape(-1, 5), C.reshape(-1, 5, 5), strict=True)
    close(values.reshape(-1), torch.stack([literal(m, c, 1.0, 0.2, normalised=True) for m, c in flat]))


@pytest.mark.parametrize("beta", [1.0, 10.0])
def test_what_all_points_share_does_not_count(beta):
    """C + v 1 1' gives the same energy as C: a softmax does not see a common shift, and the mean of one is zero."""
    mean, C = 0.1 * normal(6), correlated(6, sd=0.05)
    close(SoftmaxEnergy(beta)(mean, C + 3.0, 1.0), SoftmaxEnergy(beta)(mean, C, 1.0), rtol=1e-9)


# --- weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.3, 5.0])
def test_weights_are_the_softmax(beta):
    mean = normal(3, 7)
    close(log_softmax_weights(mean, beta).exp(), torch.softmax(beta * mean, -1))


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("f_max", [20.0, 1e6])
def test_f_max_far_above_leaves_the_batch_its_share(alpha, f_max):
    log_w = log_softmax_weights(normal(3, 7), 2.0, f_max, alpha)
    close(log_w.exp().sum(-1), torch.full((3,), alpha, dtype=torch.float64), rtol=1e-13)
    close(log_w.exp() / alpha, torch.softmax(2.0 * normal(3, 7), -1))


def test_f_max_in_between():
    mean = normal(7)
    e = torch.exp(2.0 * mean)
    close(log_softmax_weights(mean, 2.0, 1.5).exp(), e / (e.sum() + math.exp(3.0)))


@pytest.mark.parametrize("f_max", [-30.0, -1e6])
def test_f_max_far_below_has_no_effect(f_max):
    mean, C = normal(7), correlated(7)
    close(log_softmax_weights(mean, 2.0, f_max), log_softmax_weights(mean, 2.0), rtol=1e-13)
    close(SoftmaxEnergy(1.0, f_max)(mean, C, 1.0), SoftmaxEnergy(1.0)(mean, C, 1.0), rtol=1e-8)


def test_a_share_of_one_leaves_f_max_out():
    mean, C = normal(7), correlated(7)
    close(SoftmaxEnergy(1.0, f_max=5.0, alpha=1.0)(mean, C, 1.0), SoftmaxEnergy(1.0)(mean, C, 1.0))


def test_effective_points_count_the_best_measured_value():
    """Two points that equal it: three of equal weight (paper, appendix on effective points)."""
    pair = torch.zeros(2, dtype=torch.float64)
    assert float(SoftmaxEnergy(1.0, f_max=0.0).effective_points(pair, 1.0)) == pytest.approx(3.0, rel=1e-12)
    assert float(SoftmaxEnergy(1.0, f_max=-500.0).effective_points(pair, 1.0)) == pytest.approx(2.0, rel=1e-12)
    assert float(SoftmaxEnergy(1.0, f_max=0.0, alpha=1.0).effective_points(pair, 1.0)) == pytest.approx(2.0)
    w = torch.tensor([0.01] * 5 + [0.95], dtype=torch.float64)  # f_max far above takes 1 - alpha
    points = SoftmaxEnergy(1.0, f_max=50.0).effective_points(torch.zeros(5).double(), 1.0)
    close(points, torch.exp(-(w * w.log()).sum()))


def test_effective_points():
    equal = torch.zeros(6, dtype=torch.float64)
    assert float(SoftmaxEnergy(3.0).effective_points(equal, 1.0)) == pytest.approx(6.0)
    pair = torch.tensor([40.0, 40.0, 0.0, -900.0], dtype=torch.float64)
    assert float(SoftmaxEnergy(1.0).effective_points(pair, 1.0)) == pytest.approx(2.0)
    mean = normal(9)
    w = torch.softmax(0.5 * mean, -1)
    close(SoftmaxEnergy().effective_points(mean, 4.0), torch.exp(-(w * w.log()).sum()))
    assert 1.0 <= float(SoftmaxEnergy(1.0).effective_points(torch.tensor([0.0, -5000.0]), 1.0)) < 1 + 1e-6


# --- numerics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f_max", [None, 0.5])
@pytest.mark.parametrize("q", [1, 4])
def test_gradients_against_finite_differences(f_max, q):
    energy = SoftmaxEnergy(1.0, f_max)
    root = normal(2, q, q, seed=4).requires_grad_()
    mean = normal(2, q, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, R: energy(m, 0.3 * R @ R.mT, 1.0), (mean, root))


def test_gradient_in_the_covariance_is_that_of_the_literal_form():
    mean, C = normal(6).requires_grad_(), correlated(6).requires_grad_()
    ours = torch.autograd.grad(SoftmaxEnergy(1.0)(mean, C, 1.0), (mean, C))
    theirs = torch.autograd.grad(literal(mean, C, 1.0, normalised=True), (mean, C))
    close(ours[0], theirs[0])
    close(ours[1] + ours[1].mT, theirs[1] + theirs[1].mT)  # along symmetric directions: C is symmetric


@pytest.mark.parametrize("f_max", [None, 0.0, 2000.0])
def test_means_a_thousand_apart(f_max):
    mean = torch.tensor([0.0, 1000.0, -1000.0, 999.5], dtype=torch.float64).requires_grad_()
    C = correlated(4, sd=0.7).requires_grad_()
    for normalised in (True, False):
        value = SoftmaxEnergy(1.0, f_max, normalised=normalised)(mean, C, 1.0)
        expected = literal(mean, C, 1.0, f_max, normalised=normalised)
        close(value, expected, rtol=1e-10)
        grads = torch.autograd.grad(value, (mean, C))
        assert all(bool(torch.isfinite(grad).all()) for grad in grads)
        close(grads[0], torch.autograd.grad(expected, mean)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("q", [1, 3, 50])
@pytest.mark.parametrize("beta", [1.0, 30.0])
def test_points_that_repeat_each_other(q, beta):
    """C = v 1 1': all points are the same random number, whatever the weights."""
    C = torch.full((q, q), 0.8, dtype=torch.float64).requires_grad_()
    mean = torch.full((q,), 0.3, dtype=torch.float64).requires_grad_()
    value = SoftmaxEnergy(beta)(mean, C, 1.0)
    close(value, torch.tensor(0.3 * q, dtype=torch.float64), rtol=1e-9)
    grads = torch.autograd.grad(value, (mean, C))
    close(grads[0], torch.ones_like(mean), rtol=1e-9)
    assert bool(torch.isfinite(grads[1]).all())


def test_many_points_within_a_millionth():
    X = (uniform(1, 2, seed=3) + 1e-6 * uniform(500, 2, seed=4)).requires_grad_()
    posterior = exact_toy().posterior
    mean, C = posterior.mean_and_covar(X)
    value = SoftmaxEnergy()(mean, C, posterior.amplitude)
    close(value, mean.sum(), rtol=1e-6)
    assert bool(torch.isfinite(torch.autograd.grad(value, X)[0]).all())


def test_float32_is_close_to_float64():
    mean, C = normal(3, 20), correlated(20).expand(3, 20, 20)
    energy = SoftmaxEnergy(1.0, f_max=0.4)
    single = energy(mean.float(), C.float(), 1.0)
    assert single.dtype == torch.float32
    close(single.double(), energy(mean, C, 1.0), rtol=1e-4, atol=1e-4)
    mean32 = torch.tensor([0.0, 1000.0, -1000.0], requires_grad=True)
    value = SoftmaxEnergy(1.0)(mean32, torch.eye(3), 1.0)
    assert value.item() == pytest.approx(3000.0, rel=1e-5)
    assert bool(torch.isfinite(torch.autograd.grad(value, mean32)[0]).all())


def test_a_solver_for_symmetric_matrices_would_be_wrong():
    """1 + beta^2 C W is not symmetric: the trap that the reference implementation fell into."""
    mean, C, beta = normal(6), correlated(6), 1.0
    w = torch.softmax(beta * mean, -1)
    M = eye(6) + beta**2 * C @ (torch.diag(w) - torch.outer(w, w))
    assert float((M - M.mT).abs().max()) > 0.05
    L = torch.linalg.cholesky(M)  # looks at one triangle only
    D = torch.cholesky_solve(C - (C @ w).unsqueeze(-1), L)
    c = beta**2 / 2 * (D.diagonal() - w @ D)
    trap = 6 * torch.linalg.det(M) ** -0.5 * (w * c.exp() * (mean + beta * D.diagonal())).sum()
    value = PAPER(beta)(mean, C, 1.0)
    assert abs(float(trap - value)) > 1e-2
    close(value, literal(mean, C, beta))


# --- how far it holds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.parametrize("q", [2, 5, 10, 30, 100])
@pytest.mark.parametrize("sd", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_normalisation_is_near_one_at_the_default_beta(name, q, sd, spread):
    mean, C = spread * normal(q, seed=2), COVARIANCES[name](q, sd)
    for f_max in (None, float(mean.max()), 10.0):
        off = float(SoftmaxEnergy(f_max=f_max).normalisation(mean, C, 1.0)) - 1
        assert abs(off) < 0.04
        if sd <= 0.5:
            assert abs(off) < 5e-3


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
def test_default_beta_is_never_refused_in_an_acquisition(make):
    posterior = make().posterior
    acqf = BatchedEnergyEntropy(posterior, 0.5, SoftmaxEnergy())
    X = torch.cat([uniform(50, 6, 2, seed=3), 5 * uniform(50, 6, 2, seed=4)])
    assert bool(torch.isfinite(acqf(X)).all())


def test_normalisation_is_the_sum_of_the_mean_weights():
    """E sum_i omega_i, by the closed form's own integral: f replaced by one."""
    mean, C, beta = normal(5), correlated(5), 1.5
    w = torch.softmax(beta * mean, -1)
    M = eye(5) + beta**2 * C @ (torch.diag(w) - torch.outer(w, w))
    D = torch.linalg.solve(M, C - (C @ w).unsqueeze(-1))
    expected = torch.linalg.det(M) ** -0.5 * (w * torch.exp(beta**2 / 2 * (D.diagonal() - w @ D))).sum()
    close(SoftmaxEnergy(beta).normalisation(mean, C, 1.0), expected)


@pytest.mark.parametrize("beta", [4.0, 5.0, 50.0, 1e4])
@pytest.mark.parametrize("name", COVARIANCES)
def test_too_large_a_beta_is_an_error_that_names_it(beta, name):
    C = COVARIANCES[name](10, 1.0).requires_grad_()
    with pytest.raises(ValueError, match=rf"beta = {re.escape(f'{beta:g}')}.*lower beta"):
        SoftmaxEnergy(beta)(normal(10), C, 1.0)


@LAWS
@given(
    st.floats(1e-3, 1e6),
    st.integers(1, 12),
    st.floats(1e-8, 1e3),
    st.integers(0, 3),
    st.sampled_from([None, -5.0, 0.0, 1e5]),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_a_number_or_an_error_but_never_nan(beta, q, sd, seed, f_max, dtype):
    mean, C = normal(q, seed=seed).to(dtype).requires_grad_(), correlated(q, seed, sd).to(dtype)
    energy = SoftmaxEnergy(beta, f_max)
    value = None
    with contextlib.suppress(ValueError):
        value = energy(mean, C, 1.0)
    if value is None:
        with pytest.raises(ValueError, match="beta"):
            energy(mean, C, 1.0)
    else:
        assert math.isfinite(value.item())
        assert bool(torch.isfinite(torch.autograd.grad(value, mean)[0]).all())


def test_one_bad_batch_among_good_ones_is_an_error():
    C = torch.stack([correlated(4), 30.0 * eye(4)])
    with pytest.raises(ValueError, match="beta = 1"):
        SoftmaxEnergy(1.0)(normal(2, 4), C, 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_moments_that_are_not_finite_are_an_error(value):
    C = correlated(4)
    C[1, 2] = C[2, 1] = value
    with pytest.raises(ValueError, match="beta"):
        SoftmaxEnergy(1.0)(normal(4), C, 1.0)
    mean = normal(4)
    mean[0] = value
    with pytest.raises(ValueError, match="beta"):
        SoftmaxEnergy(1.0)(mean, correlated(4), 1.0)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"beta": 0.0}, "beta = 0"),
        ({"beta": -1.0}, "beta = -1"),
        ({"beta": math.nan}, "beta = nan"),
        ({"beta": math.inf}, "beta = inf"),
        ({"f_max": math.nan}, "f_max = nan"),
        ({"f_max": math.inf}, "f_max = inf"),
        ({"alpha": 0.0}, "alpha = 0"),
        ({"alpha": 1.5}, "alpha = 1.5"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"tolerance": math.nan}, "tolerance = nan"),
        ({"tolerance": 0.0}, "tolerance = 0"),
    ],
)
def test_bad_parameters(arguments, match):
    with pytest.raises(ValueError, match=match):
        SoftmaxEnergy(**arguments)


# --- hitting a value ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.01, 1.0, 3.0])
def test_target_energy_against_draws(sd):
    mean, C, value, amplitude = normal(5), correlated(5, sd=sd), 0.7, 2.5
    f = mean + normal(200_000, 5, seed=3) @ torch.linalg.cholesky(C).mT
    draws = -(f - value).square().sum(-1) / math.sqrt(amplitude)
    energy = TargetEnergy(value)(mean, C, amplitude)
    assert energy.item() == pytest.approx(draws.mean().item(), abs=5 * draws.std().item() / math.sqrt(len(f)))
    close(energy, TargetEnergy(value).per_point(mean, C.diagonal(), amplitude).sum())


def test_target_energy_scales_with_the_target():
    """c f has c times the energy, as c f has c times the temperature T."""
    mean, C = normal(3, 5), correlated(5)
    close(TargetEnergy(10 * 0.7)(10 * mean, 100 * C, 100 * 1.3), 10 * TargetEnergy(0.7)(mean, C, 1.3))


def test_target_energy_hits_the_value_and_not_the_largest():
    toy = exact_toy(n=30, d=1, sigma2=1e-3, seed=4)
    X = torch.linspace(0, 1, 201, dtype=torch.float64).unsqueeze(-1)
    mean = toy.mean(X)
    value = float(mean.quantile(0.6))
    acqf = BatchedEnergyEntropy(toy.posterior, temperature=0.0, energy=TargetEnergy(value))
    best = acqf(X.unsqueeze(-2)).argmax()  # batches of one
    assert abs(mean[best] - value) < 0.05 * (mean.max() - mean.min())
    close(acqf(X).squeeze(), TargetEnergy(value)(mean, toy.covar(X), toy.posterior.amplitude), rtol=1e-8)


def test_target_energy_has_a_gradient():
    toy = exact_toy(n=12, d=2)
    acqf = BatchedEnergyEntropy(toy.posterior, temperature=0.5, energy=TargetEnergy(0.3))
    assert torch.autograd.gradcheck(acqf, uniform(2, 4, 2).requires_grad_())


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
def test_worth_makes_the_mean_energy_the_target_energy(make):
    toy = make(d=2)
    target = valued(toy.posterior, TargetEnergy(0.3)).to(torch.float64)
    X, pending = uniform(3, 4, 2), uniform(2, 2, seed=5)
    for running in (None, pending):
        plain = BatchedEnergyEntropy(toy.posterior, 0.5, TargetEnergy(0.3), running)
        other = BatchedEnergyEntropy(target, 0.5, MeanEnergy(), running)
        close(other(X), plain(X))
    variance, F = toy.posterior.variance(X), toy.posterior.features(X)
    value = TargetEnergy(0.3).per_point(toy.mean(X), variance, toy.posterior.amplitude)
    close(target.mean(X), value, rtol=1e-8)
    close(target.mean_and_variance(X)[0], value, rtol=1e-8)
    close(target.mean_and_covar(X)[0], value, rtol=1e-8)
    for actual, expected in zip(target.mean_variance_and_features(X), (value, variance, F), strict=True):
        close(actual, expected, rtol=1e-8)
    assert target.noise is toy.posterior.noise or float(target.noise(X[0])[0]) == float(toy.posterior.noise(X[0])[0])


def test_worth_leaves_other_energies_alone():
    posterior = exact_toy().posterior
    assert valued(posterior, MeanEnergy()) is posterior
    assert valued(posterior, SoftmaxEnergy()) is posterior


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_nothing_hits(value):
    with pytest.raises(ValueError, match="finite number to hit"):
        TargetEnergy(value)


# --- weights of outputs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [0, 1, -1])
def test_task_weights(column):
    X = uniform(4, 3, 3)
    tasks = torch.tensor([[0, 1, 2], [2, 2, 2], [1, 0, 1], [0, 0, 0]], dtype=torch.float64)
    X[..., column] = tasks
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    assert torch.equal(TaskWeights(weights, column)(X), weights[tasks.long()])
