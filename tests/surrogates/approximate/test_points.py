"""Inducing points spread over the rows, or half of them in the tail of the target."""

from dataclasses import replace

import torch

from beebo_scale import Approximation
from beebo_scale.kernels.stationary import freeze
from beebo_scale.specs import Fitting
from beebo_scale.surrogates.approximate.held_out import held_out_rows
from beebo_scale.surrogates.approximate.points import inducing_points, tail_rows
from tests.helpers import normal
from tests.surrogates.approximate.blocks.toys import observations, process


def chosen(data, kind, choice="auto", m=20):
    fitting = Fitting(kind=kind, approximation=Approximation(inducing_points=m, inducing_choice=choice))
    Z = inducing_points(freeze(process().kernel), data, fitting)
    found = (Z.unsqueeze(1) == data.X).all(-1).nonzero()[:, 1]
    assert len(found) == len(Z) == m
    assert len(found.unique()) == m
    return found


def screen():
    data = observations(400)
    return replace(data, y=torch.where(torch.arange(400) % 40 == 7, 6.0, 0.5 * normal(400, seed=3)))


def test_hits_are_among_the_points_where_few_stick_out():
    data = screen()
    hits = (data.y > 5).nonzero().squeeze(-1)
    hits = hits[~torch.isin(hits, held_out_rows(400))]
    for kind in ("blocks", "svgp"):
        assert torch.isin(hits, chosen(data, kind)).all()
        assert not torch.isin(hits, chosen(data, kind, "spread")).all()


def test_points_are_spread_where_none_sticks_out():
    data = observations(400)
    for kind in ("blocks", "sgpr"):
        assert torch.equal(chosen(data, kind), chosen(data, kind, "spread"))
        assert not torch.equal(chosen(data, kind), chosen(data, kind, "tail"))


def test_no_point_is_a_row_on_which_the_gain_is_judged():
    for choice in ("spread", "tail"):
        assert not torch.isin(chosen(screen(), "blocks", choice), held_out_rows(400)).any()


def test_the_tail_is_the_longer_side():
    y = torch.tensor([0.0, 0.1, -0.1, 0.2, -9.0], dtype=torch.float64)
    assert tail_rows(y)[0][0] == 4
    assert tail_rows(-y)[0][0] == 4
    assert not tail_rows(normal(5000))[1]
    assert tail_rows(normal(5000).exp().exp())[1]
