"""Numbers of the reference implementation (golden/README.md)."""

import json
from pathlib import Path

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from beebo_scale import BatchedEnergyEntropy, MeanEnergy, information_gain
from beebo_scale.energy import SoftmaxEnergy
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess, exact_posterior
from tests.helpers import close

FILES = sorted((Path(__file__).parent / "golden").glob("*.json"))


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def golden(request):
    return json.loads(request.param.read_text())


@pytest.fixture(scope="module")
def posterior(golden):
    d = len(golden["lengthscale"])
    base = MaternKernel(nu=2.5, ard_num_dims=d) if golden["kernel"] == "matern52" else RBFKernel(ard_num_dims=d)
    gp = GaussianProcess(ScaleKernel(base))
    base.lengthscale = tensor(golden["lengthscale"])
    gp.kernel.outputscale = tensor(golden["outputscale"])
    gp.mean.constant = tensor(golden["mean_constant"])
    gp.likelihood.noise = tensor(golden["noise"])
    return exact_posterior(gp, merge_replicates(tensor(golden["train_X"]), tensor(golden["train_Y"])))


def test_all_files_are_there():
    assert len(FILES) == 3


def test_posterior(golden, posterior):
    mean, covar = posterior.mean_and_covar(tensor(golden["X"]))
    close(mean, tensor(golden["posterior_mean"]), rtol=1e-9, atol=1e-10)
    close(covar, tensor(golden["posterior_covar"]), rtol=1e-8, atol=1e-10)


def test_information_gain(golden, posterior):
    I = information_gain(posterior.covar(tensor(golden["X"])), golden["noise"])
    close(I, tensor(golden["information_gain"]), rtol=1e-6, atol=0)


def test_mean_beebo_and_its_gradient(golden, posterior):
    assert len({case["scaled_temperature"] for case in golden["mean_beebo"]}) > 2
    for case in golden["mean_beebo"]:
        acqf = BatchedEnergyEntropy(posterior, temperature=case["scaled_temperature"], energy=MeanEnergy())
        X = tensor(golden["X"]).requires_grad_()
        value = acqf(X)
        (grad,) = torch.autograd.grad(value.sum(), X)
        close(value, tensor(case["value"]), rtol=1e-6, atol=0)
        expected = tensor(case["grad"])
        close(grad, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()))


def softmax(case):
    """The paper's form, to which the numbers belong."""
    return SoftmaxEnergy(beta=case["softmax_beta"], f_max=case["f_max"], alpha=case["alpha"], normalised=False)


def test_max_beebo_and_its_gradient(golden, posterior):
    assert {case["f_max"] is None for case in golden["max_beebo"]} == {True, False}
    for case in golden["max_beebo"]:
        acqf = BatchedEnergyEntropy(posterior, temperature=case["scaled_temperature"], energy=softmax(case))
        X = tensor(golden["X"]).requires_grad_()
        value = acqf(X)
        (grad,) = torch.autograd.grad(value.sum(), X)
        close(value, tensor(case["value"]), rtol=1e-8, atol=0)
        expected = tensor(case["grad"])
        close(grad, expected, rtol=1e-8, atol=1e-8 * float(expected.abs().max()))


def test_softmax_energy(golden):
    mean, covar = tensor(golden["posterior_mean"]), tensor(golden["posterior_covar"])
    for case in golden["max_beebo"]:
        energy = softmax(case)(mean, covar, golden["outputscale"]) / mean.shape[-1]
        close(energy, tensor(case["energy"]), rtol=1e-8, atol=1e-9)


def test_effective_points(golden):
    counted = [case for case in golden["max_beebo"] if "effective_points" in case]
    assert len(counted) == 2
    for case in counted:
        points = softmax(case).effective_points(tensor(golden["posterior_mean"]), golden["outputscale"])
        close(points, tensor(case["effective_points"]), rtol=1e-8, atol=0)


def test_softmax_energy_is_near_monte_carlo(golden):
    mean, covar = tensor(golden["posterior_mean"]), tensor(golden["posterior_covar"])
    sd = covar.diagonal(dim1=-2, dim2=-1).amax(-1).sqrt()  # b
    simulated = [case for case in golden["max_beebo"] if "monte_carlo_energy" in case]
    assert len(simulated) == 2
    for case in simulated:
        assert (case["softmax_beta"] * sd <= 1).all()
        energy = softmax(case)(mean, covar, golden["outputscale"]) / mean.shape[-1]
        error = (energy - tensor(case["monte_carlo_energy"])).abs()
        assert (error <= 5 * tensor(case["monte_carlo_stderr"]) + 1e-2 * sd).all()
