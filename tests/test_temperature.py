import math

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, ProductKernel, RBFKernel, ScaleKernel

from beebo_scale import BatchedEnergyEntropy, InputError
from beebo_scale.energy import SoftmaxEnergy
from beebo_scale.kernels.screen import ExchangeKernel, icm_kernel
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess, exact_posterior
from beebo_scale.temperature import Constant, ExploitLast, Geometric, Linear, LogNormalDraws, Steps, from_kappa
from tests.helpers import close, exact_toy, normal, uniform

SCHEDULES = [
    Constant(0.5),
    Linear(2.0, 0.5),
    Geometric(2.0, 0.5),
    ExploitLast(Constant(0.5)),
    LogNormalDraws(0.5),
    Steps((2.0, 0.5)),
]


def by_round(schedule, rounds):
    return [schedule(round, rounds) for round in range(rounds)]


# --- schedules ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(0.5), [0.5, 0.5, 0.5]),
        (Constant(0.0), [0.0, 0.0, 0.0]),
        (Linear(2.0, 0.5), [2.0, 1.25, 0.5]),
        (Linear(0.0, 1.0), [0.0, 0.5, 1.0]),
        (Geometric(2.0, 0.5), [2.0, 1.0, 0.5]),
        (Geometric(0.01, 1.0), [0.01, 0.1, 1.0]),
        (ExploitLast(Constant(0.5)), [0.5, 0.5, 0.0]),
        (ExploitLast(Linear(2.0, 0.5)), [2.0, 1.25, 0.0]),
        (ExploitLast(Geometric(2.0, 0.5), last=0.1), [2.0, 1.0, 0.1]),
        (Steps((2.0, 0.7)), [2.0, 0.7, 0.7]),
        (Steps((2.0, 0.7, 0.5, 0.1)), [2.0, 0.7, 0.5]),
        (ExploitLast(Steps((2.0,))), [2.0, 2.0, 0.0]),
    ],
)
def test_values_by_round(schedule, expected):
    assert by_round(schedule, 3) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("schedule", [Linear(2.0, 0.3), Geometric(2.0, 0.3)])
def test_first_and_last_are_hit_whatever_the_number_of_rounds(schedule):
    for rounds in (2, 3, 7, 50):
        values = by_round(schedule, rounds)
        assert values[0] == pytest.approx(2.0, rel=1e-14)
        assert values[-1] == pytest.approx(0.3, rel=1e-14)
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [(Constant(0.5), 0.5), (Linear(2.0, 0.5), 2.0), (Geometric(2.0, 0.5), 2.0), (ExploitLast(Constant(0.5)), 0.0)],
)
def test_one_round_only(schedule, expected):
    assert by_round(schedule, 1) == [expected]


@pytest.mark.slow
def test_draws_are_reproducible_and_of_their_prior():
    draws = by_round(LogNormalDraws(0.5, sigma=0.8, seed=3), 20_000)
    assert by_round(LogNormalDraws(0.5, sigma=0.8, seed=3), 10) == draws[:10]  # whatever the number of rounds
    assert LogNormalDraws(0.5, sigma=0.8, seed=3)(7, 1000) == draws[7]
    assert by_round(LogNormalDraws(0.5, sigma=0.8, seed=4), 10) != draws[:10]
    logs = torch.tensor(draws[:2000], dtype=torch.float64).log()
    assert float(logs.mean()) == pytest.approx(math.log(0.5), abs=0.1)
    assert float(logs.std()) == pytest.approx(0.8, rel=0.1)
    assert by_round(LogNormalDraws(0.5, sigma=0.0), 3) == [0.5, 0.5, 0.5]


def test_draws_leave_the_global_generator_alone():
    state = torch.random.get_rng_state()
    LogNormalDraws(0.5)(3, 10)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
@pytest.mark.parametrize(("round", "rounds"), [(-1, 3), (3, 3), (0, 0)])
def test_rounds_that_do_not_exist(schedule, round, rounds):
    with pytest.raises(ValueError, match=f"round {round} is not one of {rounds} rounds"):
        schedule(round, rounds)


