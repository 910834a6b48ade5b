"""Hard cases of the whole acquisition function, value and gradient, against formulas written out."""

import math
from dataclasses import replace

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize

from beebo_scale import BatchedEnergyEntropy, MeanEnergy
from beebo_scale.energy import SoftmaxEnergy
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import close, exact_toy, normal, sparse_toy, uniform

TEMPERATURE = 0.7
PENDING = uniform(3, 2, seed=6)


def noisy(toy, sigma2):
    """New measurements have another noise than those that the posterior knows."""
    noise = ConstantNoise(torch.tensor(sigma2, dtype=torch.float64))
    return replace(toy, posterior=replace(toy.posterior, noise=noise))


def written_out(toy, X, sigma2, pending=None):
    """sum mean + T 1/2 logdet(1 + C / sigma^2), C after conditioning on the pending points; q x d -> a scalar."""
    C = toy.covar(X)
    if pending is not None:
        A = toy.covar(pending) + sigma2 * torch.eye(len(pending), dtype=torch.float64)
        cross = toy.covar(pending, X)
        C = C - cross.mT @ torch.linalg.solve(A, cross)
    eye = torch.eye(len(X), dtype=torch.float64)
    T = TEMPERATURE * math.sqrt(toy.outputscale)
    return toy.mean(X).sum() + T * 0.5 * torch.logdet(eye + C / sigma2)


def value_and_gradient(function, X):
    X = X.clone().requires_grad_()
    value = function(X)
    return value.detach(), torch.autograd.grad(value.sum(), X)[0]


def agree(toy, X, sigma2=0.05, pending=None, tolerance=1e-8):
    toy = noisy(toy, sigma2)
    acqf = BatchedEnergyEntropy(toy.posterior, TEMPERATURE, X_pending=pending)
    value, grad = value_and_gradient(acqf, X)
    for i, batch in enumerate(X if X.dim() == 3 else X.unsqueeze(0)):
        expected, slope = value_and_gradient(lambda x: written_out(toy, x, sigma2, pending), batch)
        close(value[i], expected, rtol=tolerance, atol=tolerance)
        ours = grad[i] if X.dim() == 3 else grad
        close(ours, slope, rtol=10 * tolerance, atol=10 * tolerance * (1 + float(slope.abs().max())))


TOYS = [exact_toy, sparse_toy]


@pytest.mark.parametrize("make", TOYS)
def test_points_that_repeat_each_other(make):
    X = uniform(2, 3, 2, seed=3)
    agree(make(), torch.cat([X, X, X[:, :1]], dim=1))


@pytest.mark.parametrize("make", TOYS)
def test_measured_points(make):
    toy = make()
    agree(toy, torch.cat([toy.Z[:3], uniform(2, 2, seed=3)]))
    agree(toy, toy.Z)


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("sigma2", [1e-3, 0.05, 10.0])
def test_a_batch_partly_of_pending_points(make, sigma2):
    agree(make(), torch.cat([PENDING[:2], uniform(2, 2, seed=3)]), sigma2, PENDING)
    agree(make(), PENDING, sigma2, PENDING)


def test_a_second_measurement_of_a_pending_point_tells_less():
    """v -> v s / (v + s) by the first one: 1/2 log(1 + v / (v + s)) is left of 1/2 log(1 + v / s)."""
    toy, s = exact_toy(), 0.05
    v = float(toy.covar(PENDING[:1]))
    acqf = BatchedEnergyEntropy(toy.posterior, TEMPERATURE, X_pending=PENDING[:1])
    T = TEMPERATURE * math.sqrt(toy.outputscale)
    left = (float(acqf(PENDING[:1])) - float(toy.mean(PENDING[:1]))) / T
    assert left == pytest.approx(0.5 * math.log1p(v / (v + s)), rel=1e-9)


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("sigma2", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e2, 1e4])
def test_any_noise(make, sigma2):
    agree(make(), uniform(2, 5, 2, seed=3), sigma2, tolerance=1e-8 + 1e-14 / sigma2)


@pytest.mark.parametrize("make", TOYS)
def test_one_input(make):
    agree(make(d=1), uniform(3, 6, 1, seed=3))


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("shape", [(1, 2), (1, 1, 2), (5, 1, 2), (1, 4, 2)])
def test_one_point_and_one_batch(make, shape):
    agree(make(), uniform(*shape, seed=3))


