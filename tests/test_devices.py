"""Every tensor that is made lies where its inputs lie.

Without a second device, tensors that are made without a word about where they lie are put on one that holds no numbers
("meta"): mixing one of these with real ones is an error. Where there is a GPU, the same computations run on it and must
agree with those on the CPU.
"""

import pytest
import torch
from torch.overrides import TorchFunctionMode

from beebo_scale import BatchedEnergyEntropy, BoxSearch, SoftmaxEnergy, information_gain
from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.kernels.stationary import freeze
from beebo_scale.linalg.partition import divided
from beebo_scale.proposal.box.ascent import climb
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.library.lazy_greedy import greedy
from beebo_scale.surrogates.approximate.blocks.fit import Rows, added
from beebo_scale.surrogates.approximate.blocks.sizes import gain_of_larger
from beebo_scale.surrogates.approximate.gain_error import blocks_gain_error
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.love import LoveOptions, love_posterior
from beebo_scale.surrogates.approximate.sgpr import sgpr_posterior
from beebo_scale.surrogates.approximate.svgp import SVGP, fit_svgp
from beebo_scale.surrogates.data.observations import Observations, merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess, exact_posterior
from tests.helpers import exact_toy, sparse_toy, uniform

pytestmark = pytest.mark.gpu
FACTORIES = (torch.eye, torch.zeros, torch.ones, torch.full, torch.empty, torch.arange, torch.linspace)
D = 3


class Elsewhere(TorchFunctionMode):
    """Puts what is made without a device on one that holds no numbers."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in FACTORIES and "device" not in kwargs:
            kwargs["device"] = "meta"
        return function(*args, **kwargs)


def gaussian_process():
    return GaussianProcess(screen_kernel({"a": "continuous", "b": "continuous"}, {"a": slice(0, 1), "b": slice(1, D)}))


def measured():
    X = uniform(60, D)
    return merge_replicates(X, torch.sin(4 * X).sum(-1))


def to(data, device):
    return Observations(*(None if part is None else part.to(device) for part in vars(data).values()))


def acquisition(posterior, X):
    X = X.requires_grad_(True)
    value = BatchedEnergyEntropy(posterior, 0.5)(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    softmax = BatchedEnergyEntropy(posterior, 0.5, SoftmaxEnergy())(X.detach())
    return value.detach(), gradient, softmax


def conditioned(posterior, X):
    more = posterior.augment(X[0], 0.1, torch.ones_like(X[0, :, 0]))
    less = more.compress(5)
    return more.mean(X), more.covar(X), less.variance(X), information_gain(less.covar(X), less.noise(X))


def chosen(posterior, X):
    index, gain = greedy(posterior, X.flatten(0, 1), 6, 0.5)
    return X.flatten(0, 1)[index], gain


def moved(posterior, X):
    bounds = torch.stack([torch.zeros_like(X[0, 0]), torch.ones_like(X[0, 0])])
    return climb(BatchedEnergyEntropy(posterior, 0.5), X, Space(bounds), BoxSearch(steps=5))


READERS = (acquisition, conditioned, chosen, moved)


def exact(gp, data):
    return exact_posterior(gp, data)


def love(gp, data):
    posterior, _ = love_posterior(gp, data, LoveOptions(rank=40))
    return posterior


def iterated(gp, data):
    """With a preconditioner of several blocks, in float32."""
    posterior, report = love_posterior(gp, data, LoveOptions(rank=40, mean_tolerance=1e-9, block=10))
    assert report.cg_iterations > 1
    return posterior


def sgpr(gp, data):
    return sgpr_posterior(gp, select_inducing_points(gp.kernel, data.X, 12), data)


def svgp(gp, data):
    model = SVGP(gp, select_inducing_points(gp.kernel, data.X, 12), len(data)).to(data.X.device)
    fit_svgp(model, data, epochs=2, batch_size=20)
    return model.posterior()


def blocks(gp, data):
    rows = Rows.of(gp, data.X[:12], divided(freeze(gp.kernel), lambda i: data.X[i], len(data), 15), data)
    posterior = rows.posterior(added(rows))
    assert blocks_gain_error(posterior, rows.gp, data)[0] > -0.5
    assert gain_of_larger(posterior, added(rows)) > 0
    return posterior


def devices():
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def agree(actual, expected, tolerance=1e-9):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other.cpu(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("toy", [exact_toy, sparse_toy])
@pytest.mark.parametrize("read", READERS)
def test_what_reads_a_posterior(read, toy, device):
    posterior, X = toy(d=D).posterior, uniform(2, 4, D, seed=3)
    expected = read(posterior, X)
    with Elsewhere():
        agree(read(posterior.to(device), X.to(device)), expected)


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("build", [exact, love, iterated, sgpr, svgp, blocks])
def test_what_builds_a_posterior(build, device):
    X, data, gp = uniform(2, 4, D, seed=3), measured(), gaussian_process()
    posterior = build(gaussian_process(), data)
    gp.to(device)
    there = to(data, device)
    with Elsewhere():
        other = build(gp, there)
        agree([other.mean(X.to(device)), other.covar(X.to(device))], [posterior.mean(X), posterior.covar(X)], 1e-6)
        adapted = other.adapt(X.to(device))
        reads = [read(other, X.to(device)) for read in (acquisition, chosen)]
    agree([adapted.covar(X.to(device))], [posterior.adapt(X).covar(X)], 1e-6)
    for read, found in zip((acquisition, chosen), reads, strict=True):
        agree(found, read(posterior, X), 1e-5)
