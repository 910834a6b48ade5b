"""Several outputs as (input, task) pairs under an ICM kernel, against dense formulas."""

import math

import pytest
import torch
from botorch.optim import optimize_acqf, optimize_acqf_mixed
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel

from beebo_scale import BatchedEnergyEntropy, information_gain, marginal_gain
from beebo_scale.energy import SoftmaxEnergy, TaskWeights
from beebo_scale.kernels.screen import icm_kernel
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    GaussianProcess,
    exact_posterior,
    fit_hyperparameters,
)
from beebo_scale.surrogates.gaussian_process.noise import TaskNoise
from tests.helpers import close, condition, half_logdet, matern52, normal, uniform

LENGTHSCALE = torch.tensor([0.4, 0.6], dtype=torch.float64)
SIGMA2 = torch.tensor([0.05, 0.2, 0.01], dtype=torch.float64)
CONSTANT = 0.3


def pairs(*shape, seed=0, d=2):
    """Random (input, task) pairs, the task last."""
    return torch.cat([uniform(*shape, d, seed=seed), (3 * uniform(*shape, 1, seed=seed + 50)).floor()], dim=-1)


def process():
    kernel = MaternKernel(nu=2.5, ard_num_dims=2, active_dims=(0, 1))
    gp = GaussianProcess(icm_kernel(kernel, tasks=3, task_column=2), tasks=3, task_column=2)
    kernel.lengthscale = LENGTHSCALE
    gp.kernel.kernels[1].initialize(covar_factor=normal(3, 3, seed=4), raw_var=normal(3, seed=5))
    gp.mean.constant = torch.tensor(CONSTANT, dtype=torch.float64)
    gp.likelihood.noise = SIGMA2.unsqueeze(-1)
    return gp


X, y = pairs(20, seed=0), normal(20, seed=1)
GP = process()
POSTERIOR = exact_posterior(GP, merge_replicates(X, y))
with torch.no_grad():
    B = GP.kernel.kernels[1].covar_factor @ GP.kernel.kernels[1].covar_factor.mT + torch.diag(GP.kernel.kernels[1].var)


def k(X1, X2):
    t1, t2 = X1[..., 2].long(), X2[..., 2].long()
    return matern52(X1[..., :2], X2[..., :2], LENGTHSCALE, 1.0) * B[t1.unsqueeze(-1), t2.unsqueeze(-2)]


def noise(X):
    return SIGMA2[X[..., 2].long()]


def moments(batch):
    """Posterior mean and covariance at one batch by joint conditioning, q x d -> q, q x q."""
    both = torch.cat([X, batch])
    return condition(torch.full((len(both),), CONSTANT, dtype=torch.float64), k(both, both), noise(X), y)


# --- posterior ---------------------------------------------------------------------------------------------


def test_tasks_go_against_each_other_and_have_noise_of_their_own():
    assert B.min() < -0.1
    assert isinstance(POSTERIOR.noise, TaskNoise)
    batches = pairs(2, 9, seed=2)
    close(POSTERIOR.noise(batches), noise(batches))


def test_posterior_is_joint_conditioning():
    for batch in pairs(3, 8, seed=2):
        mean, C = moments(batch)
        close(POSTERIOR.mean(batch), mean)
        close(POSTERIOR.covar(batch), C)
        close(POSTERIOR.variance(batch), C.diagonal())


def test_amplitude_is_the_mean_over_the_measured_pairs():
    assert POSTERIOR.amplitude == pytest.approx(float(B.diagonal()[X[:, 2].long()].mean()), rel=1e-12)


def test_replicates_merge_within_a_task_only():
    inputs = uniform(6, 2, seed=3)
    doubled = torch.cat([torch.cat([inputs, torch.full((6, 1), float(t), dtype=torch.float64)], -1) for t in (0, 1, 1)])
    targets = normal(18, seed=4)
    data = merge_replicates(doubled, targets)
    assert len(data) == 12
    posterior, batch = exact_posterior(GP, data), pairs(5, seed=6)
    both = torch.cat([doubled, batch])
    mean = torch.full((len(both),), CONSTANT, dtype=torch.float64)
    mean, C = condition(mean, k(both, both), noise(doubled), targets)
    close(posterior.mean(batch), mean)
    close(posterior.covar(batch), C)


