import pytest

import beebo_scale as bs
from beebo_scale.campaign import Settings
from tests.campaign.helpers import settings


def test_settings_survive_a_file(tmp_path):
    for made in (
        settings(tmp_path, temperatures=(2.0, 0.5), minimize=True, noise_variance="v"),
        Settings.of(
            target="y",
            features={"temp": "continuous", "base": "categorical"},
            bounds={"temp": (20.0, 80.0), "base": ["a", "b"]},
            constraints=("temp <= 60",),
            hit=3.5,
        ),
    ):
        (tmp_path / "campaign.yaml").write_text(made.to_yaml())
        again = Settings.from_yaml(tmp_path / "campaign.yaml")
        assert again.to_yaml() == made.to_yaml()
        assert again.of_round(2).to_yaml() == made.of_round(2).to_yaml()


def test_rounds_have_temperatures_and_seeds_of_their_own(tmp_path):
    made = settings(tmp_path, temperatures=(2.0, 1.0, 0.0), seed=10)
    assert [made.of_round(k).choice.temperature for k in (1, 2, 3, 4, 9)] == [2.0, 1.0, 0.0, 0.0, 0.0]
    assert [made.of_round(k).choice.seed for k in (1, 2)] == [10, 11]
    assert [made.of_round(k).fitting.seed for k in (1, 2)] == [10, 11]
    assert (made.of_round(1).choice.q, made.of_round(1, 7).choice.q) == (4, 7)
    assert settings(tmp_path, minimize=True).of_round(1).choice.minimize


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"bounds": {"a": (0, 1)}}, "either a library or bounds"),
        ({"library": None}, "either a library or bounds"),
        ({"library": None, "bounds": {"a": (0, 1)}}, "id goes with a library"),
        ({"search_start": "anywhere"}, "search_start: 'anywhere' is not one of greedy, sobol, mixed"),
        ({"temperatures": ()}, "temperatures is empty"),
        ({"temperatures": (0.5, -1.0)}, "T' = -1"),
        ({"q": 0}, "q = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"minimize": True, "hit": 3.0}, "exclude each other"),
    ],
)
def test_settings_that_cannot_be(tmp_path, changes, match):
    with pytest.raises(bs.InputError, match=match):
        settings(tmp_path, **changes)


GOOD = "target: y\nfeatures: {variant: protein}\nlibrary: l.csv\n"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("target: [y\n", "is no YAML in line 2"),
        ("- y\n", "holds no settings"),
        ("", "holds no settings"),
        ("features: {variant: protein}\nlibrary: l.csv\n", "has no 'target'"),
        (GOOD + "temprature: 2\n", r"unknown entry 'temprature' \(did you mean 'temperatures'\?\)"),
        (GOOD + "q: many\n", "q is 'many', not a whole number"),
        (GOOD + "q: true\n", "q is True, not a whole number"),
        (GOOD + "minimize: 1\n", "minimize is 1, neither true nor false"),
        (GOOD + "temperatures: 2\n", "temperatures is 2, not a list"),
        (GOOD + "temperatures: [a]\n", "temperature T' = a is not usable"),
        (GOOD + "hit: high\n", "hit is 'high', not a number"),
        ("target: y\nfeatures: variant\nlibrary: l.csv\n", "features is 'variant', not a mapping"),
        (GOOD + "q: 0\n", "campaign.yaml: q = 0"),
        (b"target: \xff\n", "is no YAML"),
    ],
)
def test_files_that_are_no_settings(tmp_path, text, match):
    path = tmp_path / "campaign.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(bs.InputError, match=match) as error:
        Settings.from_yaml(path)
    assert "\n" not in str(error.value)
    assert "campaign.yaml" in str(error.value)
