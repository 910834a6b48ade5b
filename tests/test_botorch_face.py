"""botorch's optimiser, input constructors and Ax's modular generator with fitted botorch models passed directly."""

import logging
import math
import warnings

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.optim.initializers import sample_points_around_best
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.sampling import manual_seed

from beebo_scale import BatchedEnergyEntropy, MeanEnergy
from beebo_scale.energy import SoftmaxEnergy
from beebo_scale.surrogates.botorch_models import posterior_of
from tests.helpers import close, exact_toy, normal, uniform

pytestmark = [
    pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning"),
    # gpytorch's own task kernels go through sparse tensors
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]

LOW, HIGH = torch.tensor([-1.0, 10.0], dtype=torch.float64), torch.tensor([3.0, 30.0], dtype=torch.float64)
BOUNDS = torch.stack([LOW, HIGH])


def into_box(U):
    return LOW + (HIGH - LOW) * U


X = into_box(uniform(20, 2, seed=0))
Y = (3 * X[:, :1]).sin() + 0.05 * X[:, 1:] + 0.1 * normal(20, 1, seed=1)


def model():
    model = SingleTaskGP(X, Y, input_transform=Normalize(d=2, bounds=BOUNDS))
    model.covar_module.lengthscale = torch.tensor([0.2, 0.5], dtype=torch.float64)
    model.likelihood.noise = torch.tensor(0.02, dtype=torch.float64)
    return model


def optimise(acqf, q, **options):
    options.setdefault("options", {})
    with manual_seed(0):  # botorch picks its starting points by torch's own generator
        return optimize_acqf(
            acqf,
            BOUNDS,
            q=q,
            num_restarts=3,
            raw_samples=32,
            **{**options, "options": {"seed": 0, "maxiter": 40, **options["options"]}},
        )


def random_best(acqf, q, keep=lambda X: X):
    with torch.no_grad():
        return float(acqf(keep(into_box(uniform(500, q, 2, seed=11)))).max())


ENERGIES = [MeanEnergy(), SoftmaxEnergy()]


# --- optimize_acqf -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("energy", ENERGIES, ids=["mean", "softmax"])
@pytest.mark.parametrize("maximize", [True, False])
def test_joint(energy, maximize):
    acqf = BatchedEnergyEntropy(model(), 0.5, energy, maximize=maximize)
    batch, value = optimise(acqf, 4)
    assert batch.shape == (4, 2)
    assert bool(((batch >= LOW) & (batch <= HIGH)).all())
    assert float(value) == pytest.approx(float(acqf(batch)), rel=1e-9)
    assert float(value) > random_best(acqf, 4)


@pytest.mark.parametrize("energy", ENERGIES, ids=["mean", "softmax"])
def test_sequential(energy):
    acqf = BatchedEnergyEntropy(model(), 0.5, energy)
    batch, values = optimise(acqf, 4, sequential=True)
    assert batch.shape == (4, 2)
    assert acqf.X_pending is None
    assert bool((values[1:] <= values[0] + 1e-9).all())
    if isinstance(energy, MeanEnergy):  # the sum of greedy values is the value of the batch
        assert float(values.sum()) == pytest.approx(float(acqf(batch)), rel=1e-9)
        assert float(acqf(batch)) > random_best(acqf, 4)


def test_sequential_on_top_of_pending_points():
    pending = into_box(uniform(3, 2, seed=5))
    acqf = BatchedEnergyEntropy(model(), 0.5, X_pending=pending)
    batch, values = optimise(acqf, 2, sequential=True)
    assert torch.equal(acqf.X_pending, pending)
    assert float(values.sum()) == pytest.approx(float(acqf(batch)), rel=1e-9)


def test_pure_exploration_stays_away_from_pending_points():
    pending = into_box(torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=torch.float64))
    batch, _ = optimise(BatchedEnergyEntropy(model(), 1e3, X_pending=pending), 1)
    assert float(((batch - pending) / (HIGH - LOW)).norm(dim=-1).min()) > 0.2


