import hashlib
from dataclasses import replace

import pytest
import torch
from botorch.optim import optimize_acqf
from botorch.test_functions import Hartmann

from beebo_scale import BatchedEnergyEntropy, BoxSearch, SoftmaxEnergy
from beebo_scale.errors import InputError
from beebo_scale.linalg.roots import CholeskyRoot
from beebo_scale.proposal.box.ascent import ascend, climb, polish
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.box.starts import draw_start, incumbents, perturbed, restart_seeds, starting_candidates
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.specs.choice import STARTS
from tests.helpers import close, exact_toy, uniform
from tests.proposal.jobs.test_chunks import Memory

BOX = torch.tensor([[-0.2, 0.1, 0.0], [1.3, 0.8, 2.0]], dtype=torch.float64)
SPACE = Space(BOX)
QUICK = BoxSearch(restarts=2, steps=60, polish=0)
CUBE = Space(torch.tensor([[0.0] * 6, [1.0] * 6], dtype=torch.float64))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def acquisition(temperature=0.3, d=3, n=15, **kwargs):
    return BatchedEnergyEntropy(exact_toy(n=n, d=d).posterior, temperature, **kwargs)


def hartmann(temperature=0.05, n=60):
    """An acquisition function over the unit cube for Hartmann-6."""
    toy = exact_toy(n=n, d=6, sigma2=0.01)
    y = -Hartmann(dim=6, dtype=torch.float64).evaluate_true(toy.Z)
    y = (y - y.mean()) / y.std()
    L = toy.posterior.down.L
    weights = torch.cholesky_solve((y - toy.constant)[:, None], L)[:, 0]
    posterior = replace(toy.posterior, weights=weights, down=CholeskyRoot(L))
    return BatchedEnergyEntropy(posterior, temperature)


def inside(X, bounds):
    return bool(((bounds[0] <= X) & (bounds[1] >= X)).all())


def batches(count, q, space=SPACE):
    return torch.stack([space.sample(q, generator(seed)) for seed in range(count)])


# --- starts ----------------------------------------------------------------------------------------------


def test_sobol_points_fill_the_box():
    X = SPACE.sample(256, generator())
    assert inside(X, BOX)
    assert torch.equal(X, SPACE.sample(256, generator()))
    assert not torch.equal(X, SPACE.sample(256, generator(1)))
    cells = ((X - BOX[0]) / (BOX[1] - BOX[0]) * 16).floor()  # 256 points of a Sobol sequence: 16 in each of 16 slices
    for column in cells.T:
        assert torch.bincount(column.long(), minlength=16).tolist() == [16] * 16


def test_perturbed_points_are_near_the_given_ones_and_inside():
    corner = BOX[1:].clone()
    X = perturbed(corner, SPACE, 500, generator())
    assert X.shape == (500, 3)
    assert inside(X, BOX)
    distance = ((X - corner) / (BOX[1] - BOX[0])).abs().max(dim=-1).values
    assert distance.median() < 0.1
    assert distance.max() < 0.6
    assert distance.max() > 0.01


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_candidates_gather_at_the_best_measured_points(sign):
    posterior = exact_toy(n=30, d=3).posterior
    X = starting_candidates(posterior, SPACE, 400, generator(), sign)
    assert X.shape == (400, 3)
    assert inside(X, BOX)
    spread, near = posterior.mean(X[:300]), posterior.mean(X[300:])
    assert sign * float(near.mean()) > sign * float(spread.mean())


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_starts_are_drawn_restart_by_restart(start):
    acqf = acquisition()
    seeds = restart_seeds(3, 3)
    assert restart_seeds(3, 2) == seeds[:2]
    starts = [draw_start(acqf, SPACE, 4, start, seed) for seed in seeds]
    assert torch.equal(draw_start(acqf, SPACE, 4, start, seeds[1]), starts[1])
    assert starts[0].shape == (4, 3)
    assert inside(torch.stack(starts), BOX)
    assert not torch.equal(starts[0], starts[1])


