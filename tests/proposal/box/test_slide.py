import pytest
import torch

from beebo_scale import BatchedEnergyEntropy
from beebo_scale.proposal.box.ascent import slide
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from tests.helpers import exact_toy

BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
SUM = (torch.arange(2), -torch.ones(2, dtype=torch.float64), -0.9)  # x + y <= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"inequalities": (SUM,)}, {"equalities": (SUM,)}])
def test_the_best_point_of_a_line_or_a_triangle_is_found(limits):
    acqf = BatchedEnergyEntropy(exact_toy(n=15, d=2).posterior, 0.4)
    space = Space(BOX, **limits)
    x = torch.linspace(0, 1, 301, dtype=torch.float64)
    every = torch.cartesian_prod(x, x)
    line = torch.stack([0.9 * x, 0.9 - 0.9 * x], dim=-1)
    every = torch.cat([every[space.contains(every)], line])
    with torch.no_grad():
        best = acqf(every.unsqueeze(1)).max()
    X, value, _ = optimize_box(acqf, space, 1)
    assert space.contains(X).all()
    assert value >= best - 1e-6


def test_a_batch_that_slides_never_falls_and_stays_inside():
    acqf = BatchedEnergyEntropy(exact_toy(n=15, d=2).posterior, 0.4)
    for shared in ((), (0,)):
        space = Space(BOX, shared=shared, inequalities=(SUM,))
        start = space.settle(space.sample(4, torch.Generator().manual_seed(0)))
        X = slide(acqf, start, space, 60)
        assert space.contains(X).all()
        assert (X[:, space.tied] == X[:1, space.tied]).all()
        assert acqf(X) > acqf(start)
