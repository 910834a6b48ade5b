import copy
import math
import pickle

import pytest
import torch
from gpytorch.kernels import (
    Kernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)

from beebo_scale.kernels.stationary import StationaryKernel, freeze, gram, live_gram
from tests.helpers import close, normal, uniform

NU = [0.5, 1.5, 2.5, math.inf]


def stationary(nu, lengthscale=(0.3, 0.7, 1.1), active_dims=None, outputscale=None) -> Kernel:
    """A gpytorch kernel in float64; hyperparameters as tensors, since a float would pass through float32."""
    lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    options = {"ard_num_dims": len(lengthscale) if len(lengthscale) > 1 else None, "active_dims": active_dims}
    kernel = (RBFKernel(**options) if nu == math.inf else MaternKernel(nu=nu, **options)).double()
    kernel.lengthscale = lengthscale
    if outputscale is not None:
        kernel = ScaleKernel(kernel).double()
        kernel.outputscale = torch.tensor(outputscale, dtype=torch.float64)
    return kernel


def formula(kernel, X1, X2):
    """The same from the textbook: distances by differences, nothing shared with the code."""
    outputscale = float(kernel.outputscale.detach()) if isinstance(kernel, ScaleKernel) else 1.0
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    if kernel.active_dims is not None:
        X1, X2 = X1[..., kernel.active_dims], X2[..., kernel.active_dims]
    r = ((X1.unsqueeze(-2) - X2.unsqueeze(-3)) / base.lengthscale.detach().squeeze()).norm(dim=-1)
    if isinstance(base, RBFKernel):
        return outputscale * torch.exp(-r.square() / 2)
    s = math.sqrt(2 * base.nu) * r
    polynomial = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s.square() / 3}[base.nu]
    return outputscale * polynomial * torch.exp(-s)


def gradients(kernel, X1, X2, direction):
    X1, X2 = X1.clone().requires_grad_(), X2.clone().requires_grad_()
    K = kernel(X1, X2) if callable(kernel) and not isinstance(kernel, Kernel) else gram(kernel, X1, X2)
    return torch.autograd.grad((K * direction).sum(), (X1, X2))