@pytest.mark.parametrize(
    "make",
    [
        lambda T: Constant(T),
        lambda T: Linear(T, 1.0),
        lambda T: Linear(1.0, T),
        lambda T: Geometric(T, 1.0),
        lambda T: Geometric(1.0, T),
        lambda T: ExploitLast(Constant(1.0), T),
        lambda T: Steps((1.0, T)),
        lambda T: LogNormalDraws(T),
        lambda T: LogNormalDraws(1.0, sigma=T),
        from_kappa,
    ],
)
@pytest.mark.parametrize("T", [-0.1, math.nan, math.inf, "0.5", None])
def test_bad_temperatures(make, T):
    with pytest.raises(InputError):
        make(T)


def test_no_temperature_at_all():
    with pytest.raises(InputError, match="temperatures is empty"):
        Steps(())


@pytest.mark.parametrize(
    "make", [lambda: Geometric(0.0, 1.0), lambda: Geometric(1.0, 0.0), lambda: LogNormalDraws(0.0)]
)
def test_zero_where_a_logarithm_is_taken(make):
    with pytest.raises(ValueError, match="above zero"):
        make()


# --- UCB ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 0.1, 1.0, 100.0])
def test_kappa(kappa):
    assert from_kappa(kappa) == pytest.approx(math.sqrt(kappa) / 2, rel=1e-15)


def at_variance(toy, target):
    """A point, 1 x d, between a measured one and a far one where the posterior variance is `target`."""
    low, high = 0.0, 1.0
    near, far = toy.Z[:1], toy.Z[:1] + 30.0
    for _ in range(200):
        middle = (low + high) / 2
        v = float(toy.posterior.variance(near + middle * (far - near)))
        low, high = (middle, high) if v < target else (low, middle)
    return near + low * (far - near)


def gradients(toy, X, kappa, sigma2):
    """Gradient of BEEBO at one point with T' of that kappa, and of UCB."""
    acqf = BatchedEnergyEntropy(toy.posterior, from_kappa(kappa))
    assert float(toy.posterior.noise(X)) == sigma2
    X = X.clone().requires_grad_()
    (beebo,) = torch.autograd.grad(acqf(X).sum(), X)
    ucb = toy.posterior.mean(X) + math.sqrt(kappa) * toy.posterior.variance(X).sqrt()
    return beebo, torch.autograd.grad(ucb.sum(), X)[0]


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.1, 1.0, 100.0])
def test_gradient_is_that_of_ucb_where_the_variance_is_a_quarter_of_the_amplitude(kappa):
    """The difference vanishes as sigma^2 / C does: T / 2 grad C / (C + sigma^2) against T / 2 grad C / C."""
    errors = []
    for sigma2 in (1e-2, 1e-4, 1e-6):
        toy = exact_toy(sigma2=sigma2)
        X = at_variance(toy, toy.outputscale / 4)
        close(toy.posterior.variance(X), torch.full((1,), toy.outputscale / 4, dtype=torch.float64), rtol=1e-9)
        beebo, ucb = gradients(toy, X, kappa, sigma2)
        slope = torch.autograd.functional.jacobian(toy.posterior.variance, X).flatten().norm()
        errors.append(float((beebo - ucb).norm() / (math.sqrt(kappa * toy.outputscale) * slope)))
        C = toy.outputscale / 4
        assert errors[-1] == pytest.approx(0.25 * (1 / C - 1 / (C + sigma2)), rel=1e-4)
    assert errors[2] < 1e-5
    assert errors[0] > 1e3 * errors[2]


@pytest.mark.parametrize("part", [0.1, 0.5])
def test_gradient_is_not_that_of_ucb_elsewhere(part):
    """It pulls harder to uncertainty below C = A / 4, and less above."""
    toy = exact_toy(sigma2=1e-6)
    X = at_variance(toy, part * toy.outputscale)
    beebo, ucb = gradients(toy, X, 1.0, 1e-6)
    (mean,) = torch.autograd.grad(toy.posterior.mean(X.requires_grad_()).sum(), X)
    ratio = (beebo - mean).norm() / (ucb - mean).norm()
    assert float(ratio) == pytest.approx(0.5 / math.sqrt(part), rel=1e-4)


