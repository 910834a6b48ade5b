"""What a round is made of: the fit, the choice, and where it goes on plates."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..archives import file_sum
from ..errors import InputError
from ..proposal import choose, encode_measured, prepare_measured
from ..proposal.provenance import input_hashes
from ..screening import Batch, EncodedTable, Encoder, Layout, Table, write_plates
from ..screening.batch import write_text
from ..screening.outputs import batch_outputs, check_outputs
from ..screening.plates.layout import filled_map
from ..screening.plates.picks import Picks, write_picks
from ..screening.table import read_columns
from ..surrogates import Surrogate, fit, load_surrogate
from ..surrogates.outliers import far_out, few_values
from .folder import Folder
from .outputs import check_pending, check_round
from .rounds import SEEN, made
from .seal import changed_inputs, changes, writing
from .settings import Settings
from .state import CampaignState

if TYPE_CHECKING:
    import pandas as pd

LOOK = "look at them, or take likelihood: student-t (campaign init --robust) or transform: rank"


@dataclass(frozen=True)
class Suggestion:
    """A round's batch.

    Attributes:
        batch: what was proposed.
        round: its number, from 1.
        path: the file of the batch.
        plates: plate map, picture and pick list, where these were asked for.
        notes: what a user should know, one line each.
        again: whether the round was there already.
    """

    batch: Batch
    round: int
    path: Path
    plates: tuple[Path, ...]
    notes: tuple[str, ...]
    again: bool = False


@dataclass(frozen=True)
class Plating:
    """Where the experiments of a round go.

    Attributes:
        layout: how plates are filled; None makes no plate map.
        picks: what the pick list takes from where; None makes none.
    """

    layout: Layout | None = None
    picks: Picks | None = None

    def named(self, number: int) -> Plating:
        """With the names of a round, R2-P1, unless the plates have one."""
        return (
            self
            if self.layout is None or self.layout.name
            else Plating(replace(self.layout, name=f"R{number}"), self.picks)
        )

    def write_maps(self, batch: Batch, path: Path) -> tuple[Path, ...]:
        """The plate map and its picture, beside the batch."""
        return () if self.layout is None else tuple(write_plates(batch.frame, path, self.layout))

    def picked(self, suggestion: Suggestion) -> Suggestion:
        """With the pick list, which comes after all else: a stock that is too small is no reason to lose a round."""
        if self.layout is None or self.picks is None:
            return suggestion
        path = write_picks(filled_map(suggestion.batch.frame, self.layout), suggestion.path, self.picks)
        notes = (*suggestion.notes, *self.picks.stock.notes)
        return replace(suggestion, plates=(*suggestion.plates, path), notes=notes)


def next_round(folder: Folder, state: CampaignState, q: int | None, plating: Plating) -> Suggestion:
    """Make one more round of a campaign whose lock is held; see `Campaign.suggest`."""
    number = max(folder.rounds(), default=0) + 1
    settings, plating = state.settings.from_folder(folder.path).of_round(number, q), plating.named(number)
    folder.make()
    table, notes = results_table(folder, state.settings), changes(folder)
    failed = _some(state.features(state.failed))
    choice = settings.choice.but(
        pending=_some(state.features(state.pending)), exclude=(failed, settings.choice.exclude)
    )
    path, files = folder.batch(number), choice.files
    check_round(folder, path, plating.layout is not None, plating.picks is not None, files)
    measured = encode_measured(table, choice, settings.columns.drop_invalid)
    prepared = prepare_measured(choice, measured, settings.columns.id, settings.columns.drop_invalid)
    notes += [prepared.described] if prepared.described else []
    inputs = {name: prepared.inputs[file] for name, file in files.items() if file in prepared.inputs}
    notes += changed_inputs(folder, inputs, files, number)
    started = time.monotonic()
    surrogate, fit_notes = _fit(folder, measured, settings, number)
    far = far_out(surrogate, table)
    notes += [*fit_notes, *few_values(table), *([f"{far}: {LOOK}"] if far else [])]
    seconds = round(time.monotonic() - started, 3)
    batch = choose(prepared, surrogate)
    counts = {"pending": len(state.pending), "failed": len(state.failed)}
    batch.run["campaign"] = {"round": number, **counts, SEEN: file_sum(folder.measured)}
    batch.run["measured"] = {"source": table.source, "rows": len(table), "dropped": table.dropped}
    batch.run["inputs"] |= input_hashes(str(folder.measured), str(folder.settings))
    batch.run["timings"] = {"fit_seconds": seconds} | batch.run["timings"]
    with writing(folder, inputs=inputs):
        surrogate.save(folder.model(number))
        plates = plating.write_maps(batch, path)
        batch.write(path)  # last: this file makes the round
        write_pending(folder, CampaignState.read(folder, state.settings))
    return plating.picked(Suggestion(batch, number, path, plates, (*notes, *batch.notes)))


def round_again(folder: Folder, state: CampaignState, number: int, plating: Plating) -> Suggestion:
    """A round that is there, with its plate map and pick list written anew where these are asked for."""
    batch, path, plating = made(folder, number), folder.batch(number), plating.named(number)
    check_pending(folder)
    if plating.layout is not None:
        check_outputs(batch_outputs(path, True, picks=plating.picks is not None)[2:], [])
    plates = plating.write_maps(batch, path)
    with writing(folder):
        write_pending(folder, state)
    return plating.picked(Suggestion(batch, number, path, plates, batch.notes, again=True))


def results_table(folder: Folder, settings: Settings) -> Table:
    """All results that have a value."""
    return read_columns(folder.measured, replace(settings.columns, id=None, drop_invalid=False))


def write_pending(folder: Folder, state: CampaignState) -> None:
    """Write pending.csv anew."""
    write_text(folder.pending, state.waiting)


def _some(frame: pd.DataFrame) -> pd.DataFrame | None:
    """A frame that has rows."""
    return frame if len(frame) else None


def _fit(folder: Folder, measured: EncodedTable, settings: Settings, number: int) -> tuple[Surrogate, list[str]]:
    """The surrogate of a round, warm from the last one's if that is still of use."""
    notes: list[str] = []
    last, warm = folder.model(number - 1), None
    if last.exists():
        try:
            warm = load_surrogate(last)
            difference = _difference(warm, measured.encoder, settings)
        except InputError as error:
            notes.append(f"the fit starts anew: {error}")
        else:
            if difference:
                notes.append(f"the fit starts anew: {last.name} {difference}")
                warm = None
    surrogate = fit(measured, fitting=settings.fitting, warm_start=warm, minimize=settings.choice.direction)
    if surrogate.report.warning:
        notes.append(surrogate.report.warning)
    if surrogate.scale.transform != "none":
        notes.append(f"{surrogate.target} is modelled as the {surrogate.scale.words}")
    return surrogate, [*notes, *surrogate.notes]


def _difference(surrogate: Surrogate, encoder: Encoder, settings: Settings) -> str:
    """Why no fit of a campaign can start from a surrogate; empty if one can."""
    design, known, columns = surrogate.design, surrogate.encoder, settings.columns
    same_batch = (design.batch is None) == (columns.batch is None)
    if [task.name for task in design.tasks] != list(columns.weights) or not same_batch:
        return f"is {design.words}"
    if settings.fitting.combine not in ("auto", "likelihood", surrogate.design.combine):
        return "has another kernel"
    same = known.kinds == encoder.kinds and known.width == encoder.width
    return "" if same and surrogate.priors == settings.fitting.priors else "knows other features"
