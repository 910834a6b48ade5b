"""Posteriors over products against the same surrogate's posterior over whole rows."""

import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.surrogates.products import contraction
from beebo_scale.surrogates.products.coded import over_products
from beebo_scale.surrogates.products.contraction import Contraction, index_of

from ...product_cases import LISTS, encoded_lists, rows_of, surrogate


def whole(lists):
    """All rows of a product, encoded."""
    index = torch.cartesian_prod(*[torch.arange(len(own)) for own in lists])
    return torch.cat([own[at] for own, at in zip(lists, index.unbind(-1), strict=True)], dim=-1)


@pytest.mark.parametrize("kind", ["exact", "svgp"])
def test_moments_over_codes_are_those_over_rows(kind):
    own = surrogate(kind=kind)
    lists, posterior = encoded_lists(own), own.posterior()
    over = over_products(posterior, lists)
    rows = torch.tensor([0, 3, 17, 100, 239])
    X, codes = whole(lists)[rows], over.codes(index_of(rows, [len(o) for o in lists]))
    torch.testing.assert_close(over.posterior.mean(codes), posterior.mean(X))
    torch.testing.assert_close(over.posterior.covar(codes), posterior.covar(X))
    more = over.posterior.augment(codes[:2])
    torch.testing.assert_close(more.variance(codes), posterior.augment(X[:2]).variance(X))


@pytest.mark.parametrize(("wide", "tile"), [(1024, 1 << 22), (1, 1 << 22), (1024, 16), (1, 4)])
def test_means_of_all_products_by_contraction(monkeypatch, wide, tile):
    monkeypatch.setattr(contraction, "WIDE", wide)
    monkeypatch.setattr(contraction, "TILE", tile)
    own = surrogate()
    lists = encoded_lists(own)
    tiles = Contraction(over_products(own.posterior(), lists))
    expected = own.posterior().mean(whole(lists))
    found = torch.full_like(expected, torch.nan)
    for i in range(tiles.count):
        means = tiles.means(i)
        places = torch.ones_like(means, dtype=torch.bool).nonzero()
        found[tiles.rows(i, places)] = means.flatten()
    torch.testing.assert_close(found, expected)
    assert float((found - expected).abs().max()) <= tiles.slack


def test_a_root_of_low_rank_is_exact_where_asked_and_never_too_small():
    own = surrogate()
    lists = encoded_lists(own)
    over = over_products(own.posterior(), lists)
    X = over.codes(index_of(torch.arange(240), [len(o) for o in lists]))
    exact, rough = over.posterior.variance(X), over.posterior.compress_at(X[:12]).variance(X)
    torch.testing.assert_close(rough[:12], exact[:12])
    assert float((rough - exact).min()) > -1e-10
    assert float((rough - exact).max()) > 1e-6


def test_other_kernels_are_refused():
    own = surrogate(combine="product")
    with pytest.raises(InputError, match="--combine combinations"):
        over_products(own.posterior(), encoded_lists(own))


def test_a_surrogate_of_combinations_is_saved_and_warms_the_next(tmp_path):
    own = surrogate()
    own.save(tmp_path / "m.ckpt")
    again = bs.load_surrogate(tmp_path / "m.ckpt")
    X = whole(encoded_lists(own))[:50]
    torch.testing.assert_close(again.posterior().mean(X), own.posterior().mean(X))
    assert surrogate(warm_start=again).design.combine == "combinations"
    with pytest.raises(InputError, match="kernel of combinations"):
        surrogate(warm_start=again, combine="product")


@pytest.mark.slow
def test_the_likelihood_chooses():
    chosen = surrogate(combine="likelihood").design.combine
    report = {c: surrogate(combine=c).report.log_likelihood for c in ("product", "combinations")}
    assert chosen == max(report, key=report.get)
    assert rows_of(LISTS)["y"].std() > 0
