"""A campaign: start it, let it suggest, record what came out, look at it."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..proposal import choose, encode_measured, measured_blocks, prepare_measured
from ..proposal.provenance import input_hashes
from ..screening import Batch, EncodedTable, Encoder, Layout, Table, write_plates
from ..screening.batch import into_place, write_text
from ..screening.columns import missing_text
from ..screening.files.opening import Source, open_source
from ..screening.invalid import listed
from ..screening.table import read_columns
from ..surrogates import Surrogate, fit, load_surrogate
from ..surrogates.outliers import far_out, few_values
from .entry import enter, give_up
from .folder import Folder
from .outputs import check_pending, check_round
from .results import ResultFile
from .seal import changed_inputs, changes, writing
from .settings import Settings
from .state import INITIAL, CampaignState, EntryCounts, columns
from .status import Status, status_of

if TYPE_CHECKING:
    import pandas as pd

    Listing = str | os.PathLike[str] | pd.DataFrame

LOOK = "look at them, or take likelihood: student-t (campaign init --robust) or transform: rank"


@dataclass(frozen=True)
class Suggestion:
    """A round's batch.

    Attributes:
        batch: what was proposed.
        round: its number, from 1.
        path: the file of the batch.
        plates: plate map and picture, where a plate was asked for.
        notes: what a user should know, one line each.
    """

    batch: Batch
    round: int
    path: Path
    plates: tuple[Path, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Campaign:
    """A campaign in one folder (see `folder.py` for the files); several processes may use it at once.

    Attributes:
        folder: where its files are.
    """

    folder: Folder

    @classmethod
    def create(cls, path: str | os.PathLike[str], measured: Listing | Source, settings: Settings) -> Campaign:
        """Start a campaign in a new folder, see `started`."""
        return cls.started(path, measured, settings)[0]

    @classmethod
    def started(
        cls, path: str | os.PathLike[str], measured: Listing | Source, settings: Settings
    ) -> tuple[Campaign, Table]:
        """Start a campaign in a new folder; also the table of the first results.

        Args:
            path: of the folder, new or empty.
            measured: results so far, with features, targets, and id if the library has one; rows without any target
                are left out.
            settings: of the campaign; a kind of None is inferred.

        Raises:
            InputError: the folder holds something, or no round could be suggested with these files and settings.
        """
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} exists already; give a new folder, or go on with campaign suggest")
        file, given = open_source(measured), settings.columns
        aside = given.features is None and given.id in file.columns  # an id that is no feature
        table = read_columns(*measured_blocks(settings.choice, given if aside else replace(given, id=None), file))
        settings = replace(settings, columns=replace(given, features=dict(table.kinds)))
        first = settings.of_round(1)
        encoded = encode_measured(table, first.choice, given.drop_invalid)
        prepare_measured(first.choice, encoded, given.id, given.drop_invalid)
        frame = _initial(file, table, settings)
        with _new(folder) as new:
            new.make()
            write_text(new.measured, frame)
            if table.invalid:
                write_text(new.dropped, listed(table.invalid))
            text = settings.in_folder(folder).to_yaml()
            new.settings.write_text(text, encoding="utf-8")
            with writing(new):
                cls(new).refresh()
        return cls(Folder(folder)), table

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Campaign:
        """A campaign that was started before.

        Raises:
            InputError: there is none, or its settings cannot be read.
        """
        campaign = cls(Folder(Path(path)))
        if not campaign.folder.settings.exists() and not campaign.folder.measured.exists():
            raise InputError(f"{path} is no campaign: it has no campaign.yaml; start one with campaign init")
        campaign.changes()
        Settings.from_yaml(campaign.folder.settings)
        return campaign

    def changes(self) -> list[str]:
        """What was done to the files since the last command, one line each; see `seal.changes`."""
        return changes(self.folder)

    @property
    def settings(self) -> Settings:
        """The settings as they stand in the folder now."""
        return Settings.from_yaml(self.folder.settings)

    def state(self) -> CampaignState:
        """Results and proposals as they stand in the folder now.

        Raises:
            InputError: as in `changes`, or a file is damaged.
        """
        self.changes()  # first: what was cut is said as such
        return CampaignState.read(self.folder, self.settings)

    def refresh(self) -> None:
        """Write pending.csv anew."""
        with self.folder.locked():
            self._refresh(self.state())

    def _refresh(self, state: CampaignState) -> None:
        write_text(self.folder.pending, state.waiting)

    def suggest(self, q: int | None = None, layout: Layout | None = None) -> Suggestion:
        """Fit all results, choose the next batch, and put it down as pending.

        The fit starts from the surrogate of the last round. What was measured, has failed or is pending is not
        proposed, and what is pending counts as information that will be there.

        Args:
            q: experiments of this round; None takes that of the settings.
            layout: where they go on plates; None makes no plate map.

        Raises:
            InputError: as in `fit` and `propose`, or another process holds the folder.
        """
        with self.folder.locked():
            state = self.state()
            number = max(self.folder.rounds(), default=0) + 1
            settings = state.settings.from_folder(self.folder.path).of_round(number, q)
            self.folder.make()
            table = self.table()
            notes = self.changes()
            failed = _some(state.features(state.failed))
            choice = settings.choice.but(
                pending=_some(state.features(state.pending)), exclude=(failed, settings.choice.exclude)
            )
            path, files = self.folder.batch(number), choice.files
            check_round(self.folder, path, layout is not None, files)
            measured = encode_measured(table, choice, settings.columns.drop_invalid)
            prepared = prepare_measured(choice, measured, settings.columns.id, settings.columns.drop_invalid)
            notes += [prepared.described] if prepared.described else []
            inputs = {name: prepared.inputs[file] for name, file in files.items() if file in prepared.inputs}
            notes += changed_inputs(self.folder, inputs, files, number)
            started = time.monotonic()
            surrogate, fit_notes = self._fit(measured, settings, number)
            far = far_out(surrogate, table)
            notes += [*fit_notes, *few_values(table), *([f"{far}: {LOOK}"] if far else [])]
            seconds = round(time.monotonic() - started, 3)
            batch = choose(prepared, surrogate)
            batch.run["campaign"] = {"round": number, "pending": len(state.pending), "failed": len(state.failed)}
            batch.run["measured"] = {"source": table.source, "rows": len(table), "dropped": table.dropped}
            batch.run["inputs"] |= input_hashes(str(self.folder.measured), str(self.folder.settings))
            batch.run["timings"] = {"fit_seconds": seconds} | batch.run["timings"]
            with writing(self.folder, inputs=inputs):
                surrogate.save(self.folder.model(number))
                plates = () if layout is None else tuple(write_plates(batch.frame, path, layout))
                batch.write(path)  # last: this file makes the round
                self._refresh(self.state())
        return Suggestion(batch, number, path, plates, (*notes, *batch.notes))

    def table(self) -> Table:
        """All results that have a value."""
        return read_columns(self.folder.measured, replace(self.settings.columns, id=None, drop_invalid=False))

    def _fit(self, measured: EncodedTable, settings: Settings, number: int) -> tuple[Surrogate, list[str]]:
        """The surrogate of a round, warm from the last one's if that is still of use."""
        notes: list[str] = []
        last, warm = self.folder.model(number - 1), None
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

    def record(self, results: Listing, extra: bool = False, replicate: bool = False) -> EntryCounts:
        """Enter results, all or none of them; see `record.enter`.

        Args:
            results: rows with the target, or some of several, and either the id column or all features; some of a
                batch, or several.
            extra: also enter what nobody proposed.
            replicate: a second, different value is one more measurement, not an error.

        Raises:
            InputError: rows that are refused, or another process holds the folder.
        """
        with self.folder.locked():
            state = self.state()
            check_pending(self.folder, results)
            return self._keep(*enter(state, ResultFile.read(results, state), extra, replicate))

    def give_up(self, rows: Listing) -> EntryCounts:
        """Take experiments off what is pending without a result; they may be proposed again.

        Args:
            rows: with the id column or all features; a round's batch file, or pending.csv for all.

        Raises:
            InputError: rows that are not pending, or another process holds the folder.
        """
        with self.folder.locked():
            state = self.state()
            check_pending(self.folder)
            return self._keep(*give_up(state, ResultFile.read(rows, state, with_target=False)))

    def _keep(self, state: CampaignState, counts: EntryCounts) -> EntryCounts:
        with writing(self.folder, self.folder.measured):
            write_text(self.folder.measured, state.measured)
            self._refresh(state)
        return counts

    def status(self) -> Status:
        """Where the campaign stands; takes no lock."""
        return status_of(self.folder, self.state())


