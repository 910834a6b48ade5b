"""`posterior_of` against the models' own posteriors."""

import copy
import math
import pickle

import gpytorch
import pytest
import torch
from botorch.models import (
    KroneckerMultiTaskGP,
    MixedSingleTaskGP,
    ModelListGP,
    MultiTaskGP,
    PairwiseGP,
    SingleTaskGP,
    SingleTaskMultiFidelityGP,
    SingleTaskVariationalGP,
)
from botorch.models.likelihoods.sparse_outlier_noise import SparseOutlierGaussianLikelihood
from botorch.models.map_saas import AdditiveMapSaasSingleTaskGP, EnsembleMapSaasSingleTaskGP
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputPerturbation,
    InputStandardize,
    Log10,
    Normalize,
    Warp,
)
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    Power,
    Standardize,
    StratifiedStandardize,
)
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import (
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from gpytorch.likelihoods import (
    GaussianLikelihood,
    MultitaskGaussianLikelihood,
    StudentTLikelihood,
)
from gpytorch.means import ConstantMean, LinearMean
from gpytorch.mlls import VariationalELBO
from gpytorch.models import ApproximateGP, ExactGP
from gpytorch.priors import LogNormalPrior
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    CiqVariationalStrategy,
    DeltaVariationalDistribution,
    MeanFieldVariationalDistribution,
    UnwhitenedVariationalStrategy,
    VariationalStrategy,
)

from beebo_scale import BatchedEnergyEntropy, InputError, information_gain
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.surrogates.botorch_models import posterior_of
from tests.helpers import close, normal, uniform

pytestmark = [
    pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning"),
    pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.UserInputWarning"),
    # gpytorch's own task kernels go through sparse tensors
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]

X, Y = uniform(20, 3, seed=0), 3.0 + 2.0 * normal(20, 1, seed=1)
BATCHES = torch.cat([uniform(2, 5, 3, seed=2), 1.5 * uniform(1, 5, 3, seed=3)])  # the last partly outside the box


