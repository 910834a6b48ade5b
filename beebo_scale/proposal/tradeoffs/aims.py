"""From a surrogate of several targets and a choice to what points are worth: front, reference point, limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...fronts import hypervolume, nondominated, reference_point
from ...outcomes import Outcomes
from ...screening import Table
from ...specs import Choice
from ...specs.aims import limits_in_words
from ...surrogates.data.pairs import PairsPosterior
from .worth import ADVANCE, FrontWorth, InsideWorth, ShortfallWorth, Worth, improvement

if TYPE_CHECKING:
    from ...surrogates import Surrogate
    from ...surrogates.data.tasks_and_batches import Task

PREDICTED_AT_ONCE = 1024
SHOWN = 1000  # measured rows that a run file lists, for its picture


@dataclass(frozen=True, eq=False)
class Aims:
    """What a choice is after.

    Attributes:
        posterior: of all targets.
        outcomes: heights and limits, in standardised units of the targets.
        front: heights of measured rows that no other dominates, n x m, above the reference and inside the limits.
        known: heights of all measured rows with all targets, n x m, and whether each keeps the limits, n.
        met: see `known`.
        names: of the targets with an aim.
        weights: of the sum that is to become large, t, where no target has a direction.
        floor: of that sum, the worst of measured rows.
        inputs: measured ones with all targets, n x d.
        notes: one line each.
    """

    posterior: PairsPosterior
    outcomes: Outcomes
    front: Tensor
    known: Tensor
    met: Tensor
    names: tuple[str, ...]
    weights: Tensor
    floor: float
    inputs: Tensor
    notes: tuple[str, ...] = ()

    @property
    def order(self) -> Tensor:
        """Measured inputs, those on the front first, then by their heights, n."""
        heights = self.known.clamp_min(0.0).prod(-1) if self.names else self.known.new_zeros(len(self.met))
        near = (self.known.unsqueeze(1) >= self.front).all(-1).any(-1) if len(self.front) else heights > torch.inf
        return (heights + near * (1.0 + heights.max()) + 2.0 * self.met * (1.0 + heights.max())).argsort(
            descending=True, stable=True
        )

    def worth(self, q: int, samples: int) -> Worth:
        """The energy of a batch of q."""
        if self.outcomes.limited and not bool(self.met.any()):
            return ShortfallWorth(self.outcomes)
        if self.names:
            m = len(self.names)
            advance = ADVANCE / (m * max(hypervolume(self.front), 1.0) ** ((m - 1) / m))
            factor = q * math.sqrt(self.posterior.amplitude) * advance
            return FrontWorth(improvement(self.outcomes, self.front, samples), factor)
        return InsideWorth(self.outcomes, self.weights, self.floor)

    @property
    def record(self) -> dict[str, Any]:
        """For the run file: reference, measured front and its hypervolume in own units, rows that keep the limits."""
        found: dict[str, Any] = {}
        if self.names:
            signs = self.front.new_tensor([s for s in self.outcomes.signs if s])
            own = signs * (self.front * self.outcomes.unit) + self.outcomes.reference
            found["aims"] = {
                name: "max" if s > 0 else "min" for name, s in zip(self.names, signs.tolist(), strict=True)
            }
            found["reference"] = dict(zip(self.names, self.outcomes.reference.tolist(), strict=True))
            found["front"] = [dict(zip(self.names, row, strict=True)) for row in own.tolist()]
            known = signs * (self.known * self.outcomes.unit) + self.outcomes.reference
            found["measured"] = [[float(f"{value:.6g}") for value in row] for row in known[:SHOWN].tolist()]
            found["hypervolume"] = hypervolume(self.front) * float(self.outcomes.unit.prod())
        if self.outcomes.limited:
            found["measured_inside_limits"] = int(self.met.sum())
        return found


def aims_of(surrogate: Surrogate, choice: Choice, device: torch.device | str = "cpu") -> Aims:
    """What a surrogate's targets and a choice ask for.

    The measured front is that of the posterior means at rows with all targets, so that noise makes no front.

    Raises:
        InputError: no row has all targets, or a reference point that no measured row comes near.
    """
    design, tasks = surrogate.design, surrogate.design.tasks
    posterior = design.of_pairs(surrogate.of_rows).to(device)
    names = tuple(task.name for task in tasks if task.aim)
    X = _complete(surrogate, posterior)
    mean = _means(posterior, X)  # n x t
    signs = tuple({"max": 1, "min": -1, "": 0}[task.aim] for task in tasks)
    low, high = (mean.new_tensor([_limit(task, side) for task in tasks]) for side in (0, 1))
    met = ((mean >= low) & (mean <= high)).all(-1)
    weights = choice.sign * mean.new_tensor([0.0 if names else task.weight for task in tasks])
    floor = float((mean @ weights).min())
    own = tuple(task.scale.own for task in tasks)
    bare = Outcomes(own, signs, mean.new_zeros(len(names)), mean.new_ones(len(names)), low, high)
    notes = []
    if bare.limited and not bool(met.any()):
        words = limits_in_words({task.name: task.limits for task in tasks if task.limited})
        notes.append(f"no measured row keeps {words} yet: the batch goes where that is likely, whatever its targets")
    if not names:
        return Aims(posterior, bare, mean[:0, :0], mean[:, :0], met, names, weights, floor, X, tuple(notes))
    Y = bare.heights(mean)  # signed own units, n x m
    reference = _reference(choice, names, Y[met] if bool(met.any()) else Y, bare)
    if not choice.reference:
        point = ", ".join(f"{name} {value:.4g}" for name, value in zip(names, reference.tolist(), strict=True))
        notes.append(f"the reference point is taken from the measured front: {point}; give another by --reference")
    unit = Y.std(0) if len(Y) > 1 else Y.new_zeros(len(names))
    outcomes = Outcomes(own, signs, reference, torch.where(unit > 0, unit, 1.0), low, high)
    heights = outcomes.heights(mean)
    inside = (heights > 0).all(-1) & met
    if not bool(inside.any()) and bool(met.any()):
        notes.append("no measured row is better than the reference point in all targets yet")
    front = heights[inside]
    return Aims(posterior, outcomes, front[nondominated(front)], heights, met, names, weights, floor, X, tuple(notes))


def check_measured(table: Table, choice: Choice) -> None:
    """Refuse what the measured values alone rule out, before a fit costs time.

    Raises:
        InputError: no row has all targets, or the reference point is better than every measured row in all targets.
    """
    if not (table.aims or table.limits) or table.y is None:
        return
    y, names = table.y, list(table.weights)
    together = ~np.isnan(y).any(axis=1)
    if not together.any():
        listed = ", ".join(names)
        raise InputError(
            f"{table.source}: no row has all of {listed}: what they are worth together is known of rows with all; "
            "measure some, or give the targets weights"
        )
    if choice.reference:
        aims = [names.index(name) for name in table.aims]
        signs = np.array([1.0 if table.aims[names[i]] == "max" else -1.0 for i in aims])
        point = np.array([choice.reference[names[i]] for i in aims])
        if (signs * y[together][:, aims] <= signs * point).all():
            words = ", ".join(f"{name}:{choice.reference[name]:g}" for name in table.aims)
            raise InputError(
                f"{table.source}: the reference point {words} is as good as every measured row in all targets, or "
                "better; give values that are just not good enough, or leave it out"
            )


def _complete(surrogate: Surrogate, posterior: PairsPosterior) -> Tensor:
    """Measured inputs with all targets, n x d."""
    X = surrogate.data.X.to(posterior.points)
    width, t = surrogate.encoder.width, posterior.tasks
    inputs, place = torch.unique(X[:, :width], dim=0, return_inverse=True)
    known = torch.zeros(len(inputs), t, dtype=torch.bool, device=X.device)
    known[place, X[:, width].round().long()] = True
    complete = inputs[known.all(-1)]
    if not len(complete):
        names = ", ".join(task.name for task in surrogate.design.tasks)
        raise InputError(f"no measured row has all of {names}: what they are worth together is known of rows with all")
    return complete


def _means(posterior: PairsPosterior, X: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([posterior.mean(x).reshape(len(x), -1) for x in X.split(PREDICTED_AT_ONCE)])


def _limit(task: Task, side: int) -> float:
    """A limit in standardised units; infinite where every value keeps it.

    Raises:
        InputError: no value of the transformed target keeps it.
    """
    value = task.limits[side]
    if not math.isfinite(value):
        return value
    if task.scale.transform in ("sqrt", "log") and value <= 0:  # such targets are never below zero
        if side == 0:
            return -math.inf
        if value < 0 or task.scale.transform == "log":
            raise InputError(
                f"--require {task.name}<={value:g}: no measured value of it is below zero; correct the limit"
            )
    return float(task.scale.standardise(torch.tensor(value, dtype=torch.float64)))


def _reference(choice: Choice, names: tuple[str, ...], Y: Tensor, outcomes: Outcomes) -> Tensor:
    signs = Y.new_tensor([s for s in outcomes.signs if s])
    if not choice.reference:
        return signs * reference_point(Y)
    return Y.new_tensor([choice.reference[name] for name in names])
