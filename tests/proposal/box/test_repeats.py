import pytest
import torch

from beebo_scale import BatchedEnergyEntropy
from beebo_scale.errors import InputError
from beebo_scale.proposal.box.repeats import GRID, grid_steps, on_grid, replace_repeats
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.library.lazy_greedy import known
from tests.helpers import close, exact_toy

BOX = torch.tensor([[-0.2, 0.1, 0.0], [1.3, 0.8, 2.0]], dtype=torch.float64)
SPACE = Space(BOX)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def acquisition(temperature=0.3, d=3):
    return BatchedEnergyEntropy(exact_toy(n=15, d=d).posterior, temperature)


def no_repeats(X, space, measured):
    old, repeated = known(grid_steps(X, space), grid_steps(measured, space))
    return not bool((old | repeated).any())


def test_the_grid():
    assert torch.equal(on_grid(BOX, SPACE), BOX)
    X = SPACE.sample(100, generator())
    moved = on_grid(X, SPACE)
    assert SPACE.contains(moved).all()
    assert ((moved - X).abs() <= 0.51 / GRID * (BOX[1] - BOX[0])).all()
    assert torch.equal(grid_steps(moved, SPACE), grid_steps(X, SPACE))
    close(grid_steps(moved, SPACE) / GRID, SPACE.unit(moved))


def test_the_grid_keeps_inequalities_and_single_values():
    limit = (torch.tensor([0, 1]), torch.tensor([-1.0, -3.0], dtype=torch.float64), -1.0 - 1e-4)
    codes = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    bounds = torch.cat([BOX[:, :2], torch.tensor([[0.0, 0.0, 0.7], [5.0, 2.0, 0.7]], dtype=torch.float64)], dim=-1)
    space = Space(bounds, integer={2: 5}, categorical={3: codes}, inequalities=(limit,))
    far = space.sample(300, generator())
    far[:, :2] += 0.5
    X = torch.cat([space.near(far), space.sample(100, generator())])  # most of them on the face
    moved = on_grid(X, space)
    assert space.contains(moved, 1e-12).all()
    steps = space.unit(moved)[:, :2] * GRID
    on = ((steps - steps.round()).abs() < 1e-6).all(-1)
    assert on.double().mean() > 0.95
    assert torch.equal(moved[:, 2:], X[:, 2:])
    assert ((moved - X).abs() <= 1.01 / GRID * (bounds[1] - bounds[0])).all()


def test_the_grid_keeps_an_equality():
    sums = (torch.arange(3), torch.ones(3, dtype=torch.float64), 1.0)
    space = Space(torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64), equalities=(sums,))
    X = space.sample(300, generator())
    moved = on_grid(X, space)
    close(moved.sum(-1), torch.ones(300, dtype=torch.float64), atol=1e-15)
    assert (moved * GRID - (moved * GRID).round()).abs().max() < 1e-9
    assert ((moved - X).abs() <= 1.01 / GRID).all()


def test_a_fixed_column_tells_measured_points_apart():
    space = Space(torch.tensor([[0.0, 0.5], [1.0, 0.5]], dtype=torch.float64))
    measured = torch.tensor([[0.2, 0.5], [0.3, 0.9]], dtype=torch.float64)
    X = torch.tensor([[0.2, 0.5], [0.3, 0.5]], dtype=torch.float64)
    assert known(grid_steps(X, space), grid_steps(measured, space))[0].tolist() == [True, False]


def test_repeats_are_replaced_and_other_points_stay():
    acqf = acquisition()
    measured = torch.stack([BOX[1], torch.tensor([5.0, 5.0, 5.0], dtype=torch.float64)])  # one outside the box
    free = SPACE.sample(3, generator())
    X = torch.cat([free, free[:1] + 1e-9, free[1:2], BOX[1:]])
    new, count = replace_repeats(acqf, X, SPACE, measured, seed=1)
    assert count == 3
    assert SPACE.contains(new).all()
    assert torch.equal(grid_steps(new, SPACE)[:3], grid_steps(free, SPACE))
    assert no_repeats(new, SPACE, measured)
    again, none = replace_repeats(acqf, new, SPACE, measured)
    assert none == 0
    close(again, new, atol=1e-14)
    assert torch.equal(new, replace_repeats(acqf, X, SPACE, measured, seed=1)[0])


def test_a_batch_that_is_one_point_becomes_many():
    acqf = acquisition(temperature=0.0)
    new, count = replace_repeats(acqf, BOX[1].expand(20, 3), SPACE, BOX[:0])
    assert count == 19
    assert len(torch.unique(grid_steps(new, SPACE), dim=0)) == 20


def test_new_points_are_chosen_given_those_that_stay():
    acqf = acquisition(temperature=2.0)
    X = SPACE.sample(4, generator())
    new, _ = replace_repeats(acqf, torch.cat([X, X]), SPACE, BOX[:0])
    value = float(acqf(new))
    random = [float(acqf(torch.cat([new[:4], SPACE.sample(4, generator(seed))]))) for seed in range(50)]
    assert value > max(random)


def test_shared_columns_stay_shared():
    codes = torch.tensor([0.0, 1.0], dtype=torch.float64)
    space = Space(torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]).double(), categorical={1: codes}, shared=(0, 1))
    one = torch.tensor([[0.3, 1.0, 0.5]], dtype=torch.float64)
    X, count = replace_repeats(acquisition(), one.expand(6, 3), space, one)
    assert count == 6
    assert torch.equal(X[:, :2], one[:, :2].expand(6, 2))
    assert no_repeats(X, space, one)


def test_all_points_of_a_small_space_are_found():
    codes = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    bounds = torch.tensor([[0.0, 0.0, 0.0], [3.0, 2.0, 1.0]], dtype=torch.float64)
    space = Space(bounds, integer={0: 3, 2: 1}, categorical={1: codes})
    X, count = replace_repeats(acquisition(), space.every()[:1].expand(23, 3), space, space.every()[5:6])
    assert count == 22
    assert len(torch.unique(torch.cat([X, space.every()[5:6]]), dim=0)) == 24
    with pytest.raises(InputError, match="no room for 24 different experiments"):
        replace_repeats(acquisition(), space.every(), space, space.every()[5:6])


@pytest.mark.slow
def test_a_box_may_have_no_room():
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    X = torch.zeros(GRID + 2, 1, dtype=torch.float64)
    with pytest.raises(InputError, match=f"no room for {GRID + 2} different experiments"):
        replace_repeats(acquisition(d=1), X, Space(bounds), bounds[:0])
