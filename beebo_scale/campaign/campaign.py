"""A campaign: start it, let it suggest, record what came out, look at it."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..proposal import encode_measured, measured_blocks, prepare_measured
from ..screening import Layout, Table
from ..screening.batch import into_place, write_text
from ..screening.columns import missing_text
from ..screening.files.opening import Source, open_source
from ..screening.invalid import listed
from ..screening.plates.picks import Picks
from ..screening.table import read_columns, read_measured
from .entry import enter, give_up
from .folder import Folder
from .outputs import check_pending
from .readings import read_results
from .results import ResultFile
from .rounds import unanswered
from .seal import changes, writing
from .settings import Settings
from .state import INITIAL, CampaignState, EntryCounts, columns
from .status import Status, status_of
from .suggestion import Plating, Suggestion, next_round, results_table, round_again, write_pending

if TYPE_CHECKING:
    import pandas as pd

    Listing = str | os.PathLike[str] | pd.DataFrame


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
        given = settings.columns
        file = open_source(measured, given.named)
        if settings.choice.choices is None:
            table = read_measured(file, given, settings.choice.library)
        else:
            aside = given.features is None and given.id in file.columns  # an id that is no feature
            table = read_columns(*measured_blocks(settings.choice, given if aside else replace(given, id=None), file))
        settings = replace(settings, columns=replace(given, features=dict(table.kinds), units=dict(table.units)))
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
            write_pending(self.folder, self.state())

    def suggest(
        self, q: int | None = None, layout: Layout | None = None, picks: Picks | None = None, another: bool = False
    ) -> Suggestion:
        """Fit all results, choose the next batch, and put it down as pending.

        The fit starts from the surrogate of the last round. What was measured, has failed or is pending is not
        proposed, and what is pending counts as information that will be there. If nothing was entered since the last
        round, that round is the answer, so that the call can be given again whatever became of it.

        Args:
            q: experiments of this round; None takes that of the settings.
            layout: where they go on plates; None makes no plate map. Plates without a name are called R1-P1 and so on.
            picks: what the pick list takes from where; None makes none.
            another: make one more round, although nothing was entered since the last one.

        Raises:
            InputError: as in `fit` and `propose`, another process holds the folder, or another number of experiments
                is asked for than the last round has, to which nothing was entered.
        """
        plating = Plating(layout, picks)
        with self.folder.locked():
            state = self.state()
            number = None if another else unanswered(self.folder)
            if number is None:
                return next_round(self.folder, state, q, plating)
            count = int((state.proposed["round"] == str(number)).sum())
            if q not in (None, count):
                raise InputError(
                    f"round {number} of {count} experiments is out and nothing was entered since; to have {q} more "
                    "proposed now, add --another"
                )
            return round_again(self.folder, state, number, plating)

    def again(self, number: int, layout: Layout | None = None, picks: Picks | None = None) -> Suggestion:
        """A round that was made, with the plate map and pick list written anew where these are asked for.

        Raises:
            InputError: there is no such round, or a map that somebody filled in would be lost.
        """
        with self.folder.locked():
            return round_again(self.folder, self.state(), number, Plating(layout, picks))

    def table(self) -> Table:
        """All results that have a value."""
        return results_table(self.folder, self.settings)

    def record(
        self,
        results: Listing,
        extra: bool = False,
        replicate: bool = False,
        drop_invalid: bool = False,
        ignore: bool = False,
        normalise: str | None = None,
    ) -> EntryCounts:
        """Enter results, all or none of them; see `entry.enter` and, for plates, `readings.read_results`.

        Args:
            results: rows with the target, or some of several, and either the id column, all features, or wells of the
                campaign's plate maps; or grids of a plate reader. Some of a batch, or several.
            extra: also enter what nobody proposed ...
            ignore: ... or skip it, and rows without an id.
            replicate: a second, different value is one more measurement, not an error.
            drop_invalid: leave out rows that cannot be read, which stay pending, instead of refusing the file.
            normalise: what becomes of the values first, plate by plate: "percent-of-control", "robust-z" or "b-score".

        Raises:
            InputError: rows that are refused, or another process holds the folder.
        """
        with self.folder.locked():
            state = self.state()
            check_pending(self.folder, results)
            readings = read_results(results, self.folder, state.settings, normalise)
            file = ResultFile.read(readings.source, state, drop_invalid=drop_invalid, skip_nameless=ignore)
            state, counts = enter(state, file, extra, replicate, ignore)
            counts.invalid, counts.notes = file.invalid, (*file.notes, *readings.notes)
            counts.controls = readings.controls
            if file.invalid:
                write_text(self.folder.left_out, listed(file.invalid))
            return self._keep(state, counts)

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
            write_pending(self.folder, state)
        return counts

    def status(self) -> Status:
        """Where the campaign stands; takes no lock."""
        return status_of(self.folder, self.state())


def _initial(file: Source, table: Table, settings: Settings) -> pd.DataFrame:
    """The first measured.csv: every row that has a target."""
    import pandas as pd

    frame = table.frame.copy()
    if settings.columns.id is not None and settings.columns.id not in frame:
        cells = pd.Series("", index=frame.index, dtype=object)
        if settings.columns.id in file.columns:
            assert table.numbers is not None
            places = table.numbers - 1 - file.before
            raw = file.load([settings.columns.id])[settings.columns.id].iloc[places].astype(object)
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
