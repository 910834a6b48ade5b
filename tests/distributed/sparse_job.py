"""Everything about sparse surrogates that workers share."""

import torch

from beebo_scale.kernels.stationary import freeze
from beebo_scale.linalg.partition import divided
from beebo_scale.surrogates.approximate.blocks.fit import Rows, added
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.sgpr import fit_sgpr, sgpr_bound, sgpr_posterior
from beebo_scale.surrogates.approximate.svgp import SVGP, fit_svgp
from beebo_scale.workers import Workers
from tests.helpers import uniform
from tests.surrogates.gaussian_process.test_gaussian_process import smooth, start

CHUNK = 32


def results() -> dict[str, object]:
    """The same on every worker, whatever their number."""
    gp, data = start(), smooth(150)  # five chunks, the last one short
    Z = select_inducing_points(gp.kernel, data.X, 20).requires_grad_()
    value = sgpr_bound(gp, Z, data, chunk=CHUNK)
    slopes = torch.autograd.grad(value, [*gp.parameters(), Z])
    report = fit_sgpr(gp, Z.requires_grad_(False), data, maxiter=15, chunk=CHUNK)
    posterior = sgpr_posterior(gp, Z, data, chunk=CHUNK)
    X = uniform(10, 2, seed=5)
    found = {"value": value.detach(), "slopes": [s.detach() for s in slopes], "bound": report.log_likelihood}
    found |= {"iterations": report.iterations, "mean": posterior.mean(X), "covar": posterior.covar(X)}
    model = SVGP(start(), Z, len(data))
    found["trained"] = fit_svgp(model, data, epochs=2, batch_size=50).log_likelihood
    return found | blocks(X)


def blocks(X: torch.Tensor) -> dict[str, object]:
    """Sums and posterior of blocks that the workers share out."""
    gp, data = start(), smooth(150)
    partition = divided(freeze(gp.kernel), lambda rows: data.X[rows], len(data), 20)
    rows = Rows.of(gp, data.X[:20], partition, data)
    sums = added(rows, Workers.current())
    found = {"A": sums.A, "c": sums.c, "likelihood of blocks": torch.tensor(sums.log_likelihood)}
    return found | {"mean of blocks": rows.posterior(sums).mean(X)}


def natural_step(rank: int, world: int) -> torch.Tensor:
    """P after a step on 40 rows, cut among the workers."""
    gp, data = start(), smooth(40)
    model = SVGP(gp, data.X[:10], len(data))
    model.elbo(data.take(torch.arange(rank, 40, world)))
    model.natural_step(0.3)
    return model.P
