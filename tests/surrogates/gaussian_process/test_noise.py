import copy
import pickle

import pytest
import torch

from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise, LearnedNoise, TaskNoise
from tests.helpers import close, exact_toy, sparse_toy, uniform

SHAPES = [(4,), (2, 4), (3, 2, 4)]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def learned(make=exact_toy):
    return LearnedNoise(make(seed=5, constant=-2.0).posterior)


ALL = {
    "constant": lambda: ConstantNoise(tensor(0.3)),
    "by task": lambda: TaskNoise(tensor([0.1, 0.2, 0.3]), column=0),
    "learned": learned,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_constant(shape):
    close(ConstantNoise(tensor(0.3))(uniform(*shape, 2)), torch.full(shape, 0.3, dtype=torch.float64), rtol=0, atol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("column", [0, 1, -1])
def test_by_task(shape, column):
    X, task = uniform(*shape, 3), (3 * uniform(*shape, seed=1)).floor()
    X[..., column] = task + 1e-9  # a task index that went through arithmetic
    variance = tensor([0.1, 0.2, 0.3])
    assert torch.equal(TaskNoise(variance, column)(X), variance[task.long()])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
def test_learned(shape, make):
    toy, X = make(seed=5, constant=-2.0), uniform(*shape, 2)
    close(LearnedNoise(toy.posterior)(X), toy.mean(X).exp())


def test_learned_noise_is_differentiable_in_x():
    assert torch.autograd.gradcheck(learned(), uniform(2, 3, 2).requires_grad_())


def test_learned_noise_is_above_zero_wherever_it_is_asked_for():
    X = torch.cat([uniform(20, 2), 1e3 * uniform(20, 2)])
    sigma2 = learned()(X)
    assert bool((sigma2 > 0).all())
    close(sigma2[20:], torch.full((20,), -2.0, dtype=torch.float64).exp())  # far away: what the prior says


@pytest.mark.parametrize("name", ALL)
def test_another_number_format_and_back(name):
    noise, X = ALL[name](), uniform(4, 2)
    single = noise.to(torch.float32)
    assert single(X.float()).dtype == torch.float32
    close(single(X.float()).double(), noise(X), rtol=1e-4)
    assert single.to(torch.float64)(X).dtype == torch.float64
    assert noise(X).dtype == torch.float64  # the original stays


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda noise: pickle.loads(pickle.dumps(noise))])
def test_copies(name, copied):
    noise, X = ALL[name](), uniform(4, 2)
    assert torch.equal(copied(noise)(X), noise(X))


@pytest.mark.parametrize("name", ALL)
def test_only_learned_noise_has_a_gradient(name):
    X = uniform(4, 2).requires_grad_()
    sigma2 = ALL[name]()(X)
    assert sigma2.requires_grad == (name == "learned")
