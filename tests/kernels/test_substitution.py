import math

import pytest
import torch

from beebo_scale.kernels.screen import exchange_kernel, substitution_kernel
from beebo_scale.kernels.stationary import freeze
from beebo_scale.kernels.substitution import LETTERS, SubstitutionKernel, chemical_distances
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess

LETTER = {letter: code for code, letter in enumerate("ACDEFGHIKLMNPQRSTVWY")}


def kernel_of(sites=3, logit=0.7):
    kernel = substitution_kernel(range(sites)).double()
    kernel.lengthscale = torch.linspace(0.5, 3.0, sites, dtype=torch.float64)
    with torch.no_grad():
        kernel.logit_similarity.fill_(logit)
    return kernel.requires_grad_(False)


def letters(n, sites=3, seed=0):
    return torch.randint(LETTERS, (n, sites), generator=torch.Generator().manual_seed(seed)).double()


def test_distances_know_chemistry():
    D = chemical_distances()
    assert torch.equal(D, D.mT)
    assert (D.diagonal() == 0).all()
    assert float(D.sum()) == pytest.approx(LETTERS * (LETTERS - 1))
    D.fill_diagonal_(torch.inf)
    nearest = {a: "ACDEFGHIKLMNPQRSTVWY"[int(D[LETTER[a]].argmin())] for a in "IVDKF"}
    assert nearest["I"] == "L"
    assert nearest["V"] in "IL"
    assert nearest["D"] in "EN"
    assert nearest["F"] in "YW"
    assert float(D[LETTER["I"], LETTER["L"]]) < 0.2 < 1.0 < float(D[LETTER["W"], LETTER["D"]])


def test_values_are_those_of_the_formula():
    kernel, X, Y = kernel_of(), letters(6), letters(5, seed=1)
    D, w = chemical_distances(), float(kernel.similarity)
    K = kernel(X, Y).to_dense()
    for i in range(6):
        for j in range(5):
            exponent = 0.0
            for s in range(3):
                a, b = int(X[i, s]), int(Y[j, s])
                exponent += ((1 - w) * (a != b) + w * float(D[a, b])) / float(kernel.lengthscale[0, s])
            assert float(K[i, j]) == pytest.approx(math.exp(-exponent), rel=1e-12)
    assert torch.equal(kernel(X, X, diag=True), torch.ones(6, dtype=torch.float64))
    assert torch.allclose(K.diagonal(), kernel(X[:5], Y, diag=True), rtol=1e-14)


def test_batches_of_inputs():
    kernel, X, Y = kernel_of(), letters(6).reshape(2, 3, 3), letters(4, seed=1)
    K = kernel(X, Y).to_dense()
    assert K.shape == (2, 3, 4)
    assert torch.equal(K[1], kernel(X[1], Y).to_dense())


@pytest.mark.parametrize("logit", [-torch.inf, 0.0, 8.0])
def test_positive_definite_for_every_weight(logit):
    every = torch.cartesian_prod(*[torch.arange(LETTERS)] * 2).double()  # all 400 pairs of letters
    least = torch.linalg.eigvalsh(kernel_of(2, logit)(every, every).to_dense()).min()
    assert float(least) > -1e-10


def test_without_chemistry_it_is_the_exchange_kernel_and_reads_its_files():
    old = exchange_kernel(range(3)).double().requires_grad_(False)
    old.lengthscale = torch.tensor([0.4, 1.0, 2.5], dtype=torch.float64)
    new, X = kernel_of(), letters(20)
    new.load_state_dict(old.state_dict())
    assert float(new.similarity) == 0
    assert torch.allclose(new(X, X).to_dense(), old(X, X).to_dense(), rtol=1e-14, atol=0)
    again = kernel_of(logit=-3.0)
    again.load_state_dict(kernel_of(logit=0.7).state_dict())
    assert float(again.logit_similarity) == pytest.approx(0.7)


def test_gradients():
    kernel, X, Y = kernel_of(), letters(4), letters(3, seed=1)
    names = ["raw_lengthscale", "logit_similarity"]

    def value(*parameters):
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(kernel, state, (X, Y), tie_weights=False).to_dense()

    parameters = [getattr(kernel, name).detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(value, parameters)


def test_a_frozen_copy_is_the_same_and_has_no_prior():
    kernel, X = kernel_of(), letters(5)
    frozen = freeze(kernel)
    assert torch.equal(frozen(X, X).to_dense(), kernel(X, X).to_dense())
    assert not list(frozen.named_priors())
    assert not any(p.requires_grad for p in frozen.parameters())


def test_the_weight_has_a_prior():
    gp = GaussianProcess(substitution_kernel([0, 1]))
    before = float(gp.log_prior().detach())
    assert isinstance(gp.kernel, SubstitutionKernel)
    with torch.no_grad():
        gp.kernel.logit_similarity.fill_(3.0)
    assert before - float(gp.log_prior().detach()) == pytest.approx(0.5 * (3.0 / 1.5) ** 2)