def test_the_less_the_centers_fill_the_box_the_more_of_a_mixed_start_lies_near_the_best():
    acqf = acquisition()
    seed = restart_seeds(3, 1)[0]
    mixed, plain = (draw_start(acqf, SPACE, 80, start, seed) for start in ("mixed", "sobol"))
    count = round(40 * len(acqf.posterior.points) ** (-1 / 3))
    assert 0 < count < 40
    assert torch.equal(mixed[count:], plain[count:])
    best = incumbents(acqf.posterior, acqf.sign)
    assert len(best) == max(1, len(acqf.posterior.points) // 10)
    distance = torch.cdist(SPACE.unit(mixed), SPACE.unit(best)).min(-1).values
    assert distance[:count].median() < 0.5 * distance[count:].median()


def test_a_batch_that_exploits_is_at_the_best_mean_whatever_the_start():
    posterior, search = exact_toy(30, 2).posterior, BoxSearch(restarts=1, start="sobol")
    space = Space(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    X, *_ = optimize_box(BatchedEnergyEntropy(posterior, 0.0), space, 10, search)
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 101, dtype=torch.float64)] * 2)
    assert float(posterior.mean(X).min()) >= float(posterior.mean(grid).max()) - 1e-3 * posterior.amplitude**0.5


# --- climbing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximize", [True, False])
def test_climbing_never_lowers_the_value(maximize):
    acqf = acquisition(maximize=maximize)
    X = batches(4, 5)
    before = acqf(X)
    best, value = climb(acqf, X, SPACE, BoxSearch(steps=30))
    assert inside(best, BOX)
    close(acqf(best), value)
    assert (value >= before - 1e-12).all()
    assert (value > before + 0.1).all()  # and random batches are easy to improve
    again, value_again = climb(acqf, best, SPACE, BoxSearch(steps=0))
    close(again, best, atol=1e-14)
    close(value_again, value)
    _, far = climb(acqf, best, SPACE, BoxSearch(steps=3, learning_rate=0.5))  # steps that are much too long
    assert (far >= value - 1e-10).all()


def test_both_ends_of_the_box_are_reached_exactly():
    bounds = torch.tensor([[0.1, -0.3, 1 / 3], [0.7, 1e-3, 0.9]], dtype=torch.float64)
    acqf = acquisition(temperature=50.0)  # information lies in the corners
    best, _ = climb(acqf, batches(1, 12, Space(bounds)), Space(bounds), BoxSearch(steps=60))
    assert inside(best, bounds)
    assert bool((best == bounds[0]).any())
    assert bool((best == bounds[1]).any())


@pytest.mark.slow
def test_restarts_do_not_interact():
    acqf = acquisition()
    X = batches(3, 5)
    together, values = climb(acqf, X, SPACE, BoxSearch(steps=40))
    for i in range(3):
        alone, value = climb(acqf, X[i : i + 1], SPACE, BoxSearch(steps=40))
        close(together[i : i + 1], alone)
        close(values[i : i + 1], value)


@pytest.mark.slow
def test_a_greedy_start_is_no_worse_than_a_sobol_start():
    acqf = hartmann()
    _, greedy_value, _ = optimize_box(acqf, CUBE, 8, replace(QUICK, restarts=1, steps=30))
    _, sobol_value, _ = optimize_box(acqf, CUBE, 8, replace(QUICK, steps=30, start="sobol"))
    assert greedy_value >= sobol_value


@pytest.mark.slow
def test_the_search_beats_random_batches_and_botorch():
    acqf = hartmann()
    X, value, record = optimize_box(acqf, CUBE, 8, QUICK)
    assert X.shape == (8, 6)
    assert value == max(record["restarts"])
    close(acqf(X), torch.tensor([value], dtype=torch.float64))
    with torch.no_grad():
        random = max(float(acqf(uniform(1, 8, 6, seed=seed))) for seed in range(100))
    assert value > random + 1.0
    torch.manual_seed(0)
    _, botorch_value = optimize_acqf(
        acqf, CUBE.bounds, q=8, num_restarts=2, raw_samples=16, options={"batch_limit": 2, "maxiter": 60}
    )
    assert value >= float(botorch_value) - 1e-3 * abs(float(botorch_value))