# --- amplitude ---------------------------------------------------------------------------------------------


def matern(columns):
    kernel = MaternKernel(nu=2.5, ard_num_dims=len(columns), active_dims=columns)
    kernel.lengthscale = 0.4
    return kernel


def scaled(kernel, c):
    kernel = ScaleKernel(kernel)
    kernel.outputscale = c
    return kernel


def exchange():
    kernel = ExchangeKernel(ard_num_dims=2)
    kernel.lengthscale = 0.8
    return kernel


def icm():
    kernel = icm_kernel(matern((0,)), 3, 1)
    kernel.kernels[1].initialize(covar_factor=normal(3, 3, seed=4), raw_var=normal(3, seed=5))  # random otherwise
    return kernel


KERNELS = {
    "no outputscale": lambda: matern((0, 1)),
    "outputscale": lambda: scaled(matern((0, 1)), 1.7),
    "product": lambda: ProductKernel(matern((0,)), matern((1,))),
    "scaled product": lambda: scaled(ProductKernel(scaled(matern((0,)), 2.0), RBFKernel(active_dims=(1,))), 0.6),
    "sum": lambda: scaled(matern((0,)), 0.5) + scaled(matern((1,)), 0.7),
    "exchange": exchange,
    "icm": icm,
}


def prior_variance(kernel, X):
    """Mean of k(x, x) over distinct inputs."""
    with torch.no_grad():
        return float(kernel.double()(X.unique(dim=0)).to_dense().diagonal().mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("energy", [None, SoftmaxEnergy()], ids=["mean", "softmax"])
@pytest.mark.parametrize("c", [1e-6, 50.0])
def test_units_of_the_target_scale_the_acquisition_and_leave_the_choice(name, energy, c):
    """f in a unit c times smaller: kernel times c^2, noise times c^2, data times c; a(X) times c."""
    codes = name in ("exchange", "icm")
    draw = (lambda *shape, seed: (3 * uniform(*shape, seed=seed)).floor()) if codes else uniform
    X, y, batches = draw(15, 2, seed=0), normal(15, seed=1), draw(100, 4, 2, seed=2)
    values = []
    for unit in (1.0, c):
        kernel = KERNELS[name]()
        A = prior_variance(kernel, X)
        gp = GaussianProcess(scaled(kernel, torch.tensor(unit**2, dtype=torch.float64)))
        gp.kernel.double().outputscale = torch.tensor(unit**2, dtype=torch.float64)
        gp.mean.constant.data.fill_(0.3 * unit)
        noise = torch.full((15,), 0.02 * unit**2, dtype=torch.float64)  # known: no floor in the way
        posterior = exact_posterior(gp, merge_replicates(X, unit * y, noise))
        acqf = BatchedEnergyEntropy(posterior, 0.7, energy)
        assert acqf.temperature == pytest.approx(0.7 * unit * math.sqrt(A), rel=1e-6)
        with torch.no_grad():
            values.append(acqf(batches))
    close(values[1] / c, values[0], rtol=1e-6, atol=1e-6)
    assert values[1].argmax() == values[0].argmax()


@pytest.mark.filterwarnings("ignore:.*not contained to the unit cube", "ignore:.*not standardized")
def test_units_of_the_target_of_a_botorch_model():
    """botorch's default kernel has no outputscale: A = 1 in standardised units, the squared scale in the target's."""
    X, y, batches = uniform(15, 2, seed=0), normal(15, 1, seed=1), uniform(100, 4, 2, seed=2)
    values = []
    for unit in (1.0, 1e-6, 1e8):  # botorch does not standardise below 1e-8
        acqf = BatchedEnergyEntropy(SingleTaskGP(X, unit * (y + 2.0)), 0.7)
        assert acqf.temperature == pytest.approx(0.7 * unit * float(y.std()), rel=1e-6)
        with torch.no_grad():
            values.append(acqf(batches) / unit)
    for other in values[1:]:
        close(other, values[0], rtol=1e-6, atol=1e-6)
        assert other.argmax() == values[0].argmax()