def hyperparameters(model, seed=0):
    """Move every parameter away from where it starts, within its constraint."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            step = torch.rand(parameter.shape, generator=generator, dtype=torch.float64).to(parameter)
            if "variational" not in name and "inducing" not in name:
                parameter.add_(0.3 * step)
    return model


def agree(model, X, rtol=1e-7, atol=1e-8, jitter=0.0):
    """Mean, covariance and variance as the model itself computes them, less its jitter; returns the posterior."""
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        expected = model.posterior(X)
    close(posterior.mean(X), expected.mean.squeeze(-1), rtol, atol)
    jitter *= torch.eye(X.shape[-2], dtype=X.dtype)
    close(posterior.covar(X), expected.distribution.covariance_matrix - jitter, rtol, atol)
    close(posterior.variance(X), expected.variance.squeeze(-1) - jitter.diagonal(), rtol, atol)
    return posterior


def jitter(model):
    """gpytorch adds it to the covariance of the points that it predicts, in standardised units; we do not."""
    strategy = getattr(model, "model", model).variational_strategy
    transform = getattr(model, "outcome_transform", None)
    return strategy.jitter_val * (1.0 if transform is None else transform.stdvs.item() ** 2)


# --- SingleTaskGP ------------------------------------------------------------------------------------------

INPUTS = {
    "none": lambda: None,
    "Normalize": lambda: Normalize(d=3),
    "Normalize of some": lambda: Normalize(d=3, indices=[0, 2]),
    "Normalize by bounds": lambda: Normalize(
        d=3, bounds=torch.tensor([[-1.0, 0, 0], [2.0, 3, 1]], dtype=torch.float64)
    ),
    "InputStandardize": lambda: InputStandardize(d=3),
    "Log10": lambda: Log10(indices=[1]),
    "Warp": lambda: Warp(d=3, indices=[0, 1, 2], batch_shape=torch.Size([])),
    "chain": lambda: ChainedInputTransform(a=Log10(indices=[1]), b=Normalize(d=3)),
}
OUTCOMES = {"none": lambda: None, "Standardize": lambda: Standardize(m=1)}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("known_noise", [False, True])
def test_single_task_gp(inputs, outcome, known_noise):
    noise = 0.05 + uniform(20, 1, seed=4) if known_noise else None
    model = SingleTaskGP(X, Y, noise, outcome_transform=OUTCOMES[outcome](), input_transform=INPUTS[inputs]())
    batches = BATCHES.clamp(0.01, 0.99) if inputs == "Warp" else BATCHES
    posterior = agree(hyperparameters(model), batches)
    if known_noise:
        expected = noise.mean().expand(3, 5)
    else:
        scale = model.outcome_transform.stdvs.item() if outcome == "Standardize" else 1.0
        expected = (model.likelihood.noise.detach() * scale**2).expand(3, 5)
    close(posterior.noise(batches), expected)
    with torch.no_grad():
        noisy = model.posterior(batches, observation_noise=True)
    close(posterior.variance(batches) + posterior.noise(batches), noisy.variance.squeeze(-1), 1e-7, 1e-8)


def scaled_matern(nu, **options):
    return ScaleKernel(MaternKernel(nu=nu, ard_num_dims=3, **options))


KERNELS = {
    "default": (lambda: None, True),
    "Matern-1/2": (lambda: MaternKernel(nu=0.5, ard_num_dims=3), True),
    "Matern-3/2": (lambda: MaternKernel(nu=1.5), True),
    "Matern-5/2": (lambda: MaternKernel(nu=2.5, ard_num_dims=3), True),
    "scaled RBF": (lambda: ScaleKernel(RBFKernel()), True),
    "scaled Matern-1/2": (lambda: scaled_matern(0.5), True),
    "scaled Matern-5/2 with a prior": (lambda: scaled_matern(2.5, lengthscale_prior=LogNormalPrior(0.0, 1.0)), True),
    "active_dims": (lambda: ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2, active_dims=(2, 0))), True),
    "sum": (lambda: ScaleKernel(RBFKernel(active_dims=(0,))) + MaternKernel(nu=1.5, active_dims=(1, 2)), False),
    "product": (lambda: ProductKernel(RBFKernel(active_dims=(0,)), MaternKernel(nu=1.5, active_dims=(2,))), False),
    "scaled sum": (lambda: ScaleKernel(RBFKernel() + LinearKernel()), False),
    "periodic": (lambda: ScaleKernel(PeriodicKernel()), False),
    "rational quadratic": (lambda: ScaleKernel(RQKernel(ard_num_dims=3)), False),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    make, fused = KERNELS[name]
    model = hyperparameters(SingleTaskGP(X, Y, covar_module=make(), input_transform=Normalize(d=3)))
    posterior = agree(model, BATCHES)
    assert isinstance(posterior.kernel, StationaryKernel) == fused
    leaf = BATCHES.clone().requires_grad_()
    (ours,) = torch.autograd.grad(posterior.mean(leaf).sum() + posterior.covar(leaf).sum(), leaf)
    theirs = model.posterior(leaf)
    (expected,) = torch.autograd.grad(theirs.mean.sum() + theirs.distribution.covariance_matrix.sum(), leaf)
    close(ours, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("mean", [lambda: ConstantMean(), lambda: LinearMean(3)])
def test_means(mean):
    agree(hyperparameters(SingleTaskGP(X, Y, mean_module=mean(), input_transform=Normalize(d=3))), BATCHES)


def test_amplitude_is_in_the_units_of_the_target():
    model = hyperparameters(SingleTaskGP(X, Y, covar_module=scaled_matern(2.5)))
    expected = model.covar_module.outputscale.item() * model.outcome_transform.stdvs.item() ** 2
    assert posterior_of(model).amplitude == pytest.approx(expected, rel=1e-9)
    assert posterior_of(SingleTaskGP(X, Y, outcome_transform=None)).amplitude == 1.0


def test_other_single_task_models():
    codes = torch.cat([X[:, :2], (3 * X[:, 2:]).floor()], dim=-1)
    batches = torch.cat([BATCHES[..., :2], (3 * uniform(3, 5, 1, seed=5)).floor()], dim=-1)
    agree(hyperparameters(MixedSingleTaskGP(codes, Y, cat_dims=[2])), batches)
    agree(hyperparameters(AdditiveMapSaasSingleTaskGP(X, Y)), BATCHES)
    agree(hyperparameters(SingleTaskMultiFidelityGP(X, Y, data_fidelities=[2])), BATCHES.clamp(0, 1))


def test_one_row_and_one_input():
    agree(SingleTaskGP(X[:1, :1], Y[:1], outcome_transform=None), BATCHES[..., :1])


def test_measured_points_and_repeats():
    model = hyperparameters(SingleTaskGP(torch.cat([X, X[:5]]), torch.cat([Y, Y[:5] + 1.0])))
    agree(model, torch.cat([X[:4], X[:2]]))


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_float32(outcome):
    model = SingleTaskGP(X.float(), Y.float(), outcome_transform=OUTCOMES[outcome](), input_transform=Normalize(d=3))
    posterior = agree(model, BATCHES.float(), rtol=1e-3, atol=1e-3)
    assert posterior.dtype == posterior.mean(BATCHES.float()).dtype == torch.float32
    double = SingleTaskGP(X, Y, outcome_transform=OUTCOMES[outcome](), input_transform=Normalize(d=3))
    close(posterior.to(torch.float64).mean(BATCHES), posterior_of(double).mean(BATCHES), rtol=1e-3, atol=1e-3)


# --- MultiTaskGP -------------------------------------------------------------------------------------------

TASKS = torch.tensor([0, 1, 2, 1, 0] * 4, dtype=torch.float64).unsqueeze(-1)


def with_task(X, task, column):
    column = column % (X.shape[-1] + 1)
    task = task.expand(*X.shape[:-1], 1)
    return torch.cat([X[..., :column], task, X[..., column:]], dim=-1)


def stratified(column):
    return StratifiedStandardize(stratification_idx=column % 4, all_task_values=torch.tensor([0, 1, 2]))


def multi_task(*arguments, **options):
    torch.manual_seed(0)  # its task covariance starts at random
    return hyperparameters(MultiTaskGP(*arguments, **options))


TASK_OUTCOMES = {"none": lambda c: None, "Standardize": lambda c: Standardize(m=1), "stratified": stratified}


@pytest.mark.parametrize("column", [0, 1, 3, -1])
@pytest.mark.parametrize("outcome", TASK_OUTCOMES)
def test_multi_task_gp(column, outcome):
    Y_tasks = Y * (1.0 + TASKS) + 5.0 * TASKS
    transform = TASK_OUTCOMES[outcome](column)
    indices = [i for i in range(4) if i != column % 4]
    inputs = Normalize(d=4, indices=indices)
    model = MultiTaskGP(
        with_task(X, TASKS, column), Y_tasks, column, outcome_transform=transform, input_transform=inputs
    )
    hyperparameters(model)
    batches = with_task(BATCHES, torch.tensor([0.0, 1, 2, 2, 0], dtype=torch.float64).unsqueeze(-1), column)
    posterior = agree(model, batches)
    noise = model.likelihood.noise.detach().reshape(-1)
    scale2 = {"none": 1.0, "Standardize": 1.0, "stratified": 1.0}[outcome]
    if transform is not None:
        scale2 = transform.stdvs.detach().reshape(-1).square()
    close(posterior.noise(batches), (noise * scale2).expand(3)[[0, 1, 2, 2, 0]].expand(3, 5))
    with torch.no_grad():
        noisy = model.posterior(batches, observation_noise=True)
    close(posterior.variance(batches) + posterior.noise(batches), noisy.variance.squeeze(-1), 1e-7, 1e-8)


@pytest.mark.parametrize("outcome", TASK_OUTCOMES)
def test_multi_task_gp_with_known_noise_has_that_of_each_task(outcome):
    noise = (0.1 + TASKS) * (0.5 + uniform(20, 1, seed=4))
    model = MultiTaskGP(with_task(X, TASKS, 3), Y, 3, noise, outcome_transform=TASK_OUTCOMES[outcome](3))
    batches = with_task(BATCHES, torch.tensor([0.0, 1, 2, 2, 0], dtype=torch.float64).unsqueeze(-1), 3)
    posterior = agree(hyperparameters(model), batches)
    by_task = torch.stack([noise[t == TASKS].mean() for t in range(3)])
    close(posterior.noise(batches), by_task[[0, 1, 2, 2, 0]].expand(3, 5))


def test_multi_task_gp_with_a_task_that_was_never_measured():
    model = MultiTaskGP(with_task(X, TASKS, 3), Y, 3, all_tasks=[0, 1, 2, 3], outcome_transform=None)
    batches = with_task(BATCHES, torch.tensor([0.0, 1, 2, 3, 3], dtype=torch.float64).unsqueeze(-1), 3)
    agree(hyperparameters(model), batches)
    noise = 0.1 + TASKS
    known = MultiTaskGP(with_task(X, TASKS, 3), Y, 3, noise, all_tasks=[0, 1, 2, 3], outcome_transform=None)
    close(posterior_of(known).noise(batches)[0], torch.tensor([0.1, 1.1, 2.1, noise.mean(), noise.mean()]).double())


def test_multi_task_gp_with_one_mean_for_all():
    model = MultiTaskGP(with_task(X, TASKS, 3), Y, 3, mean_module=ConstantMean())
    agree(hyperparameters(model), with_task(BATCHES, torch.ones(1, dtype=torch.float64), 3))


# --- variational -------------------------------------------------------------------------------------------


def train(model, inner, X, Y, steps=30):
    """Some steps on the evidence lower bound: far from its optimum, as any state is to be understood."""
    model.train()
    elbo = VariationalELBO(model.likelihood, inner, len(Y))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        (-elbo(inner(X), Y)).backward()
        optimizer.step()
    return model


def variational_botorch(inputs="none", outcome="none", **options):
    torch.manual_seed(0)
    model = SingleTaskVariationalGP(
        X, Y, inducing_points=8, input_transform=INPUTS[inputs](), outcome_transform=OUTCOMES[outcome](), **options
    )
    model.train()
    targets = model.model.train_targets
    return train(model, model.model, model.model.train_inputs[0], targets)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["none", "Normalize", "InputStandardize"])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_single_task_variational_gp(inputs, outcome):
    model = variational_botorch(inputs, outcome)
    posterior = agree(model, BATCHES, rtol=1e-6, atol=1e-7, jitter=jitter(model))
    assert len(posterior.centers) == 8
    with torch.no_grad():
        noisy = model.posterior(BATCHES, observation_noise=True).variance.squeeze(-1) - jitter(model)
    close(posterior.variance(BATCHES) + posterior.noise(BATCHES), noisy, 1e-6, 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "distribution", [CholeskyVariationalDistribution, MeanFieldVariationalDistribution, DeltaVariationalDistribution]
)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_variational_distributions_of_botorch_models(distribution, outcome):
    model = variational_botorch(outcome=outcome, variational_distribution=distribution(8))
    agree(model, BATCHES, rtol=1e-6, atol=1e-7, jitter=jitter(model))


class Sparse(ApproximateGP):
    def __init__(self, distribution, strategy):
        super().__init__(strategy(self, X[:8].clone(), distribution(8), learn_inducing_locations=True))
        self.mean_module, self.covar_module = ConstantMean(), scaled_matern(2.5)
        self.likelihood = GaussianLikelihood()
        self.double()

    def forward(self, X):
        return MultivariateNormal(self.mean_module(X), self.covar_module(X))


@pytest.mark.slow
@pytest.mark.parametrize(
    "distribution", [CholeskyVariationalDistribution, MeanFieldVariationalDistribution, DeltaVariationalDistribution]
)
@pytest.mark.parametrize("strategy", [VariationalStrategy, UnwhitenedVariationalStrategy])
def test_gpytorch_approximate_gp(distribution, strategy):
    torch.manual_seed(0)
    model = Sparse(distribution, strategy)
    train(model, model, X, Y.squeeze(-1))
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        expected = model(BATCHES)
    close(posterior.mean(BATCHES), expected.mean, 1e-6, 1e-6)
    eye = torch.eye(5, dtype=torch.float64)
    added = jitter(model) if strategy is VariationalStrategy else 0.0  # the other strategy adds none
    close(posterior.covar(BATCHES), expected.covariance_matrix - added * eye, 1e-6, 1e-7)
    close(posterior.noise(BATCHES), model.likelihood.noise.detach().expand(3, 5))


def test_pending_points_of_a_variational_model():
    """Its augmentation is conditioning of the joint Gaussian that the model itself states."""
    model = variational_botorch(outcome="Standardize")
    pending, batch = uniform(3, 3, seed=6), uniform(4, 3, seed=7)
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        C = model.posterior(torch.cat([pending, batch])).distribution.covariance_matrix
    C = C - jitter(model) * torch.eye(7, dtype=torch.float64)
    noise = posterior.noise(pending)
    K = C[:3, :3] + torch.diag(noise)
    expected = C[3:, 3:] - C[3:, :3] @ torch.linalg.solve(K, C[:3, 3:])
    close(posterior.augment(pending).covar(batch), expected, 1e-6, 1e-7)


# --- gpytorch ExactGP --------------------------------------------------------------------------------------


class Exact(ExactGP):
    def __init__(self, X, y, likelihood, kernel=None, twist=None):
        super().__init__(X, y, likelihood)
        self.mean_module, self.covar_module = ConstantMean(), kernel or scaled_matern(2.5)
        self.twist = twist
        self.double()

    def forward(self, X):
        T = X if self.twist is None else self.twist(X)
        return MultivariateNormal(self.mean_module(T), self.covar_module(T))


def test_gpytorch_exact_gp():
    model = hyperparameters(Exact(X, Y.squeeze(-1), GaussianLikelihood()))
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        expected = model(X[:5])
        close(posterior.mean(X[:5]), expected.mean, 1e-7, 1e-8)
        close(posterior.covar(X[:5]), expected.covariance_matrix, 1e-7, 1e-8)
    known = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(0.1 + uniform(20, seed=4))
    model = hyperparameters(Exact(X, Y.squeeze(-1), known))
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        close(posterior.mean(BATCHES[0]), model(BATCHES[0]).mean, 1e-7, 1e-8)
    close(posterior.noise(BATCHES), known.noise.mean().expand(3, 5))


def test_known_noise_with_a_learned_part():
    known = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(0.1 + uniform(20, seed=4), learn_additional_noise=True)
    model = hyperparameters(Exact(X, Y.squeeze(-1), known))
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        close(posterior.mean(BATCHES[0]), model(BATCHES[0]).mean, 1e-7, 1e-8)
    close(posterior.noise(BATCHES), known.noise.detach().mean().expand(3, 5))


# --- what it leaves alone ----------------------------------------------------------------------------------

MODELS = {
    "exact": lambda: hyperparameters(SingleTaskGP(X, Y, input_transform=Normalize(d=3))),
    "periodic": lambda: hyperparameters(SingleTaskGP(X, Y, covar_module=ScaleKernel(PeriodicKernel()))),
    "warped": lambda: hyperparameters(SingleTaskGP(X, Y, input_transform=INPUTS["Warp"]())),
    "tasks": lambda: multi_task(with_task(X, TASKS, 3), Y, 3),
    "variational": lambda: variational_botorch("Normalize", "Standardize"),
}


def batches_of(name):
    return with_task(BATCHES, torch.ones(1, dtype=torch.float64), 3) if name == "tasks" else BATCHES.clamp(0.01, 0.99)


@pytest.mark.parametrize("name", MODELS)
def test_later_changes_of_the_model_do_not_reach_the_posterior(name):
    model, batches = MODELS[name](), batches_of(name)
    posterior = posterior_of(model)
    before = [part.detach().clone() for part in (*posterior.mean_and_covar(batches), posterior.noise(batches))]
    with torch.no_grad():
        for tensor in [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]:
            tensor.mul_(1.5).add_(0.1)
    model.train()
    after = [*posterior.mean_and_covar(batches), posterior.noise(batches)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    changed = posterior_of(MODELS[name]().train()).mean(batches)
    close(changed, before[0])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(name, training):
    model = MODELS[name]()
    model.train(training)
    state = copy.deepcopy(model.state_dict())
    inputs = None if name == "variational" else model.train_inputs[0].clone()
    posterior_of(model)
    assert model.training == training
    assert all(module.training == training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(state.values(), model.state_dict().values(), strict=True))
    if inputs is not None:
        assert torch.equal(model.train_inputs[0], inputs)


def test_a_refused_model_is_left_as_it_was():
    model = SingleTaskGP(X, Y.exp(), outcome_transform=Log(), input_transform=Normalize(d=3)).train()
    inputs = model.train_inputs[0].clone()
    with pytest.raises(InputError):
        posterior_of(model)
    assert model.training
    assert torch.equal(model.train_inputs[0], inputs)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_of_the_model_never_collect_gradients(name):
    model = MODELS[name]()
    model.zero_grad()
    acqf = BatchedEnergyEntropy(model, 0.5, X_pending=batches_of(name)[1])
    leaf = batches_of(name).clone().requires_grad_()
    acqf(leaf).sum().backward()
    assert float(leaf.grad.abs().sum()) > 0
    assert all(parameter.grad is None for parameter in model.parameters())
    posterior = acqf.posterior
    modules = [posterior.kernel, posterior.prior_mean, *([] if posterior.warp is None else [posterior.warp])]
    assert not any(parameter.requires_grad for module in modules for parameter in module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_are_the_same_posterior(name, copied):
    posterior, batches = posterior_of(MODELS[name]()), batches_of(name)
    close(copied(posterior).covar(batches), posterior.covar(batches), rtol=1e-13)
    close(copied(posterior).noise(batches), posterior.noise(batches), rtol=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_float32_of_any_of_them(name):
    posterior, batches = posterior_of(MODELS[name]()), batches_of(name)
    single = posterior.to(torch.float32)
    mean, covar = single.mean_and_covar(batches.float())
    assert mean.dtype == covar.dtype == single.noise(batches.float()).dtype == torch.float32
    close(mean.double(), posterior.mean(batches), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_information_of_any_of_them(name):
    """The whole way: I of the model's own covariance."""
    model, batches = MODELS[name](), batches_of(name)
    posterior = posterior_of(model)
    model.eval()
    with torch.no_grad():
        C = model.posterior(batches).distribution.covariance_matrix
        if name == "variational":
            C = C - jitter(model) * torch.eye(5, dtype=torch.float64)
        sigma2 = (
            model.posterior(batches, observation_noise=True).variance - model.posterior(batches).variance
        ).squeeze(-1)
    eye = torch.eye(5, dtype=torch.float64)
    expected = 0.5 * torch.logdet(eye + C / sigma2.unsqueeze(-1))
    close(information_gain(posterior.covar(batches), posterior.noise(batches)), expected, rtol=1e-5, atol=1e-7)