# --- values and gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize("outputscale", [None, 1.7, 1e-12, 1e12])
@pytest.mark.parametrize("lengthscale", [(0.5,), (0.3, 0.7, 1.1), (30.0, 0.05, 1.0)])
def test_values_are_those_of_gpytorch_and_of_the_formula(nu, outputscale, lengthscale):
    kernel = stationary(nu, lengthscale, outputscale=outputscale)
    frozen = freeze(kernel)
    assert isinstance(frozen, StationaryKernel)
    X1, X2 = uniform(6, 3, seed=1), uniform(9, 3, seed=2)
    A = outputscale or 1.0
    close(gram(frozen, X1, X2), formula(kernel, X1, X2), rtol=1e-12, atol=1e-13 * A)
    close(gram(frozen, X1, X2), gram(kernel, X1, X2).detach(), rtol=1e-12, atol=1e-12 * A)
    close(frozen(X1, diag=True), torch.full((6,), A, dtype=torch.float64), rtol=1e-14, atol=0)
    close(gram(frozen, X1, X1).diagonal(), frozen(X1, diag=True), rtol=1e-13, atol=0)


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize("outputscale", [None, 1.7])
def test_gradients_are_those_of_the_formula(nu, outputscale):
    kernel = stationary(nu, outputscale=outputscale)
    X1, X2, direction = uniform(6, 3, seed=1), uniform(9, 3, seed=2), normal(6, 9)
    ours = gradients(freeze(kernel), X1, X2, direction)
    theirs = gradients(lambda a, b: formula(kernel, a, b), X1, X2, direction)
    close(ours[0], theirs[0], rtol=1e-12, atol=1e-12)
    close(ours[1], theirs[1], rtol=1e-12, atol=1e-12)
    through_gpytorch = gradients(kernel, X1, X2, direction)
    close(ours[0], through_gpytorch[0], rtol=1e-10, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize(
    "shapes", [((4, 3), (5, 3)), ((2, 4, 3), (5, 3)), ((4, 3), (2, 5, 3)), ((2, 1, 4, 3), (3, 5, 3))]
)
def test_gradcheck_with_batches_broadcast_on_either_side(nu, shapes):
    frozen = freeze(stationary(nu, outputscale=1.3))
    X1, X2 = uniform(*shapes[0], seed=1).requires_grad_(), uniform(*shapes[1], seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: gram(frozen, a, b), (X1, X2))


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize(
    "shapes", [((4, 3), (2, 5, 3)), ((2, 4, 3), (5, 3)), ((2, 1, 4, 3), (3, 5, 3)), ((0, 3), (5, 3))]
)
def test_batches_are_what_their_parts_are(nu, shapes):
    kernel = stationary(nu, outputscale=1.3)
    X1, X2 = uniform(*shapes[0], seed=1), uniform(*shapes[1], seed=2)
    close(gram(freeze(kernel), X1, X2), formula(kernel, X1, X2), rtol=1e-12, atol=1e-13)


def test_a_gradient_of_one_side_only():
    kernel = stationary(2.5)
    X1, X2 = uniform(6, 3, seed=1), uniform(9, 3, seed=2)
    for left in (True, False):
        leaf = (X1 if left else X2).clone().requires_grad_()
        K = gram(freeze(kernel), leaf, X2) if left else gram(freeze(kernel), X1, leaf)
        expected = formula(kernel, leaf, X2) if left else formula(kernel, X1, leaf)
        close(torch.autograd.grad(K.sum(), leaf)[0], torch.autograd.grad(expected.sum(), leaf)[0], rtol=1e-11)


@pytest.mark.parametrize("nu", NU)
def test_self_covariance_has_the_gradient_of_both_sides(nu):
    frozen = freeze(stationary(nu))
    G = normal(5, 5)
    X = uniform(5, 3, seed=1).requires_grad_()
    (ours,) = torch.autograd.grad((gram(frozen, X, X) * G).sum(), X)
    left, right = gradients(frozen, X.detach(), X.detach(), G)
    close(ours, left + right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nu", NU)
def test_diagonal_of_two_different_sets(nu):
    kernel = stationary(nu, outputscale=1.3)
    for shape in [(6, 3), (2, 6, 3)]:
        X1, X2 = uniform(*shape, seed=1), uniform(*shape, seed=2)
        expected = formula(kernel, X1, X2).diagonal(dim1=-2, dim2=-1)
        close(freeze(kernel)(X1, X2, diag=True), expected, rtol=1e-12, atol=1e-13)
        X1.requires_grad_()
        (grad,) = torch.autograd.grad(freeze(kernel)(X1, X2, diag=True).sum(), X1)
        reference = formula(kernel, X1, X2).diagonal(dim1=-2, dim2=-1).sum()
        close(grad, torch.autograd.grad(reference, X1)[0], rtol=1e-11)


def outer_dims(active_dims):
    """active_dims of the ScaleKernel alone, the base none the wiser."""
    kernel = ScaleKernel(stationary(2.5, (0.3, 0.7, 1.1)[: len(active_dims)]), active_dims=active_dims).double()
    kernel.outputscale = torch.tensor(1.3, dtype=torch.float64)
    return kernel


@pytest.mark.parametrize("active_dims", [(0,), (2, 0), (1, 2, 3)])
@pytest.mark.parametrize("make", ["plain", "scaled", "outer"])
def test_active_dims(active_dims, make):
    lengthscale = (0.3, 0.7, 1.1)[: len(active_dims)]
    outputscale = None if make == "plain" else 1.3
    kernel = outer_dims(active_dims) if make == "outer" else stationary(2.5, lengthscale, active_dims, outputscale)
    X1, X2 = uniform(6, 4, seed=1), uniform(2, 9, 4, seed=2)
    frozen = freeze(kernel)
    assert isinstance(frozen, StationaryKernel)
    close(gram(frozen, X1, X2), gram(kernel, X1, X2).detach(), rtol=1e-12, atol=1e-13)
    close(frozen(X1, diag=True), torch.full((6,), outputscale or 1.0, dtype=torch.float64), rtol=1e-14)
    G = normal(6, 9)
    close(
        gradients(frozen, X1, X2[0], G)[0],
        gradients(lambda a, b: formula(kernel, a, b), X1, X2[0], G)[0],
        rtol=1e-11,
    )


# --- numerics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_coincident_points_have_full_correlation_and_no_gradient(nu, offset):
    X = offset + uniform(4, 3, seed=1)
    kernel = stationary(nu, outputscale=1.3)
    frozen = freeze(kernel)
    K = gram(frozen, X, X)
    close(K.diagonal(), torch.full((4,), 1.3, dtype=torch.float64), rtol=1e-13, atol=0)
    eye = torch.eye(4, dtype=torch.float64)
    for grad in gradients(frozen, X, X, eye):
        close(grad, torch.zeros_like(grad), atol=1e-12)
    for grad in gradients(frozen, X, X, torch.ones_like(eye)):
        assert bool(torch.isfinite(grad).all())
    repeated = torch.cat([X, X[:2]])
    close(gram(frozen, repeated, X), formula(kernel, repeated, X), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("nu", NU)
def test_nearly_coincident_points(nu):
    kernel = stationary(nu)
    X = uniform(4, 3, seed=1)
    near = X + 1e-7 * normal(4, 3, seed=2)
    close(gram(freeze(kernel), X, near), formula(kernel, X, near), rtol=1e-12, atol=1e-12)
    ours = gradients(freeze(kernel), X, near, torch.eye(4, dtype=torch.float64))
    theirs = gradients(lambda a, b: formula(kernel, a, b), X, near, torch.eye(4, dtype=torch.float64))
    close(ours[0], theirs[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("nu", NU)
def test_far_from_the_origin_as_well_as_near(nu):
    kernel = stationary(nu)
    X1, X2 = uniform(6, 3, seed=1), uniform(9, 3, seed=2)
    far1, far2 = X1 + 1e6, X2 + 1e6
    expected = formula(kernel, far1, far2)
    close(gram(freeze(kernel), far1, far2), expected, rtol=1e-12, atol=1e-12)
    close(gram(freeze(kernel), far1, far2), formula(kernel, X1, X2), rtol=1e-7, atol=1e-7)  # 1e6 takes ten digits
    G = normal(6, 9)
    theirs = gradients(lambda a, b: formula(kernel, a, b), far1, far2, G)
    close(gradients(freeze(kernel), far1, far2, G)[0], theirs[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("nu", NU)
def test_one_side_far_away_is_uncorrelated(nu):
    X1, X2 = uniform(2, 3, seed=1).requires_grad_(), 1e5 + uniform(3, 3, seed=2)
    K = gram(freeze(stationary(nu)), X1, X2)
    assert bool((K == 0).all())
    assert bool((torch.autograd.grad(K.sum(), X1)[0] == 0).all())


@pytest.mark.parametrize("nu", NU)
def test_float32(nu):
    kernel = stationary(nu, outputscale=1.3)
    X1, X2 = uniform(6, 3, seed=1), uniform(9, 3, seed=2)
    frozen = freeze(copy.deepcopy(kernel).float())
    assert gram(frozen, X1.float(), X2.float()).dtype == torch.float32
    assert frozen(X1.float(), diag=True).dtype == torch.float32
    close(gram(frozen, X1.float(), X2.float()).double(), formula(kernel, X1, X2), rtol=1e-5, atol=1e-5)
    moved = freeze(kernel).float()
    close(gram(moved, X1.float(), X2.float()).double(), formula(kernel, X1, X2), rtol=1e-5, atol=1e-5)
    close(gram(moved.double(), X1, X2), formula(kernel, X1, X2), rtol=1e-6, atol=1e-6)
    grad = gradients(frozen, X1.float(), X2.float(), normal(6, 9).float())[0]
    theirs = gradients(lambda a, b: formula(kernel, a, b), X1, X2, normal(6, 9))[0]
    close(grad.double(), theirs, rtol=1e-3, atol=1e-4)


# --- a copy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda kernel: pickle.loads(pickle.dumps(kernel))])
@pytest.mark.parametrize("active_dims", [None, (0, 2, 1)])
def test_copies_are_the_same_kernel(copied, active_dims):
    frozen = freeze(stationary(2.5, active_dims=active_dims, outputscale=1.3))
    X1, X2 = uniform(6, 3, seed=1), uniform(9, 3, seed=2)
    assert torch.equal(gram(copied(frozen), X1, X2), gram(frozen, X1, X2))


UNKNOWN = {
    "rational quadratic": RQKernel,
    "periodic": PeriodicKernel,
    "linear": LinearKernel,
    "scaled rational quadratic": lambda: ScaleKernel(RQKernel()),
    "sum": lambda: RBFKernel() + MaternKernel(nu=1.5),
    "product": lambda: ProductKernel(RBFKernel(active_dims=(0,)), MaternKernel(nu=2.5, active_dims=(1, 2))),
    "scaled twice": lambda: ScaleKernel(ScaleKernel(RBFKernel())),
    "a subclass": lambda: type(
        "Warped", (RBFKernel,), {"forward": lambda s, a, b, **p: RBFKernel.forward(s, a.sin(), b.sin(), **p)}
    )(),
    "a batch of hyperparameters": lambda: RBFKernel(batch_shape=torch.Size([2])),
    "a batch of outputscales": lambda: ScaleKernel(RBFKernel(), batch_shape=torch.Size([2])),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_kernels_are_copied_as_they_are(name):
    kernel = UNKNOWN[name]().double()
    frozen = freeze(kernel)
    assert type(frozen) is type(kernel)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert all(parameter.requires_grad for parameter in kernel.parameters())
    X1, X2 = uniform(6, 3, seed=1), uniform(9, 3, seed=2)
    close(gram(frozen, X1, X2), gram(kernel, X1, X2).detach(), rtol=1e-13)


@pytest.mark.parametrize("nu", NU)
def test_a_frozen_kernel_is_on_its_own(nu):
    kernel = stationary(nu, outputscale=1.3)
    frozen = freeze(kernel)
    X1, X2 = uniform(6, 3, seed=1).requires_grad_(), uniform(9, 3, seed=2)
    K = gram(frozen, X1, X2)
    K.sum().backward()
    assert all(parameter.grad is None for parameter in kernel.parameters())
    assert list(frozen.parameters()) == []
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter.add_(0.5)
    assert torch.equal(gram(frozen, X1, X2), K)
    assert not torch.equal(gram(kernel, X1, X2), K)


# --- live hyperparameters ----------------------------------------------------------------------------------


def mixed():
    parts = [
        stationary(2.5, (0.3, 0.7), (1, 3), outputscale=0.8),
        stationary(0.5, (0.4,), (2,)),
        RQKernel(active_dims=(0,)).double(),
        ScaleKernel(RQKernel(active_dims=(3,))).double(),
    ]
    return ScaleKernel(ProductKernel(parts[0] + parts[1], parts[2])).double() + parts[3]


LIVE = {
    **{f"{nu}": lambda nu=nu: stationary(nu, (0.3, 0.7, 1.1, 0.5)) for nu in NU},
    "active_dims": lambda: stationary(1.5, (0.3, 0.7), (3, 1)),
    "scaled active_dims": lambda: stationary(1.5, (0.3, 0.7), (3, 1), outputscale=1.3),
    "outer active_dims": lambda: outer_dims((3, 1)),
    "mixed": mixed,
}


@pytest.mark.parametrize("name", LIVE)
def test_live_kernels_are_those_of_gpytorch_with_all_gradients(name):
    kernel, G = LIVE[name](), normal(6, 9)
    X1, X2 = uniform(6, 4, seed=1).requires_grad_(), uniform(9, 4, seed=2).requires_grad_()
    leaves = [X1, X2, *kernel.parameters()]
    ours, theirs = live_gram(kernel, X1, X2), gram(kernel, X1, X2)
    close(ours.detach(), theirs.detach(), rtol=1e-12, atol=1e-12)
    for a, b in zip(*(torch.autograd.grad((K * G).sum(), leaves) for K in (ours, theirs)), strict=True):
        close(a, b, rtol=1e-9, atol=1e-10)
