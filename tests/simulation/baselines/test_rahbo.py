"""UCB that minds noise."""

import numpy as np
import pytest

from beebo_scale import InputError
from beebo_scale.simulation import Fitting
from beebo_scale.simulation.baselines.rahbo import RiskAverse, RiskAverseUCB
from beebo_scale.simulation.baselines.sequential import BatchUpperConfidence, Filling
from beebo_scale.simulation.problems import functions
from tests.helpers import close
from tests.simulation.helpers import encoded, square_grid, state_of

SHORT = Fitting(iterations=15)


@pytest.fixture(scope="module")
def noisy():
    return functions.TestFunction("branin-noise")


def test_the_value_by_its_formula(noisy):
    state = state_of(noisy, count=20, q=1)
    strategy = RiskAverse(SHORT, kappa=2.25, risk=0.7)
    surrogate = strategy.fit(state)
    posterior = surrogate.posterior()
    X = encoded(state, surrogate, square_grid(5))
    ours = RiskAverseUCB(Filling.of(posterior), posterior.noise, X.new_tensor(2.25), 0.7 * surrogate.scale.scale)(
        X.unsqueeze(-2)
    )
    mean, std = (value.detach() for value in (posterior.mean(X), posterior.variance(X).sqrt()))
    log_variance = posterior.noise.log_variance
    lcb = (log_variance.mean(X) - 1.5 * log_variance.variance(X).sqrt()).exp().detach()
    own = surrogate.scale.scale**2 * lcb  # squared units of the target
    expected = mean + 1.5 * std - 0.7 * own / surrogate.scale.scale
    close(ours.detach(), expected)


@pytest.mark.slow
def test_risk_moves_the_batch_to_where_it_is_quiet(noisy):
    state = state_of(noisy, count=30, q=3)
    variance = {}
    for risk in (0.0, 20.0):
        strategy = RiskAverse(SHORT, risk=risk)
        surrogate = strategy.fit(state)
        chosen = strategy.choose(state, surrogate)
        variance[risk] = float(surrogate.posterior().noise(encoded(state, surrogate, chosen)).mean())
    assert variance[20.0] < variance[0.0]
    assert (
        BatchUpperConfidence(SHORT).choose(state, surrogate) == RiskAverse(SHORT, risk=0.0).choose(state, surrogate)
    ).all()


def test_it_needs_known_variances():
    state = state_of(functions.TestFunction("levy", 2, noise=0.1), count=8, q=2)
    strategy = RiskAverse(SHORT)
    with pytest.raises(InputError, match=r"rahbo needs measurements that come with the variance.*levy"):
        strategy.choose(state, strategy.fit(state))
    for risk in (-1.0, np.inf):
        with pytest.raises(InputError, match="risk = "):
            RiskAverse(risk=risk)
