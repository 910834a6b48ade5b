import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.surrogates.data.observe import observe
from beebo_scale.surrogates.fit import choose_kind
from beebo_scale.surrogates.outliers import far_out, few_values
from beebo_scale.surrogates.surrogate import RECIPES
from beebo_scale.surrogates.trainees import factor_that_fits

KINDS = {"x": "continuous", "label": "categorical", "variant": "protein", "primer": "dna"}
EFFECT = dict(zip("ACDEGT", (0.0, 0.7, -0.5, 1.2, -1.0, 0.4), strict=True))


def screen(n, seed=0, noise=0.05):
    """Random rows with all kinds of columns, their measured y and the truth f, one effect from each column."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-3.0, 5.0, n),
            "label": rng.choice(["low", "mid", "high"], n),
            "variant": ["".join(rng.choice(list("ACDE"), 2)) for _ in range(n)],
            "primer": ["".join(rng.choice(list("ACGT"), 2)) for _ in range(n)],
        }
    )
    effects = {
        "x": np.sin(frame["x"]),
        "label": frame["label"].map({"low": -1.0, "mid": 0.0, "high": 1.0}),
        "variant": frame["variant"].map(lambda v: EFFECT[v[0]] + 0.5 * EFFECT[v[1]]),
        "primer": frame["primer"].map(lambda v: EFFECT[v[0]] - 0.5 * EFFECT[v[1]]),
    }
    return frame, effects, noise * rng.standard_normal(n)


def table(frame, y, features, **columns):
    return bs.read_table(
        frame[list(features)].assign(y=np.asarray(y), **columns), "y", features=features, **roles(columns)
    )


def roles(columns):
    return {"noise_variance": "var"} if "var" in columns else {}


def measured(features, n=60, seed=0, noise=0.05, shift=20.0, scale=3.0):
    """A table over some of the columns, in units far from standard ones."""
    frame, effects, error = screen(n, seed, noise)
    truth = shift + scale * sum(effects[name] for name in features)
    return table(frame, truth + scale * error, features), np.asarray(truth)


@pytest.fixture(scope="module")
def mixed():
    return bs.fit(measured(KINDS, n=120)[0])


# --- predictions -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("priors", ["botorch", "paper"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_column_is_learned(kind, priors):
    features = {kind: KINDS[kind]}
    surrogate = bs.fit(measured(features, n=40)[0], priors=priors)
    held_out, truth = measured(features, n=30, seed=1)
    mean, std = surrogate.predict(held_out)
    error = np.abs(mean - truth)
    assert mean.dtype == std.dtype == np.float64
    assert np.sqrt((error**2).mean()) < 0.2 * truth.std()
    assert (error < 4 * std).mean() > 0.8
    assert std.max() < truth.std()


def test_a_mix_of_columns_is_learned_with_honest_errors(mixed):
    held_out, truth = measured(KINDS, n=200, seed=1)
    mean, std = mixed.predict(held_out)
    z = (mean - truth) / std
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.5 * truth.std()
    assert 0.45 < (np.abs(z) < 1.0).mean() < 0.95  # 0.68 if the errors were exactly normal
    assert (np.abs(z) < 2.0).mean() > 0.85
    assert np.corrcoef(std, np.abs(mean - truth))[0, 1] > 0.0


@pytest.mark.slow
def test_units_of_the_target_do_not_matter(mixed):
    one, truth = measured(KINDS, n=30)
    other = replace(one, y=1e6 * one.y - 5e7)
    mean, std = bs.fit(one).predict(one)
    big_mean, big_std = bs.fit(other).predict(one)
    np.testing.assert_allclose(big_mean, 1e6 * mean - 5e7, rtol=1e-4, atol=1e-4 * 1e6 * truth.std())
    np.testing.assert_allclose(big_std, 1e6 * std, rtol=1e-3)


def test_noise_is_found_and_left_out_of_predictions():
    noisy, _ = measured({"x": "continuous"}, n=150, noise=0.5)
    surrogate = bs.fit(noisy)
    assert surrogate.summary()["noise_std"] == pytest.approx(1.5, rel=0.2)  # 0.5 times the scale of 3
    assert surrogate.predict(noisy, noiseless=True)[1].mean() < 0.7
    mean, std = surrogate.predict(noisy)
    np.testing.assert_array_equal(mean, surrogate.predict(noisy, noiseless=True)[0])  # without a transform
    assert std.mean() == pytest.approx(1.55, rel=0.2)  # of a measurement


@pytest.mark.slow
def test_known_noise_is_taken_at_its_word():
    frame, effects, error = screen(40)
    y = effects["x"].to_numpy() + error
    variance = np.where(np.arange(40) < 20, 1e-4, 100.0)
    surrogate = bs.fit(table(frame, y, {"x": "continuous"}, var=variance))
    mean, _ = surrogate.predict(bs.read_library(frame, {"x": "continuous"}))
    assert np.abs(mean - y)[:20].mean() < 0.1 * np.abs(mean - y)[20:].mean() + 0.05
    only = bs.fit(table(frame[:20], y[:20], {"x": "continuous"}, var=variance[:20]), warm_start=surrogate, iterations=0)
    half, _ = only.predict(bs.read_library(frame[:20], {"x": "continuous"}))
    np.testing.assert_allclose(half, mean[:20], atol=0.05)  # rows with such noise say next to nothing


@pytest.mark.parametrize("transform", ["none", "sqrt"])
def test_transforms_of_the_target(transform):
    frame, effects, error = screen(80)
    truth = np.exp(2 * effects["variant"].to_numpy())
    surrogate = bs.fit(table(frame, truth * np.exp(0.1 * error), {"variant": "protein"}), transform=transform)
    assert surrogate.scale.transform == transform
    mean, std = surrogate.predict(bs.read_library(frame, {"variant": "protein"}))
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.2 * truth.std()
    assert (std >= 0).all()
    if transform == "sqrt":
        assert mean.min() >= 0


# --- odd screens -----------------------------------------------------------------------------------------


def test_a_constant_column_breaks_nothing():
    frame, effects, error = screen(40)
    y = effects["x"] + error
    features = {"x": "continuous", "constant": "continuous", "one": "categorical", "same": "protein"}
    odd = frame.assign(constant=7.0, one="a", same="ACD")
    surrogate = bs.fit(table(odd, y, features))
    mean, _ = surrogate.predict(bs.read_library(odd, features))
    assert np.corrcoef(mean, effects["x"])[0, 1] > 0.95
    moved, std = surrogate.predict(bs.read_library(odd.assign(constant=9.0, one="b", same="ACE"), features))
    assert np.isfinite(moved).all()
    assert (std > 0).all()


def test_exact_replicates_are_merged_and_teach_the_noise():
    frame, effects, _ = screen(40)
    again = pd.concat([frame, frame[:6], frame[:6]], ignore_index=True)  # 12 of 52 rows
    truth = np.concatenate([effects["x"], effects["x"][:6], effects["x"][:6]])
    y = truth + 0.2 * np.random.default_rng(5).standard_normal(52)
    surrogate = bs.fit(table(again, y, {"x": "continuous"}))
    assert len(surrogate.data) == 40
    assert surrogate.summary()["measurements"] == 52
    assert surrogate.summary()["noise_std"] == pytest.approx(0.2, rel=0.35)
    mean, std = surrogate.predict(bs.read_library(frame, {"x": "continuous"}), noiseless=True)
    assert np.sqrt(np.mean((mean - effects["x"]) ** 2)) < 0.15
    posterior, X = surrogate.posterior(), surrogate.data.X
    K = posterior.kernel(X).to_dense()
    A = K + torch.diag(posterior.noise(X) / surrogate.data.count)  # a mean of three has a third of the variance
    expected = (1 - (K @ torch.linalg.inv(A) @ K).diagonal()).sqrt()
    np.testing.assert_allclose(std, expected * surrogate.scale.scale, rtol=1e-6)


def test_two_rows_are_enough():
    frame = pd.DataFrame({"x": [0.0, 1.0], "v": ["AC", "AD"]})
    surrogate = bs.fit(table(frame, [1.0, 2.0], {"x": "continuous", "v": "protein"}))
    mean, std = surrogate.predict(bs.read_library(frame, surrogate.encoder.kinds))
    assert mean[0] < mean[1]
    assert (std > 0).all()


def test_a_library_with_a_level_and_letters_that_nobody_measured(mixed):
    frame, *_ = screen(20, seed=3)
    strange = frame.assign(label="never", variant="WY")
    _, known = mixed.predict(bs.read_library(frame, KINDS))
    mean, std = mixed.predict(bs.read_library(strange, KINDS))
    assert np.isfinite(mean).all()
    assert std.min() > known.max()


# --- how it is fitted ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_subset_for_the_hyperparameters_and_all_rows_for_the_posterior():
    rows, _ = measured(KINDS, n=60)
    one, again, other = (bs.fit(rows, fit_rows=25, iterations=10, seed=seed) for seed in (0, 0, 1))
    assert one.report.rows == 25
    assert len(one.posterior().centers) == len(one.data) == 60
    assert one.report == again.report
    assert one.report != other.report
    mean, _ = one.predict(rows)
    assert np.sqrt(np.mean((mean - rows.y) ** 2)) < 0.2 * rows.y.std()  # also at the rows that the fit did not see


def test_warm_start(mixed):
    rows, _ = measured(KINDS, n=120)
    before = {name: value.clone() for name, value in mixed.gp.state_dict().items()}
    again = bs.fit(rows, warm_start=mixed)
    assert again.report.iterations < mixed.report.iterations
    assert again.report.log_likelihood >= mixed.report.log_likelihood - 0.05
    assert all(torch.equal(value, before[name]) for name, value in mixed.gp.state_dict().items())


@pytest.mark.parametrize("kind", ["exact", "love", "sgpr"])
def test_no_iterations_keep_the_hyperparameters_of_the_warm_start(kind, mixed):
    again = bs.fit(measured(KINDS, n=150, seed=1)[0], kind, warm_start=mixed, iterations=0)
    for p, q in zip(again.gp.parameters(), mixed.gp.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.slow
def test_priors_of_a_search_bound_the_lengthscales_of_every_fit(tmp_path):
    U = np.random.default_rng(0).random((60, 4))
    y = np.cos(80 * U[:, 0]) + 0.1 * U.sum(1)  # as rough as noise: a likelihood takes it for signal along one input
    features = {name: "continuous" for name in "abcd"}
    shortest = {}
    before = None
    for n in (30, 60):
        rows = table(pd.DataFrame(U[:n], columns=list("abcd")), y[:n], features)
        plain, bounded = (
            bs.fit(rows, priors=priors, warm_start=before if priors == "search" else None)
            for priors in ("paper", "search")
        )
        shortest[n] = 0.25 * n ** (-1 / 4)
        assert float(bounded.posterior().kernel.lengthscales.min()) >= shortest[n]
        before = bounded
    assert float(plain.posterior().kernel.lengthscales.min()) < 0.5 * shortest[60]
    bounded.save(tmp_path / "s.pt")
    assert torch.equal(
        bs.load_surrogate(tmp_path / "s.pt").posterior().kernel.lengthscales, bounded.posterior().kernel.lengthscales
    )


def test_warm_start_with_new_levels_and_ranges(mixed):
    frame, effects, error = screen(30, seed=8)
    frame = frame.assign(label="new", x=frame["x"] * 10)
    surrogate = bs.fit(table(frame, sum(effects.values()) + error, KINDS), warm_start=mixed, iterations=5)
    assert np.isfinite(surrogate.predict(bs.read_library(frame, KINDS))[0]).all()


@pytest.mark.parametrize(
    ("features", "arguments", "words"),
    [
        ({"x": "continuous"}, {}, "fitted on x .continuous., label .*variant .protein of 2.*table has x .continuous.;"),
        (KINDS, {"priors": "paper"}, "the warm start has priors 'botorch', this fit 'paper'"),
    ],
)
def test_warm_starts_that_do_not_fit(mixed, features, arguments, words):
    with pytest.raises(InputError, match=words):
        bs.fit(measured(features, n=10)[0], warm_start=mixed, **arguments)


def test_warm_start_from_sequences_of_another_length(mixed):
    frame, effects, _ = screen(10)
    longer = frame.assign(variant=frame["variant"] + "A")
    with pytest.raises(InputError, match=r"variant \(protein of 2\).*variant \(protein of 3\)"):
        bs.fit(table(longer, effects["x"], KINDS), warm_start=mixed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kind": "neural"}, "kind 'neural' is not known; choose one of .*exact"),
        ({"priors": "flat"}, "priors 'flat' are not known; choose one of botorch, paper"),
        ({"transform": "cube"}, "transform 'cube' is not known; choose one of auto, none, sqrt, log, rank, held-out"),
        ({"transform": "sqrt"}, "'sqrt' needs targets without negative values"),
    ],
)
def test_unknown_options(arguments, words):
    with pytest.raises(InputError, match=words):
        bs.fit(measured({"x": "continuous"}, n=10, shift=0.0)[0], **arguments)


def test_a_library_teaches_nothing():
    library = bs.read_library(screen(5)[0], KINDS)
    with pytest.raises(InputError, match="table: no target to learn from"):
        bs.fit(library)


def smooth(n: int) -> pd.DataFrame:
    """A smooth function of three inputs with a little noise."""
    generator = np.random.default_rng(0)
    X = generator.random((n, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * generator.standard_normal(n)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["love", "sgpr", "svgp"])
def test_approximate_kinds_predict_as_the_exact_one_and_survive_the_file(kind, tmp_path):
    frame = smooth(300)
    table = bs.read_table(frame.iloc[:240], target="y")
    library = bs.read_library(frame.iloc[240:], dict.fromkeys("abc", "continuous"))
    exact = bs.fit(table, "exact", iterations=30)
    size = bs.Approximation(inducing_points=80, epochs=4)
    surrogate = bs.fit(table, kind, iterations=30, approximation=size)
    mean, std = surrogate.predict(library)
    truth, doubt = exact.predict(library)
    np.testing.assert_allclose(mean, truth, atol=0.1 * float(frame["y"].std()))
    assert np.all(std > 0)
    assert 0.7 < float(np.median(std / doubt)) < 1.5
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    assert again.kind == kind
    assert np.array_equal(again.predict(library)[0], mean)
    assert np.array_equal(again.predict(library)[1], std)
    batch = bs.propose(again, 12, library)
    assert batch.run["certificate"]["certified"]
    assert batch.run["surrogate"]["kind"] == kind


@pytest.mark.slow
def test_love_says_how_wrong_it_is():
    frame = smooth(200)
    table = bs.read_table(frame, target="y")
    rough = bs.fit(table, "love", iterations=20, approximation=bs.Approximation(rank=3)).summary()
    fine = bs.fit(table, "love", iterations=20).summary()
    assert rough["rank"] == 3
    assert rough["information_gain_error"] > 0.05
    assert fine["tolerance_met"]
    assert fine["information_gain_error"] <= 0.05


def test_the_kind_follows_rows_and_memory():
    gigabyte = 2**30
    assert choose_kind(2_000, 8 * gigabyte)[0] == "exact"
    assert choose_kind(45_000, 10 * gigabyte)[0] == "exact"  # half of what is free of 24 GB
    assert choose_kind(45_000, 6 * gigabyte)[0] == "exact"  # in float32
    assert choose_kind(30_000, 1 * gigabyte)[0] == "blocks"
    assert choose_kind(46_000, 80 * gigabyte)[0] == "blocks"
    assert "more than ten minutes" in choose_kind(46_000, 80 * gigabyte)[1]
    assert "30,000 distinct inputs" in choose_kind(30_000, 1 * gigabyte)[1]


def test_an_exact_mean_without_a_factor_and_after_the_file(tmp_path):
    frame = smooth(150)
    table = bs.read_table(frame.iloc[:120], target="y")
    library = bs.read_library(frame.iloc[120:], dict.fromkeys("abc", "continuous"))
    exact = bs.fit(table, "exact", iterations=20)
    found = bs.fit(table, "exact", iterations=20, approximation=bs.Approximation(factor="none"))
    found.save(tmp_path / "model.ckpt")
    found = bs.load_surrogate(tmp_path / "model.ckpt")
    (mean, std), (truth, doubt) = found.predict(library), exact.predict(library)
    np.testing.assert_allclose(mean, truth, rtol=1e-5, atol=1e-6)
    assert (std >= doubt * (1 - 1e-6)).all()
    X = found.encoder.encode(library)[:8]
    torch.testing.assert_close(found.posterior().adapt(X).covar(X), exact.posterior().covar(X), rtol=1e-6, atol=1e-8)
    assert found.summary()["mean_error"] < 1e-3
    assert "steps of conjugate gradients (relative residual" in found.notes[0]
    assert exact.notes == ()
    rough = replace(found.recipe, report=replace(found.recipe.report, cg_converged=False))
    assert "did not converge" in replace(found, kind="love", recipe=rough).notes[0]


def test_the_factor_that_fits():
    gigabyte = 2**30
    assert factor_that_fits(36_000, 8 * gigabyte) == "float64"
    assert factor_that_fits(60_000, 10 * gigabyte) == "float32"
    assert factor_that_fits(250_000, 141 * gigabyte) == "float32"
    assert factor_that_fits(100_000, 10 * gigabyte) == "none"


def test_a_factor_in_float32_predicts_the_same_and_survives_the_file(tmp_path):
    frame = smooth(150)
    table = bs.read_table(frame.iloc[:120], target="y")
    library = bs.read_library(frame.iloc[120:], dict.fromkeys("abc", "continuous"))
    double = bs.fit(table, "exact", iterations=20)
    single = bs.fit(table, "exact", iterations=20, approximation=bs.Approximation(factor="float32"))
    assert (double.summary()["factor"], single.summary()["factor"]) == ("float64", "float32")
    (mean, std), (truth, doubt) = single.predict(library), double.predict(library)
    np.testing.assert_allclose(mean, truth, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(std, doubt, rtol=1e-3)
    single.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    assert np.array_equal(again.predict(library)[1], std)


def test_files_of_the_first_version_say_nothing_of_the_factor():
    assert RECIPES["exact"]({}).dtype == "float64"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"factor": "half"}, "factor 'half' is not known"),
        ({"inducing_points": 0}, "inducing_points = 0"),
        ({"epochs": -1}, "epochs = -1"),
    ],
)
def test_sizes_that_are_none(options, words):
    with pytest.raises(InputError, match=words):
        bs.Approximation(**options)


def test_few_rows_are_passed_over_more_often(monkeypatch):
    module = importlib.import_module("beebo_scale.surrogates.fit")  # the package's own `fit` is the function
    monkeypatch.setattr(module, "STEPS", 45)
    monkeypatch.setattr(module, "BATCH", 50)
    table = bs.read_table(smooth(120), target="y")
    few = bs.fit(table, "svgp", iterations=5, approximation=bs.Approximation(inducing_points=5))
    assert few.report.iterations == 46  # 23 epochs of two full minibatches
    given = bs.fit(table, "svgp", iterations=5, approximation=bs.Approximation(inducing_points=5, epochs=3))
    assert given.report.iterations == 6


# --- few different values --------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.01, 1.0), (0.0, 1.0, 100.0)])
def test_few_different_values_are_noted_and_none_lies_far_out(values, likelihood):
    frame, effects, _ = screen(60)
    share = np.linspace(0.5, 0.95, len(values) - 1)  # more than half are equal, few are the largest
    y = np.array(values)[np.searchsorted(np.quantile(effects["x"], share), effects["x"])]
    few = table(frame, y, {"x": "continuous"})
    surrogate = bs.fit(few, likelihood=likelihood, iterations=20)
    z = surrogate.scale.standardise(torch.tensor(y))
    assert z.abs().max() < 60**0.5
    mean, std = surrogate.predict(bs.read_library(frame, {"x": "continuous"}))
    assert (np.abs(y - mean) / std).max() < 5
    (note,) = few_values(few)
    assert f"{len(values)} different values" in note
    assert not far_out(surrogate, few)


def test_an_assay_with_three_results_is_not_scaled_by_medians():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 12), "a": np.sin(np.linspace(0, 4, 12)), "b": np.nan})
    frame.loc[[0, 5, 11], "b"] = [1.0, 1.01, 2.0]
    two = bs.read_table(frame, {"a": 1.0, "b": 1.0}, features={"x": "continuous"})
    *_, data = observe(two, "auto", robust=True)
    assert data.y[data.X[:, 1] == 1].abs().max() < 1.2
    assert [note.split()[0] for note in few_values(two)] == ["'b'"]
