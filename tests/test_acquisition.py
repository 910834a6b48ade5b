import math
from dataclasses import replace

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel

from beebo_scale import BatchedEnergyEntropy, InputError, MeanEnergy
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.data.target import TargetScale
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    GaussianProcess,
    exact_posterior,
    fit_hyperparameters,
)
from beebo_scale.surrogates.gaussian_process.noise import LearnedNoise
from tests.helpers import close, condition, exact_toy, half_logdet, normal, sparse_toy, uniform

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def information(C, sigma2=0.05):
    return half_logdet(C, torch.full(C.shape[:-1], sigma2, dtype=torch.float64))


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
@pytest.mark.parametrize("temperature", [0, 0.5, 3.0])
@pytest.mark.parametrize("maximize", [True, False])
def test_value_is_energy_plus_temperature_times_information(make, temperature, maximize):
    toy, X = make(), uniform(4, 3, 2, seed=3)
    value = BatchedEnergyEntropy(toy.posterior, temperature, MeanEnergy(), maximize=maximize)(X)
    energy = toy.mean(X).sum(-1) * (1.0 if maximize else -1.0)
    close(value, energy + temperature * math.sqrt(toy.outputscale) * information(toy.covar(X)), rtol=1e-9)


def test_it_is_an_acquisition_function_over_one_batch_too():
    toy, X = exact_toy(), uniform(3, 2, seed=3)
    acqf = BatchedEnergyEntropy(toy.posterior)
    assert isinstance(acqf, AcquisitionFunction)
    assert acqf(X).shape == (1,)
    assert torch.equal(acqf(X), acqf(X.unsqueeze(0)))


def test_no_temperature_is_the_sum_of_means():
    toy, X = exact_toy(), uniform(4, 3, 2, seed=3)
    assert torch.equal(BatchedEnergyEntropy(toy.posterior, 0.0)(X), toy.posterior.mean(X).sum(-1))


def test_minimising_is_maximising_the_negative_target():
    toy, X = exact_toy(), uniform(4, 3, 2, seed=3)
    mirror = exact_toy(constant=-toy.constant)
    mirrored = replace(mirror.posterior, weights=-toy.weights)
    close(BatchedEnergyEntropy(toy.posterior, 0.7, maximize=False)(X), BatchedEnergyEntropy(mirrored, 0.7)(X))


def test_one_point_has_a_closed_form():
    toy, X = exact_toy(), uniform(9, 1, 2, seed=3)
    T = 0.7 * math.sqrt(toy.outputscale)
    v = toy.covar(X).squeeze(-1)
    expected = toy.mean(X) + T / 2 * torch.log(1 + v / 0.05)
    close(BatchedEnergyEntropy(toy.posterior, 0.7)(X), expected.squeeze(-1))


@pytest.mark.parametrize("c", [1e-6, 4.0, 1e8])
def test_temperature_follows_the_amplitude(c):
    X = uniform(4, 3, 2, seed=3)
    one = exact_toy(outputscale=1.0, sigma2=0.05, constant=0.0)
    scaled = exact_toy(outputscale=c, sigma2=0.05 * c, constant=0.0)  # f in other units, but for its data
    assert BatchedEnergyEntropy(scaled.posterior, 0.7).temperature == pytest.approx(0.7 * math.sqrt(c), rel=1e-12)
    flat = [replace(toy.posterior, weights=torch.zeros_like(toy.weights)) for toy in (one, scaled)]
    values = [BatchedEnergyEntropy(posterior, 0.7)(X) for posterior in flat]
    close(values[1] / math.sqrt(c), values[0], rtol=1e-9)


@pytest.mark.parametrize("temperature", [-1e-9, math.nan, math.inf, -math.inf, "0.5", None])
def test_bad_temperatures_are_an_input_error(temperature):
    with pytest.raises(InputError, match="temperature"):
        BatchedEnergyEntropy(exact_toy().posterior, temperature)


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
def test_gradient_against_finite_differences(make):
    acqf = BatchedEnergyEntropy(make().posterior, 0.7, X_pending=uniform(2, 2, seed=6))
    assert torch.autograd.gradcheck(acqf, uniform(2, 3, 2, seed=5).requires_grad_())


def test_other_energies_see_signed_mean_covariance_and_amplitude():
    toy, X = exact_toy(), uniform(4, 3, 2, seed=3)

    def trace(mean, covar, amplitude):
        return mean.amax(-1) + covar.diagonal(dim1=-2, dim2=-1).sum(-1) + amplitude

    expected = (-toy.mean(X)).amax(-1) + toy.covar(X).diagonal(dim1=-2, dim2=-1).sum(-1) + toy.outputscale
    close(BatchedEnergyEntropy(toy.posterior, 0.0, trace, maximize=False)(X), expected)


# --- pending points ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
def test_pending_points_count_in_the_information_only(make):
    toy, X, pending = make(), uniform(3, 2, seed=3), uniform(4, 2, seed=6)
    both = torch.cat([pending, X])
    T = 0.7 * math.sqrt(toy.outputscale)
    value = BatchedEnergyEntropy(toy.posterior, 0.7, X_pending=pending)(X)
    chain = information(toy.covar(both)) - information(toy.covar(pending))
    close(value, (toy.mean(X).sum() + T * chain).unsqueeze(0), rtol=1e-9)
    noise = torch.full((4,), 0.05, dtype=torch.float64)
    C = condition(toy.mean(both), toy.covar(both), noise, torch.zeros_like(noise))[1]
    close(value, (toy.mean(X).sum() + T * information(C)).unsqueeze(0), rtol=1e-9)