# --- refusals ----------------------------------------------------------------------------------------------


def multitask_kernel():
    likelihood = MultitaskGaussianLikelihood(num_tasks=2)
    model = Exact(X, Y.expand(-1, 2), likelihood)
    return model


def with_missing():
    y = Y.squeeze(-1).clone()
    y[3] = math.nan
    return Exact(X, y, GaussianLikelihood())


def robust():
    base = GaussianLikelihood().double()
    return Exact(X, Y.squeeze(-1), SparseOutlierGaussianLikelihood(base, dim=20, outlier_indices=[0]))


class Student(Sparse):
    def __init__(self):
        super().__init__(CholeskyVariationalDistribution, VariationalStrategy)
        self.likelihood = StudentTLikelihood()


def trained(model):
    with torch.no_grad():
        model.double()(X[:2])
    return model


REFUSED = {
    "several outputs": (lambda: SingleTaskGP(X, Y.expand(-1, 2)), "a batch of models"),
    "a batch of data": (lambda: SingleTaskGP(X.expand(2, 20, 3), Y.expand(2, 20, 1)), "a batch of models"),
    "samples of hyperparameters": (lambda: EnsembleMapSaasSingleTaskGP(X, Y), "a batch of models"),
    "Log": (lambda: SingleTaskGP(X, Y.exp(), outcome_transform=Log()), "outcome transform Log"),
    "Bilog": (lambda: SingleTaskGP(X, Y, outcome_transform=Bilog()), "outcome transform Bilog"),
    "Power": (lambda: SingleTaskGP(X, Y.exp(), outcome_transform=Power(0.5)), "outcome transform Power"),
    "a chain": (
        lambda: SingleTaskGP(X, Y.exp(), outcome_transform=ChainedOutcomeTransform(a=Log(), b=Standardize(m=1))),
        "outcome transform ChainedOutcomeTransform",
    ),
    "more points than there were": (
        lambda: SingleTaskGP(X, Y, input_transform=InputPerturbation(0.1 * uniform(4, 3))),
        "InputPerturbation",
    ),
    "a list": (lambda: ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, Y)), "neither an exact nor a variational"),
    "preferences": (lambda: PairwiseGP(X, torch.tensor([[0, 1], [2, 3]])), "neither an exact nor a variational"),
    "all outputs at once": (lambda: KroneckerMultiTaskGP(X, Y.expand(-1, 2)), "a batch of models"),
    "matrix targets": (multitask_kernel, "a batch of models"),
    "tasks 1 and 3": (lambda: MultiTaskGP(with_task(X, 1 + 2 * (TASKS > 0), 3), Y, 3), "task values"),
    "another forward": (lambda: Exact(X, Y.squeeze(-1), GaussianLikelihood(), twist=torch.sin), "forward does more"),
    "another likelihood": (robust, "likelihood is SparseOutlierGaussianLikelihood"),
    "another likelihood of a variational model": (lambda: trained(Student()), "likelihood is StudentTLikelihood"),
    "missing targets": (with_missing, "targets are not all finite"),
    "never trained": (
        lambda: SingleTaskVariationalGP(X, Y, inducing_points=8),
        "variational distribution was never trained",
    ),
    "another strategy": (
        lambda: trained(Sparse(CholeskyVariationalDistribution, CiqVariationalStrategy)),
        "variational strategy is CiqVariationalStrategy",
    ),
    "several outputs of a variational model": (
        lambda: SingleTaskVariationalGP(X, Y.expand(-1, 2), inducing_points=8),
        "variational",
    ),
    "no process at all": (lambda: torch.nn.Linear(3, 1), "neither an exact nor a variational"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Integrals over likelihood")
def test_refusals_say_why(name):
    make, reason = REFUSED[name]
    model = make()
    with pytest.raises(InputError, match=reason) as error:
        posterior_of(model)
    assert f"a {type(model).__name__} cannot be turned into a Posterior" in str(error.value)
    with pytest.raises(InputError, match=reason):
        BatchedEnergyEntropy(model)
