"""`scalarize` against botorch's ScalarizedPosteriorTransform and against sums written out."""

import math
from dataclasses import replace

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import StratifiedStandardize
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed

from beebo_scale import BatchedEnergyEntropy, InputError, MeanEnergy
from beebo_scale.surrogates.botorch_models import posterior_of
from beebo_scale.surrogates.gaussian_process.noise import TaskNoise
from beebo_scale.surrogates.scalarize import scalarize
from tests.helpers import close, condition, exact_toy, half_logdet, normal, sparse_toy, uniform

pytestmark = [
    pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning"),
    # gpytorch's own task kernels go through sparse tensors
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]

X, Y = uniform(18, 2, seed=0), 3.0 + 2.0 * normal(18, 1, seed=1)
BATCHES = uniform(3, 4, 2, seed=2)
TASKS = torch.tensor([0, 1, 2] * 6, dtype=torch.float64).unsqueeze(-1)
WEIGHTS = [[1.0, 1.0, 1.0], [0.5, -2.0, 0.0], [0.0, 0.0, 1.0]]


def with_task(X, task, column):
    task = torch.as_tensor(task, dtype=torch.float64).expand(*X.shape[:-1], 1)
    return torch.cat([X[..., :column], task, X[..., column:]], dim=-1)


def multi_task(column=2, outcome="none", output_tasks=None):
    torch.manual_seed(0)  # the task covariance starts at random
    transform = None
    if outcome == "stratified":
        transform = StratifiedStandardize(stratification_idx=column, all_task_values=torch.tensor([0, 1, 2]))
    inputs = Normalize(d=3, indices=[i for i in range(3) if i != column])
    model = MultiTaskGP(
        with_task(X, TASKS, column),
        Y * (1 + TASKS) + TASKS,
        column,
        outcome_transform=transform,
        input_transform=inputs,
        output_tasks=output_tasks,
    )
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.add_(0.3 * uniform(parameter.numel(), seed=i).reshape(parameter.shape))
        model.likelihood.noise = torch.tensor([[0.05], [0.2], [0.1]], dtype=torch.float64)
    return model


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def transformed(model, X, weights, offset):
    """What botorch makes of it."""
    model.eval()
    with torch.no_grad():
        return model.posterior(X, posterior_transform=ScalarizedPosteriorTransform(tensor(weights), offset))


def joint(posterior, X, column, tasks=3):
    """Mean and covariance of all tasks at X (q x d), task by task: 3 q, 3 q x 3 q."""
    return posterior.mean_and_covar(torch.cat([with_task(X, float(t), column) for t in range(tasks)]))


def summed(weights, q):
    """S, q x 3 q, with g = S f for f task by task."""
    return torch.cat([w * torch.eye(q, dtype=torch.float64) for w in weights], dim=-1)


# --- one output --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "offset"), [(-1.0, 0.0), (1.0, 2.5), (-0.3, 10.0), (1e6, -1.0)])
def test_one_output_against_botorch(weight, offset):
    model = SingleTaskGP(X, Y)
    posterior = scalarize(posterior_of(model), tensor([weight]), offset)
    expected = transformed(model, BATCHES, [weight], offset)
    close(posterior.mean(BATCHES), expected.mean.squeeze(-1), rtol=1e-8, atol=1e-8)
    scale = weight**2
    close(posterior.covar(BATCHES) / scale, expected.distribution.covariance_matrix / scale, rtol=1e-8, atol=1e-8)
    noise = model.likelihood.noise.item() * model.outcome_transform.stdvs.item() ** 2 * scale
    close(posterior.noise(BATCHES), torch.full((3, 4), noise, dtype=torch.float64), rtol=1e-9)
    assert posterior.amplitude == pytest.approx(posterior_of(model).amplitude * scale, rel=1e-12)


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
@pytest.mark.parametrize("weight", [-1.0, 3.0])
def test_one_output_conditions_like_the_plain_posterior(make, weight):
    toy, pending = make(), uniform(3, 2, seed=5)
    posterior = scalarize(toy.posterior, tensor([weight]), 0.7)
    y = normal(3, seed=6)
    plain = toy.posterior.augment(pending, Y=y)
    conditioned = posterior.augment(pending, Y=weight * y + 0.7)
    close(conditioned.mean(BATCHES), weight * plain.mean(BATCHES) + 0.7)
    close(conditioned.covar(BATCHES), weight**2 * plain.covar(BATCHES))
    close(posterior.compress(4).covar(BATCHES), weight**2 * toy.posterior.compress(4).covar(BATCHES))