@pytest.mark.slow
def test_the_seed_decides():
    acqf = acquisition()
    search = replace(QUICK, restarts=1, steps=3)
    one, two, other = (optimize_box(acqf, SPACE, 3, search, seed)[0] for seed in (5, 5, 6))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [(), (1,)])
def test_the_polish_reaches_a_stationary_point(shared):
    space = Space(BOX, shared=shared)
    acqf = acquisition()
    start = climb(acqf, batches(1, 4, space), space, BoxSearch(steps=20))[0][0]
    X = polish(acqf, start, space, 200)
    assert inside(X, BOX)
    assert float(acqf(X)) > float(acqf(start))
    assert torch.equal(X[:, space.tied], X[:1, space.tied].expand(4, -1))
    again = ascend(acqf, X[None], space, replace(QUICK, steps=30, learning_rate=1e-3))[1]
    assert float(again) < float(acqf(X)) + 1e-5


def test_a_polish_never_lowers_the_value():
    acqf = acquisition()
    X = batches(2, 4)
    X, value = climb(acqf, X, SPACE, BoxSearch(steps=20))
    polished, better = ascend(acqf, X, SPACE, BoxSearch(polish=10))
    assert (better >= value).all()
    assert (better > value).any()
    close(acqf(polished), better)


# --- chunks ----------------------------------------------------------------------------------------------


def digest(X):
    return hashlib.sha256(X.numpy().tobytes()).hexdigest()


@pytest.mark.slow
def test_a_relaunch_finds_the_same_bytes():
    acqf, search = acquisition(), replace(QUICK, restarts=3, steps=5)
    expected, value, record = optimize_box(acqf, SPACE, 3, search, seed=2)
    memory = Memory()
    write = memory.write

    class KilledError(Exception):
        pass

    def stop(*item):
        write(*item)
        raise KilledError

    memory.write = stop
    for _ in range(3):
        with pytest.raises(KilledError):
            optimize_box(acqf, SPACE, 3, search, 2, ChunkRunner(ledger=memory))
    X, again, resumed = optimize_box(acqf, SPACE, 3, search, 2, ChunkRunner(ledger=memory))
    assert digest(X) == digest(expected)
    assert (again, resumed) == (value, record)
    assert sorted(memory.kept) == [("box", 0), ("box", 1), ("box", 2)]


@pytest.mark.slow
def test_chunks_hold_several_restarts():
    acqf = acquisition()
    one = optimize_box(acqf, SPACE, 3, replace(QUICK, restarts=3, steps=5, chunk=1))
    two = optimize_box(acqf, SPACE, 3, replace(QUICK, restarts=3, steps=5, chunk=2))
    close(torch.tensor(one[2]["restarts"]), torch.tensor(two[2]["restarts"]))


@pytest.mark.slow
def test_an_energy_that_does_not_add_up_moves_all_points_as_one(monkeypatch):
    acqf = acquisition(energy=SoftmaxEnergy())
    X, value, record = optimize_box(acqf, SPACE, 5, replace(QUICK, steps=5, block=4))
    close(acqf(X), torch.tensor([value], dtype=torch.float64))
    assert len(record["restarts"]) == 2
    monkeypatch.setattr("beebo_scale.proposal.box.multistart.JOINT", 4)
    with pytest.raises(InputError, match=r"q = 5: a box batch of more than 4 points .* needs the plain mean energy"):
        optimize_box(acqf, SPACE, 5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"restarts": 0}, "restarts = 0: give 1 or more"),
        ({"steps": -1}, "steps = -1: give 0 or more"),
        ({"chunk": 0}, "chunk = 0"),
        ({"learning_rate": 0.0}, "learning_rate = 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"start": "random"}, "start 'random' is not known; choose one of greedy, sobol, mixed"),
    ],
)
def test_a_search_is_checked_when_made(wrong, said):
    with pytest.raises(InputError, match=said):
        BoxSearch(**wrong)