@pytest.mark.parametrize("sequential", [True, False])
def test_fixed_features(sequential):
    acqf = BatchedEnergyEntropy(model(), 0.5)
    batch, value = optimise(acqf, 3, fixed_features={1: 15.0}, sequential=sequential)
    assert bool((batch[:, 1] == 15.0).all())
    fixed = torch.tensor(15.0, dtype=torch.float64)
    best = random_best(acqf, 3, lambda X: torch.stack([X[..., 0], fixed.expand(X.shape[:-1])], -1))
    assert float(value.sum()) > best


@pytest.mark.slow
def test_inequality_constraints():
    acqf = BatchedEnergyEntropy(model(), 0.5)
    coefficients = torch.tensor([-5.0, -1.0], dtype=torch.float64)
    batch, value = optimise(acqf, 3, inequality_constraints=[(torch.tensor([0, 1]), coefficients, -22.0)])
    assert bool((5 * batch[:, 0] + batch[:, 1] <= 22.0 + 1e-6).all())
    free = into_box(uniform(3000, 3, 2, seed=11))
    inside = free[(5 * free[..., 0] + free[..., 1] <= 22.0).all(-1)]
    assert len(inside) > 50
    with torch.no_grad():
        assert float(value) > float(acqf(inside).max())


@pytest.mark.slow
def test_a_constraint_on_the_whole_batch():
    acqf = BatchedEnergyEntropy(model(), 0.5)
    indices = torch.tensor([[0, 0], [1, 0]])  # x_0 of the first point and of the second
    constraint = (indices, torch.tensor([1.0, 1.0], dtype=torch.float64), 1.0)
    batch, _ = optimise(acqf, 2, equality_constraints=[constraint])
    assert float(batch[:, 0].sum()) == pytest.approx(1.0, abs=1e-6)


# --- starting points around the best of the measured ones --------------------------------------------------


def around(acqf, bounds=BOUNDS):
    with manual_seed(0):
        return sample_points_around_best(acqf, n_discrete_points=40, sigma=1e-3, bounds=bounds)


def nearest(points, bounds=BOUNDS):
    """Number of the measured input that each point is closest to."""
    return torch.cdist(points / (bounds[1] - bounds[0]), X / (bounds[1] - bounds[0])).argmin(-1).unique()


@pytest.mark.parametrize("minimise", ["by sign", "by weight", None])
@pytest.mark.parametrize("training", [True, False])
def test_best_of_the_measured_points(minimise, training):
    gp = model().train(training)
    transform = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.float64))
    acqf = BatchedEnergyEntropy(
        gp, 0.5, maximize=minimise != "by sign", posterior_transform=transform if minimise == "by weight" else None
    )
    mean = posterior_of(gp).mean(X) * (1 if minimise is None else -1)
    assert nearest(around(acqf)).tolist() == [int(mean.argmax())]


def test_best_of_the_measured_points_of_a_plain_posterior():
    toy = exact_toy(n=20)
    points = around(BatchedEnergyEntropy(toy.posterior, 0.5), torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())
    best = toy.Z[toy.mean(toy.Z).argmax()]
    assert float((points - best).abs().max()) < 0.01


@pytest.mark.filterwarnings("ignore:Failed to extract X_baseline")
def test_best_of_the_measured_points_of_a_posterior_in_their_own_units():
    posterior = posterior_of(model())
    assert nearest(around(BatchedEnergyEntropy(posterior, 0.5))).tolist() == [int(posterior.mean(X).argmax())]


def test_best_of_the_measured_points_of_a_sum_of_tasks():
    task = torch.tensor([0.0, 1.0] * 10, dtype=torch.float64).unsqueeze(-1)
    gp = MultiTaskGP(torch.cat([task, X], -1), Y * (1 - 2 * task), 0)
    weights = torch.tensor([1.0, -1.0], dtype=torch.float64)
    acqf = BatchedEnergyEntropy(gp, 0.5, posterior_transform=ScalarizedPosteriorTransform(weights))
    assert nearest(around(acqf)).tolist() == [int(acqf.posterior.mean(X).argmax())]


@pytest.mark.parametrize("q", [1, 3])
def test_sample_around_best_as_an_option(q):
    acqf = BatchedEnergyEntropy(model(), 0.1)
    batch, value = optimise(acqf, q, options={"sample_around_best": True})
    assert bool(((batch >= LOW) & (batch <= HIGH)).all())
    assert float(value) > random_best(acqf, q)


