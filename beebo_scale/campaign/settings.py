"""What a campaign is after: the file campaign.yaml."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..proposal import Box, BoxSearch, Request
from ..proposal.box.ascent import Start
from ..screening.files.opening import did_you_mean
from ..screening.targets import check_weights, weighted_name
from ..surrogates.data.target import HELD_OUT
from ..surrogates.fit import check_likelihood
from ..temperature import Steps

HEADER = """\
# The settings of this campaign. All but the names of targets and features, id, noise_variance and batch may be changed
# between rounds; of several targets, the weights may.
# temperatures holds T' of each round, 0 exploits, 2 explores; the last one also serves the rounds beyond.
"""
TYPES: dict[str, type | tuple[type, ...]] = {
    "target": (str, dict),
    "features": dict,
    "id": str,
    "noise_variance": str,
    "batch": str,
    "drop_invalid": bool,
    "minimize": bool,
    "hit": float,
    "library": str,
    "bounds": dict,
    "integer": list,
    "constraints": list,
    "shared": list,
    "q": int,
    "temperatures": list,
    "kind": str,
    "robust": bool,
    "transform": str,
    "priors": str,
    "search_start": str,
    "seed": int,
}
WORDS: dict[type | tuple[type, ...], str] = {
    str: "text",
    (str, dict): "a column or a mapping of columns to weights",
    dict: "a mapping",
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    list: "a list",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a campaign.

    Attributes:
        target: column to improve, or several with the weight of each, see `read_table`.
        features: column -> kind.
        id: column that names the rows of the library, None without one.
        noise_variance: column with the known variance of each target.
        batch: column with the batch (plate, day) of each result, see `read_table`; a file of results has it, too.
        drop_invalid: leave out rows with a feature that cannot be read, of the first results and of the library.
        minimize: small targets are good.
        hit: a value that the target should come close to, instead of a large or small one.
        library: file of candidates; a relative path counts from the campaign's folder ...
        bounds: ... or a box, as in `Box`, with its
        integer, constraints, shared: see `Box`.
        q: experiments of a round.
        temperatures: T' of each round, see HEADER.
        kind, transform, priors: of the surrogate, see `fit`.
        search_start: where batches of a box start, see `BoxSearch`.
        robust: fit by svgp with a Student-t likelihood, for which outliers count little.
        seed: of the first round; each round adds one.

    Raises:
        InputError: settings that no round could use.
    """

    target: str | Mapping[str, float]
    features: Mapping[str, str | None]
    id: str | None = None
    noise_variance: str | None = None
    batch: str | None = None
    drop_invalid: bool = False
    minimize: bool = False
    hit: float | None = None
    library: str | None = None
    bounds: Mapping[str, Any] | None = None
    integer: Sequence[str] = ()
    constraints: Sequence[str] = ()
    shared: Sequence[str] = ()
    q: int = 96
    temperatures: Sequence[float] = (1.0,)
    kind: str = "auto"
    transform: str = "auto"
    priors: str = "botorch"
    search_start: Start = BoxSearch.start
    robust: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.library is None) == (self.bounds is None):
            raise InputError("a campaign chooses from either a library or bounds; give one of the two")
        if self.bounds is not None and self.id is not None:
            raise InputError("id goes with a library; settings in a box have no names")
        if self.minimize and self.hit is not None:
            raise InputError("minimize and hit exclude each other; give one of the two")
        if self.several:
            self._check_several()
        check_likelihood(self.likelihood, self.kind, self.noise_variance is not None)
        self.request(1)
        self.search()

    def _check_several(self) -> None:
        check_weights(self.weights, self.noise_variance)
        if self.hit is not None:
            raise InputError("a value to hit goes with one target; leave hit out, or name one target")
        if self.transform == HELD_OUT:
            raise InputError(f"transform {HELD_OUT} is for one target; take auto, or a transform for all targets")

    @property
    def weights(self) -> dict[str, float]:
        """Target -> weight where there are several, else empty."""
        return {} if isinstance(self.target, str) else {str(name): weight for name, weight in self.target.items()}

    @property
    def targets(self) -> list[str]:
        """Columns of the targets, in order."""
        return [self.target] if isinstance(self.target, str) else list(self.weights)

    @property
    def several(self) -> bool:
        """Whether there are several targets, whose weighted sum is to improve."""
        return not isinstance(self.target, str)

    @property
    def goal(self) -> str:
        """What is to improve, in words."""
        return weighted_name(self.weights) or self.targets[0]

    def request(self, round: int, q: int | None = None) -> Request:
        """What a round (from 1) asks for."""
        temperature = Steps(tuple(self.temperatures))(round - 1, round)
        return Request(self.q if q is None else q, temperature, not self.minimize, seed=self.seed + round - 1)

    def search(self) -> BoxSearch:
        """How a box is searched."""
        return BoxSearch(start=self.search_start)

    @property
    def likelihood(self) -> str:
        """Of the fit."""
        return "student-t" if self.robust else "gaussian"

    @property
    def box(self) -> Box | None:
        """The box to choose from, if there is one."""
        if self.bounds is None:
            return None
        return Box(self.bounds, tuple(self.integer), tuple(self.constraints), tuple(self.shared))

    def in_folder(self, folder: Path) -> Settings:
        """These settings as a campaign in a folder keeps them: the path of the library counts from there."""
        if self.library is None:
            return self
        return replace(self, library=os.path.relpath(Path(self.library).resolve(), folder.resolve()))

    def library_path(self, folder: Path) -> str | None:
        """The library of a campaign in a folder."""
        return None if self.library is None else str(folder / self.library)

    def to_yaml(self) -> str:
        """The text of campaign.yaml; what has its default is left out if it is empty."""
        import yaml  # type: ignore[import-untyped]

        content = {name: _plain(value) for name, value in asdict(self).items()}
        content = {name: value for name, value in content.items() if value is not None and value != []}
        text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
        return HEADER + text

    @classmethod
    def from_yaml(cls, path: Path) -> Settings:
        """Read campaign.yaml.

        Raises:
            InputError: no such file, no YAML, or an entry that is unknown, missing or of another type.
        """
        import yaml

        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); start a campaign with campaign init") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            line = "" if mark is None else f" in line {mark.line + 1}"
            raise InputError(f"{path} is no YAML{line}; write lines such as 'q: 96'") from None
        if not isinstance(content, dict):
            raise InputError(f"{path} holds no settings; write lines such as 'q: 96'")
        for name, value in content.items():
            _check_entry(path, name, value)
        required = [field.name for field in fields(cls)[:2] if field.name not in content]
        if required:
            raise InputError(f"{path} has no {required[0]!r}; add the line")
        try:
            return cls(**{name: value for name, value in content.items() if value is not None})
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def _check_entry(path: Path, name: object, value: object) -> None:
    if name not in TYPES:
        raise InputError(f"{path}: unknown entry {name!r}{did_you_mean(name, TYPES)}; it knows {', '.join(TYPES)}")
    kind = TYPES[str(name)]
    number = kind is float and isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not number and (not isinstance(value, kind) or (kind is int and value is True)):
        raise InputError(f"{path}: {name} is {value!r}, not {WORDS[kind]}")


def _plain(value: Any) -> Any:
    """Mappings, lists and scalars only."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