def test_gradients_in_the_inputs_of_a_pair():
    task = torch.tensor([[0.0], [2.0], [1.0]], dtype=torch.float64)

    def value(inputs):
        batch = torch.cat([inputs, task], -1)
        return BatchedEnergyEntropy(POSTERIOR, 0.7)(batch)

    assert torch.autograd.gradcheck(value, uniform(3, 2, seed=2).requires_grad_())


# --- information -------------------------------------------------------------------------------------------


def test_gain_over_chosen_pairs_is_the_difference_of_two_log_determinants():
    for batch in pairs(4, 7, seed=2):
        C = moments(batch)[1]
        gain = information_gain(POSTERIOR.covar(batch), POSTERIOR.noise(batch))
        close(gain, half_logdet(C, noise(batch)), rtol=1e-8)


def test_gain_of_all_tasks_at_one_input():
    batch = torch.cat([uniform(1, 2, seed=2).expand(3, 2), torch.arange(3.0, dtype=torch.float64).unsqueeze(-1)], -1)
    close(
        information_gain(POSTERIOR.covar(batch), POSTERIOR.noise(batch)),
        half_logdet(moments(batch)[1], SIGMA2),
        rtol=1e-8,
    )


def test_chain_rule_across_tasks():
    first, second = pairs(4, seed=2), pairs(5, seed=3)
    both = torch.cat([first, second])
    gain = [information_gain(POSTERIOR.covar(part), POSTERIOR.noise(part)) for part in (first, both)]
    conditioned = POSTERIOR.augment(first)
    close(gain[0] + information_gain(conditioned.covar(second), conditioned.noise(second)), gain[1])
    total, posterior = 0.0, POSTERIOR
    for pair in both.split(1):
        total += marginal_gain(posterior.variance(pair), posterior.noise(pair)).squeeze()
        posterior = posterior.augment(pair)
    close(total, gain[1])


def test_a_measurement_of_one_task_tells_about_the_others():
    batch = pairs(6, seed=2)
    one = torch.cat([batch[:1, :2], torch.tensor([[0.0]], dtype=torch.float64)], -1)
    other = torch.cat([batch[:1, :2], torch.tensor([[1.0]], dtype=torch.float64)], -1)
    after = POSTERIOR.augment(one)
    assert float(after.variance(other)) < float(POSTERIOR.variance(other)) - 1e-6
    mean, C = moments(torch.cat([one, batch]))
    value = torch.tensor([1.7], dtype=torch.float64)
    expected = condition(mean, C, noise(one), value)
    conditioned = POSTERIOR.augment(one, Y=value)
    close(conditioned.mean(batch), expected[0])
    close(conditioned.covar(batch), expected[1])


# --- acquisition -------------------------------------------------------------------------------------------

WEIGHTS = torch.tensor([1.0, -0.5, 0.0], dtype=torch.float64)


@pytest.mark.parametrize("maximize", [True, False])
def test_weights_of_the_tasks_count_in_the_energy_only(maximize):
    batches = pairs(4, 6, seed=2)
    acqf = BatchedEnergyEntropy(POSTERIOR, 0.7, maximize=maximize, weights=TaskWeights(WEIGHTS, column=2))
    T = 0.7 * math.sqrt(POSTERIOR.amplitude)
    expected = []
    for batch in batches:
        mean, C = moments(batch)
        energy = (WEIGHTS[batch[:, 2].long()] * mean).sum() * (1 if maximize else -1)
        expected.append(energy + T * half_logdet(C, noise(batch)))
    close(acqf(batches), torch.stack(expected), rtol=1e-8, atol=1e-9)