# --- input constructor -------------------------------------------------------------------------------------


def test_input_constructor():
    gp, pending = model(), into_box(uniform(2, 2, seed=5))
    transform = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    data = SupervisedDataset(X, Y, feature_names=["a", "b"], outcome_names=["y"])
    energy = SoftmaxEnergy(f_max=0.3)
    inputs = get_acqf_input_constructor(BatchedEnergyEntropy)(
        model=gp,
        training_data=data,
        bounds=BOUNDS.T.tolist(),
        X_baseline=X,
        X_pending=pending,
        objective=None,
        posterior_transform=transform,
        temperature=0.8,
        energy=energy,
    )
    acqf = BatchedEnergyEntropy(**inputs)
    batches = into_box(uniform(3, 4, 2, seed=2))
    expected = BatchedEnergyEntropy(gp, 0.8, energy, X_pending=pending, posterior_transform=transform)
    assert torch.equal(acqf(batches), expected(batches))
    close(acqf(batches), BatchedEnergyEntropy(gp, 0.8, energy, pending, maximize=False)(batches))


def test_input_constructor_by_default_and_with_nonsense():
    constructor = get_acqf_input_constructor(BatchedEnergyEntropy)
    batches = into_box(uniform(3, 4, 2, seed=2))
    acqf = BatchedEnergyEntropy(**constructor(model=model(), training_data=None))
    assert torch.equal(acqf(batches), BatchedEnergyEntropy(model())(batches))
    with pytest.raises(TypeError, match="temprature"):
        constructor(model=model(), training_data=None, temprature=0.8)


# --- Ax ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ax():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever Ax and what it imports have to say
        import ax.adapter.registry
        import ax.generation_strategy.generation_strategy
        import ax.generation_strategy.generator_spec
    for name in ("ax", "ax.api.client"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return ax


def distance(point):
    return math.hypot(point["a"] - 1.0, point["b"] - 2.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")  # Ax under pandas 3, and Ax itself
@pytest.mark.filterwarnings("ignore:add_tracking_metric is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Very small noise values detected")  # gpytorch, on the exact targets given here
@pytest.mark.parametrize("objective", ["y", "-z"])
def test_ax_proposes_by_name_of_the_class(ax, objective):
    """A target to be maximised at (1, 2), and its negative to be minimised: Ax hands over a posterior transform."""
    setup = {
        "botorch_acqf_class": BatchedEnergyEntropy,
        "botorch_acqf_options": {"temperature": 0.02, "energy": MeanEnergy()},
    }
    spec = ax.generation_strategy.generator_spec.GeneratorSpec(
        ax.adapter.registry.Generators.BOTORCH_MODULAR, generator_kwargs=setup
    )
    node = ax.generation_strategy.generation_node.GenerationNode(name="beebo", generator_specs=[spec])
    client = ax.Client(random_seed=0)
    client.configure_experiment(
        name="quadratic",
        parameters=[ax.RangeParameterConfig(name=n, parameter_type="float", bounds=(-2.0, 4.0)) for n in "ab"],
    )
    client.configure_optimization(objective=objective)
    client.set_generation_strategy(
        ax.generation_strategy.generation_strategy.GenerationStrategy(nodes=[node], name="beebo")
    )
    for a, b in (6 * uniform(15, 2, seed=0) - 2).tolist():
        point = {"a": a, "b": b}
        value = -(distance(point) ** 2)
        trial = client.attach_trial(parameters=point)
        client.complete_trial(trial, raw_data={"y": (value, 0.0)} if objective == "y" else {"z": (-value, 0.0)})
    proposed = list(client.get_next_trials(max_trials=4).values())
    assert len({(point["a"], point["b"]) for point in proposed}) == 4
    assert all(-2 <= point[name] <= 4 for point in proposed for name in "ab")
    assert max(distance(point) for point in proposed) < 1.0  # in a box 6 wide
    assert client._generation_strategy.adapter.generator.botorch_acqf_class is BatchedEnergyEntropy
