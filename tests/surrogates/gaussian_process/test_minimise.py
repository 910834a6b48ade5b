import torch

from beebo_scale.surrogates.gaussian_process.minimise import minimise
from tests.helpers import close


def parameters():
    return {
        "scale": torch.tensor([[0.5, 2.0]], dtype=torch.float64, requires_grad=True),
        "shift": torch.tensor(0.3, dtype=torch.float64, requires_grad=True),
        "idle": torch.tensor(1.0, dtype=torch.float64, requires_grad=True),
    }


def loss_of(found, target):
    """Least where scale = target and shift = -1; widely different sizes."""
    return (found["scale"].log() - target.log()).square().sum() + (found["shift"] + 1).square()


def test_the_minimum_is_found_over_many_orders_of_magnitude():
    found, target = parameters(), torch.tensor([[1e-3, 1e3]], dtype=torch.float64)
    steps = []
    result = minimise(lambda: loss_of(found, target), found, {"scale": (1e-6, None)}, 50, lambda: steps.append(1))
    close(found["scale"].detach(), target, rtol=1e-3, atol=0.0)
    close(found["shift"].detach(), torch.tensor(-1.0, dtype=torch.float64), rtol=0.0, atol=1e-3)
    assert float(found["idle"].detach()) == 1.0
    assert 0 < result.step < 10  # a parabola in logarithms
    assert len(steps) >= result.step


def test_bounds_hold_exactly():
    found, target = parameters(), torch.tensor([[1e-3, 1e3]], dtype=torch.float64)
    minimise(lambda: loss_of(found, target), found, {"scale": (0.1, 10.0), "shift": (-0.5, torch.inf)}, 50)
    close(found["scale"].detach(), torch.tensor([[0.1, 10.0]], dtype=torch.float64), rtol=1e-9, atol=0.0)
    assert bool((found["scale"] >= 0.1).all())
    assert bool((found["scale"] <= 10.0).all())
    assert float(found["shift"].detach()) == -0.5


def test_no_iterations_leave_the_start():
    found = parameters()
    ones = torch.ones(1, 2, dtype=torch.float64)
    result = minimise(lambda: loss_of(found, ones), found, {"scale": (0.1, None)}, 0)
    assert result.step == 0
    assert torch.equal(found["scale"], parameters()["scale"])