def test_noise_that_varies_counts_at_the_batch_and_at_pending_points():
    toy, log_noise = exact_toy(), exact_toy(seed=5, constant=-2.0)
    posterior = replace(toy.posterior, noise=LearnedNoise(log_noise.posterior))
    X, pending = uniform(3, 2, seed=3), uniform(4, 2, seed=6)
    both = torch.cat([pending, X])
    sigma2 = log_noise.mean(both).exp()
    assert sigma2.max() > 2 * sigma2.min()
    value = BatchedEnergyEntropy(posterior, 0.7, X_pending=pending)(X)
    chain = half_logdet(toy.covar(both), sigma2) - half_logdet(toy.covar(pending), sigma2[:4])
    close(value, (toy.mean(X).sum() + 0.7 * math.sqrt(toy.outputscale) * chain).unsqueeze(0), rtol=1e-9)
    assert torch.autograd.gradcheck(BatchedEnergyEntropy(posterior, 0.7, X_pending=pending), X.requires_grad_())


def test_pending_points_can_be_set_again_and_dropped():
    toy, X, pending = exact_toy(), uniform(4, 3, 2, seed=3), uniform(4, 2, seed=6)
    acqf = BatchedEnergyEntropy(toy.posterior)
    before = acqf(X)
    acqf.set_X_pending(pending)
    assert torch.equal(acqf.X_pending, pending)
    assert (acqf(X) < before - 1e-3).all()
    acqf.set_X_pending(pending[:2])  # instead of, not on top of, the others
    assert torch.equal(acqf(X), BatchedEnergyEntropy(toy.posterior, X_pending=pending[:2])(X))
    acqf.set_X_pending(None)
    assert acqf.X_pending is None
    assert torch.equal(acqf(X), before)


# --- in botorch's optimiser --------------------------------------------------------------------------------


def optimise(acqf, q, **options):
    with manual_seed(0):  # botorch picks its starting points by torch's own generator
        return optimize_acqf(
            acqf, BOUNDS, q=q, num_restarts=3, raw_samples=32, options={"seed": 0, "maxiter": 40}, **options
        )


def random_best(acqf, q, n=500):
    with torch.no_grad():
        return float(acqf(uniform(n, q, 2, seed=11)).max())


def test_joint_batches_beat_random_ones():
    acqf = BatchedEnergyEntropy(exact_toy().posterior, 0.5)
    X, value = optimise(acqf, 3)
    assert X.shape == (3, 2)
    assert ((X >= 0) & (X <= 1)).all()
    assert float(value) == pytest.approx(float(acqf(X)), rel=1e-9)
    assert float(value) > random_best(acqf, 3)


def test_sequential_batches_are_greedy_by_the_chain_rule():
    toy = exact_toy()
    acqf = BatchedEnergyEntropy(toy.posterior, 0.5)
    X, values = optimise(acqf, 3, sequential=True)
    assert acqf.X_pending is None  # as it was
    assert float(values.sum()) == pytest.approx(float(acqf(X)), rel=1e-9)
    assert float(acqf(X)) > random_best(acqf, 3)
    assert (values[1:] < values[0]).all()  # no later point is worth more
    first, _ = optimise(acqf, 1)
    close(X[:1], first, rtol=1e-3, atol=1e-3)


def test_fixed_features():
    acqf = BatchedEnergyEntropy(exact_toy().posterior, 0.5)
    X, value = optimise(acqf, 3, fixed_features={1: 0.25})
    assert (X[:, 1] == 0.25).all()
    with torch.no_grad():
        free = uniform(500, 3, 2, seed=11)
        free[..., 1] = 0.25
        assert float(value) > float(acqf(free).max())


@pytest.mark.slow
def test_inequality_constraints():
    acqf = BatchedEnergyEntropy(exact_toy().posterior, 0.5)
    sum_below = (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.float64), -0.8)  # x_0 + x_1 <= 0.8
    X, value = optimise(acqf, 3, inequality_constraints=[sum_below])
    assert (X.sum(-1) <= 0.8 + 1e-8).all()
    with torch.no_grad():
        free = uniform(2000, 3, 2, seed=11)
        inside = free[(free.sum(-1) <= 0.8).all(-1)]
        assert len(inside) > 20
        assert float(value) > float(acqf(inside).max())


# --- units -------------------------------------------------------------------------------------------------


def test_units_of_the_target_do_not_change_the_choice():
    X, y, batches = uniform(25, 2, seed=0), normal(25, seed=1), uniform(200, 3, 2, seed=2)
    values = []
    for unit in (1.0, 1e-8, 1e8):
        targets = unit * (y + 3.0)
        gp = GaussianProcess(MaternKernel(nu=2.5, ard_num_dims=2))
        data = merge_replicates(X, TargetScale.of(targets, "none").standardise(targets))
        fit_hyperparameters(gp, data, maxiter=5)
        with torch.no_grad():
            values.append(BatchedEnergyEntropy(exact_posterior(gp, data), 0.5)(batches))
    for other in values[1:]:
        assert other.argmax() == values[0].argmax()
        close(other, values[0], rtol=1e-6, atol=1e-6)