def _some(frame: pd.DataFrame) -> pd.DataFrame | None:
    """A frame that has rows."""
    return frame if len(frame) else None


def _initial(file: Source, table: Table, settings: Settings) -> pd.DataFrame:
    """The first measured.csv: every row that has a target."""
    import pandas as pd

    frame = table.frame.copy()
    if settings.columns.id is not None and settings.columns.id not in frame:
        cells = pd.Series("", index=frame.index, dtype=object)
        if settings.columns.id in file.columns:
            assert table.numbers is not None
            raw = file.load([settings.columns.id])[settings.columns.id].iloc[table.numbers - 1].astype(object)
            cells = raw.where(~missing_text(raw), "")
        frame.insert(0, settings.columns.id, cells.to_numpy())
    assert table.y is not None
    for name, y in zip(settings.columns.targets, table.y.reshape(len(table), -1).T, strict=True):
        frame[name] = y
    if settings.columns.noise_variance is not None:
        frame[settings.columns.noise_variance] = table.noise_variance
    if settings.columns.batch is not None:
        frame[settings.columns.batch] = table.batch
    frame["round"], frame["rank"], frame["status"] = "", "", INITIAL
    return frame[columns(settings)]


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


@contextmanager
def _new(folder: Path) -> Iterator[Folder]:
    """A folder that gets its name when it is complete, and is gone if it never is."""
    parent = folder.absolute().parent
    temporary = parent / f".{secrets.token_hex(4)}.{folder.absolute().name}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        yield Folder(temporary)
        into_place(temporary, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}); give another folder") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