def test_weights_of_the_tasks_in_the_softmax_energy():
    batches = pairs(4, 6, seed=2)
    energy = SoftmaxEnergy(0.5, f_max=1.0)
    acqf = BatchedEnergyEntropy(POSTERIOR, 0.0, energy, weights=TaskWeights(WEIGHTS, column=2))
    expected = []
    for batch in batches:
        mean, C = moments(batch)
        w = WEIGHTS[batch[:, 2].long()]
        expected.append(energy(w * mean, torch.diag(w) @ C @ torch.diag(w), POSTERIOR.amplitude))
    close(acqf(batches), torch.stack(expected))


def test_pending_pairs():
    pending, batch = pairs(3, seed=5), pairs(4, seed=2)
    acqf = BatchedEnergyEntropy(POSTERIOR, 0.7, X_pending=pending, weights=TaskWeights(WEIGHTS, column=2))
    mean, C = moments(torch.cat([pending, batch]))
    after = condition(mean, C, noise(pending), mean[:3])[1]
    expected = (WEIGHTS[batch[:, 2].long()] * mean[3:]).sum()
    expected = expected + 0.7 * math.sqrt(POSTERIOR.amplitude) * half_logdet(after, noise(batch))
    close(acqf(batch), expected.unsqueeze(0), rtol=1e-8)


@pytest.mark.slow
def test_inputs_are_optimised_within_a_task_and_across_tasks():
    acqf = BatchedEnergyEntropy(POSTERIOR, 0.5, weights=TaskWeights(WEIGHTS, column=2))
    bounds = torch.tensor([[0.0, 0, 0], [1.0, 1, 2]], dtype=torch.float64)
    options = {"q": 2, "num_restarts": 2, "raw_samples": 16, "options": {"seed": 0, "maxiter": 30}}
    free = uniform(200, 2, 3, seed=9)
    values = []
    for task in range(3):
        with manual_seed(0):
            batch, value = optimize_acqf(acqf, bounds, fixed_features={2: task}, **options)
        assert bool((batch[:, 2] == task).all())
        free[..., 2] = task
        with torch.no_grad():
            assert float(value) > float(acqf(free).max())
        values.append(float(value))
    with manual_seed(0):
        batch, _ = optimize_acqf_mixed(acqf, bounds, fixed_features_list=[{2: t} for t in range(3)], **options)
    assert bool((batch[:, 2] == batch[:, 2].round()).all())
    assert float(acqf(batch)) > 0.9 * max(values)  # mixed is greedy, point by point


# --- fit ---------------------------------------------------------------------------------------------------


def test_fit_finds_the_noise_and_the_sign_of_the_correlation():
    """Two tasks, the second the negative of the first under ten times the noise."""
    inputs = uniform(120, 1, seed=7)
    task = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(60).unsqueeze(-1)
    f = torch.sin(6 * inputs.squeeze(-1))
    sigma = torch.tensor([0.05, 0.5], dtype=torch.float64)[task.squeeze(-1).long()]
    rows = torch.cat([inputs, task], -1)
    targets = f * (1 - 2 * task.squeeze(-1)) + sigma * normal(120, seed=8)
    torch.manual_seed(0)  # gpytorch draws the first task covariance
    kernel = icm_kernel(MaternKernel(nu=2.5, active_dims=(0,)), tasks=2, task_column=1)
    gp = GaussianProcess(kernel, tasks=2, task_column=1)
    fit_hyperparameters(gp, merge_replicates(rows, targets))
    found = gp.sigma2.detach()
    assert float(found[0]) == pytest.approx(0.05**2, rel=0.6)
    assert float(found[1]) == pytest.approx(0.5**2, rel=0.6)
    index = gp.kernel.kernels[1]
    C = (index.covar_factor @ index.covar_factor.mT + torch.diag(index.var)).detach()
    assert float(C[0, 1] / (C[0, 0] * C[1, 1]).sqrt()) < -0.9
    posterior = exact_posterior(gp, merge_replicates(rows, targets))
    grid = torch.linspace(0, 1, 50, dtype=torch.float64).unsqueeze(-1)
    noisy = torch.cat([grid, torch.ones_like(grid)], -1)
    error = posterior.mean(noisy) + torch.sin(6 * grid.squeeze(-1))
    assert float(error.square().mean().sqrt()) < 0.12
    close(posterior.noise(noisy), found[1].expand(50))