def test_one_measured_row():
    for d in (1, 2):
        agree(exact_toy(n=1, d=d), uniform(2, 4, d, seed=3))


@pytest.mark.parametrize("make", TOYS)
def test_outside_the_box(make):
    agree(make(), 3.0 * uniform(2, 5, 2, seed=3) - 1.0)
    far = 1e3 + uniform(5, 2, seed=3)
    agree(make(), far, tolerance=1e-7)
    _, grad = value_and_gradient(BatchedEnergyEntropy(make().posterior, 0.0), far)
    assert bool((grad == 0).all())  # nothing is known there, and no NaN


@pytest.mark.slow
@pytest.mark.parametrize("energy", [MeanEnergy(), SoftmaxEnergy()], ids=["mean", "softmax"])
@pytest.mark.parametrize("sigma2", [1e-12, 1e-6, 1e-2, 1e4])
def test_five_hundred_points_in_one_spot(energy, sigma2):
    toy = noisy(exact_toy(), sigma2)
    spot = uniform(1, 2, seed=3)
    X = spot + 1e-6 * uniform(500, 2, seed=4)
    value, grad = value_and_gradient(BatchedEnergyEntropy(toy.posterior, TEMPERATURE, energy), X)
    assert bool(torch.isfinite(grad).all())
    T = TEMPERATURE * math.sqrt(toy.outputscale)
    one = 500 * toy.mean(spot) + T * 0.5 * math.log1p(500 * float(toy.covar(spot)) / sigma2)
    if sigma2 >= 1e-6:
        close(value, one, rtol=1e-4, atol=1e-4)
    else:  # differences over 1e-6 do tell something against so little noise
        assert float(value) > float(one) - 1e-3
        assert float(value) < float(one) + 500 * T


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("energy", [MeanEnergy(), SoftmaxEnergy(f_max=1.0)], ids=["mean", "softmax"])
def test_float32_is_close_to_float64(make, energy):
    posterior, X = make().posterior, uniform(3, 10, 2, seed=3)
    double = BatchedEnergyEntropy(posterior, TEMPERATURE, energy, X_pending=PENDING)
    single = BatchedEnergyEntropy(posterior.to(torch.float32), TEMPERATURE, energy, X_pending=PENDING.float())
    value, grad = value_and_gradient(single, X.float())
    assert value.dtype == grad.dtype == torch.float32
    expected, slope = value_and_gradient(double, X)
    close(value.double(), expected, rtol=1e-3, atol=1e-3)
    close(grad.double(), slope, rtol=1e-2, atol=1e-2 * float(slope.abs().max()))


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_units_and_offsets_of_inputs_and_targets(unit, offset):
    """The same problem in other units of the inputs and the targets: the same choice, the value in the other unit."""
    X, y, batches = uniform(20, 2, seed=0), normal(20, 1, seed=1), uniform(50, 4, 2, seed=2)
    stretch = torch.tensor([1e4, 1e-3], dtype=torch.float64)
    box = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    plain = BatchedEnergyEntropy(SingleTaskGP(X, y, input_transform=Normalize(d=2, bounds=box)), TEMPERATURE)
    other = SingleTaskGP(
        offset + stretch * X, unit * (y + 5.0), input_transform=Normalize(d=2, bounds=offset + stretch * box)
    )
    with torch.no_grad():
        expected = plain(batches)
        values = BatchedEnergyEntropy(other, TEMPERATURE)(offset + stretch * batches) / unit
    close(values, expected + 4 * 5.0, rtol=1e-6, atol=1e-6)
    assert values.argmax() == expected.argmax()


def test_many_evaluations_build_no_graph():
    """Nothing of an evaluation is kept on the posterior or the function."""
    acqf = BatchedEnergyEntropy(exact_toy().posterior, TEMPERATURE, X_pending=PENDING)
    X = uniform(2, 3, 2, seed=3).requires_grad_()
    for _ in range(3):
        acqf(X).sum().backward()
    posterior = acqf.conditioned
    assert not any(tensor.requires_grad for tensor in (posterior.centers, posterior.weights, posterior.noise(X)))
    assert not any(parameter.requires_grad for parameter in posterior.kernel.parameters())