def test_minimising_by_weight_is_minimising_by_sign():
    model = SingleTaskGP(X, Y)
    by_weight = BatchedEnergyEntropy(
        model, 0.7, posterior_transform=ScalarizedPosteriorTransform(tensor([-1.0])), X_pending=X[:2] + 0.1
    )
    by_sign = BatchedEnergyEntropy(model, 0.7, maximize=False, X_pending=X[:2] + 0.1)
    close(by_weight(BATCHES), by_sign(BATCHES))


def test_one_output_of_pairs_keeps_the_task_column():
    """A MultiTaskGP with one weight: the points carry their task, as in botorch."""
    model = multi_task()
    batches = with_task(BATCHES, tensor([0.0, 1, 2, 1]).unsqueeze(-1), 2)
    acqf = BatchedEnergyEntropy(model, 0.7, posterior_transform=ScalarizedPosteriorTransform(tensor([-2.0]), 1.0))
    expected = transformed(model, batches, [-2.0], 1.0)
    close(acqf.posterior.mean(batches), expected.mean.squeeze(-1), rtol=1e-7, atol=1e-8)
    close(acqf.posterior.covar(batches), expected.distribution.covariance_matrix, rtol=1e-7, atol=1e-8)


# --- several outputs ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("outcome", ["none", "stratified"])
def test_tasks_against_sums_written_out(weights, column, outcome):
    posterior = posterior_of(multi_task(column, outcome))
    g = scalarize(posterior, tensor(weights), 0.4, column)
    S = summed(weights, 4)
    for batch in BATCHES:
        mean, C = joint(posterior, batch, column)
        close(g.mean(batch), S @ mean + 0.4)
        close(g.covar(batch), S @ C @ S.mT)
        close(g.variance(batch), (S @ C @ S.mT).diagonal())
    close(g.mean(BATCHES), torch.stack([g.mean(batch) for batch in BATCHES]))
    close(g.covar(BATCHES), torch.stack([g.covar(batch) for batch in BATCHES]))
    sigma2 = torch.stack([posterior.noise(with_task(BATCHES, float(t), column)) for t in range(3)], dim=-1)
    close(g.noise(BATCHES), sigma2 @ tensor(weights).square())


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("column", [0, 1, 2])
def test_tasks_against_botorch(weights, column):
    model = multi_task(column)
    g = scalarize(posterior_of(model), tensor(weights), 0.4, column)
    for batch in BATCHES:
        expected = transformed(model, batch, weights, 0.4)
        close(g.mean(batch), expected.mean.squeeze(-1), rtol=1e-7, atol=1e-8)
        close(g.covar(batch), expected.distribution.covariance_matrix, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("output_tasks", [[0, 2], [2, 0], [1, 2, 0]])
def test_weights_belong_to_the_outputs_of_the_model(output_tasks):
    model = multi_task(output_tasks=output_tasks)
    weights = [1.0, -2.0, 0.5][: len(output_tasks)]
    transform = ScalarizedPosteriorTransform(tensor(weights), 0.4)
    acqf = BatchedEnergyEntropy(model, 0.7, posterior_transform=transform)
    expected = transformed(model, BATCHES[0], weights, 0.4)
    close(acqf.posterior.mean(BATCHES[0]), expected.mean.squeeze(-1), rtol=1e-7, atol=1e-8)
    close(acqf.posterior.covar(BATCHES[0]), expected.distribution.covariance_matrix, rtol=1e-7, atol=1e-8)


def test_amplitude_is_the_prior_variance_of_the_sum():
    posterior = posterior_of(multi_task(outcome="stratified"))
    w = tensor([0.5, -2.0, 1.0])
    pairs = torch.cat([with_task(X, float(t), 2) for t in range(3)])
    S = summed(w, len(X))
    with torch.no_grad():
        K = posterior.kernel(posterior.warp(pairs)).to_dense()
    assert scalarize(posterior, w, 0.0, 2).amplitude == pytest.approx(float((S @ K @ S.mT).diagonal().mean()), rel=1e-9)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_pending_points_are_measurements_of_the_sum(weights):
    """Gaussian conditioning of g = S f on g(pending) + noise, the noise that of one measurement of each task."""
    posterior = posterior_of(multi_task())
    pending, batch = uniform(3, 2, seed=5), uniform(4, 2, seed=6)
    g = scalarize(posterior, tensor(weights), 0.4, 2)
    S = summed(weights, 7)
    mean, C = joint(posterior, torch.cat([pending, batch]), 2)
    sigma2 = (tensor([0.05, 0.2, 0.1]) @ tensor(weights).square()).expand(3)
    y = normal(3, seed=7)
    expected_mean, expected_covar = condition(S @ mean + 0.4, S @ C @ S.mT, sigma2, y)
    conditioned = g.augment(pending, Y=y)
    close(conditioned.mean(batch), expected_mean, rtol=1e-8, atol=1e-9)
    close(conditioned.covar(batch), expected_covar, rtol=1e-8, atol=1e-9)
    again = g.augment(pending[:1], Y=y[:1]).augment(pending[1:], Y=y[1:])
    close(again.mean(batch), expected_mean, rtol=1e-8, atol=1e-9)
    close(again.covar(batch), expected_covar, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
def test_acquisition_of_a_sum_with_pending_points():
    posterior = posterior_of(multi_task())
    weights, pending = [0.5, -2.0, 1.0], uniform(3, 2, seed=5)
    acqf = BatchedEnergyEntropy(
        multi_task(),
        0.7,
        MeanEnergy(),
        X_pending=pending,
        posterior_transform=ScalarizedPosteriorTransform(tensor(weights), 0.4),
    )
    sigma2 = tensor([0.05, 0.2, 0.1]) @ tensor(weights).square()
    T = 0.7 * math.sqrt(scalarize(posterior, tensor(weights), 0.4, 2).amplitude)
    values = []
    for batch in BATCHES:
        S = summed(weights, 7)
        mean, C = joint(posterior, torch.cat([pending, batch]), 2)
        covar = condition(S @ mean, S @ C @ S.mT, sigma2.expand(3), (S @ mean)[:3])[1]
        gain = half_logdet(covar, sigma2.expand(4))
        values.append((S @ mean)[3:].sum() + 4 * 0.4 + T * gain)
    close(acqf(BATCHES), torch.stack(values), rtol=1e-7, atol=1e-8)
    assert torch.autograd.gradcheck(acqf, BATCHES[:2].clone().requires_grad_())


def test_in_the_optimiser():
    acqf = BatchedEnergyEntropy(
        multi_task(), 0.5, posterior_transform=ScalarizedPosteriorTransform(tensor([1.0, 0.5, -1.0]))
    )
    bounds = tensor([[0.0, 0.0], [1.0, 1.0]])
    with manual_seed(0):
        batch, value = optimize_acqf(
            acqf, bounds, q=3, num_restarts=2, raw_samples=16, options={"seed": 0, "maxiter": 30}
        )
    assert batch.shape == (3, 2)
    with torch.no_grad():
        assert float(value) > float(acqf(uniform(200, 3, 2, seed=9)).max())


def test_another_number_format():
    g = scalarize(posterior_of(multi_task()), tensor([0.5, -2.0, 1.0]), 0.4, 2)
    single = g.to(torch.float32)
    mean, covar = single.mean_and_covar(BATCHES.float())
    assert mean.dtype == covar.dtype == single.noise(BATCHES.float()).dtype == torch.float32
    close(mean.double(), g.mean(BATCHES), rtol=1e-3, atol=1e-3)
    close(single.noise(BATCHES.float()).double(), g.noise(BATCHES), rtol=1e-5)


def test_noise_by_task_of_a_plain_posterior():
    toy = exact_toy(d=2)
    noise = TaskNoise(tensor([0.1, 0.3]), column=1)
    posterior = replace(toy.posterior, noise=noise)
    g = scalarize(posterior, tensor([2.0, -1.0]), 0.0, 1)
    close(g.noise(uniform(5, 1, seed=2)), torch.full((5,), 4 * 0.1 + 0.3, dtype=torch.float64))


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[0.0], [0.0, 0.0, 0.0]])
def test_weights_that_leave_nothing(weights):
    column = 2 if len(weights) == 3 else None
    with pytest.raises(ValueError, match="all weights of the outputs are zero"):
        scalarize(posterior_of(multi_task()), tensor(weights), 0.0, column)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0] * 4])
def test_a_wrong_number_of_weights(weights):
    transform = ScalarizedPosteriorTransform(tensor(weights))
    with pytest.raises(InputError, match=f"{len(weights)} weights, the model 3 outputs"):
        BatchedEnergyEntropy(multi_task(), posterior_transform=transform)
    with pytest.raises(InputError, match=f"{len(weights)} weights, the model 1 output"):
        BatchedEnergyEntropy(SingleTaskGP(X, Y), posterior_transform=transform)
    with pytest.raises(InputError, match=f"{len(weights)} weights, the model 1 output"):
        BatchedEnergyEntropy(exact_toy().posterior, posterior_transform=transform)


def test_another_transform():
    with pytest.raises(InputError, match="ExpectationPosteriorTransform is not supported"):
        BatchedEnergyEntropy(SingleTaskGP(X, Y), posterior_transform=ExpectationPosteriorTransform(n_w=2))
