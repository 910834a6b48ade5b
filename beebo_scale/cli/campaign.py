"""`beebo-scale campaign`: round after round in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..screening.plates.normalise import NORMALISE
from .arguments import COUNT
from .faces import FACES
from .outputs import add_plate_options, layout_of, picks_of
from .suggest import MEASURED

if TYPE_CHECKING:
    from ..campaign import Campaign
    from ..campaign.state import CampaignState, EntryCounts
    from ..campaign.status import Round, Status

FACE = FACES["campaign init"]
ACTIONS = {
    "init": "Start a campaign in a new folder from what was measured so far.",
    "suggest": "Fit all results and choose the next batch, which is pending from then on.",
    "record": "Enter results of pending experiments, in whatever pieces they come.",
    "status": "Say where the campaign stands.",
}


def add_options(parser: ArgumentParser) -> None:
    """None: the actions have them."""


def add_actions(parser: ArgumentParser) -> None:
    """The four actions with their options; jsonargparse takes them only once the command has its place."""
    actions = parser.add_subcommands(required=True, dest="action", metavar="ACTION")
    options = {"init": _init_options, "suggest": _suggest_options, "record": _record_options, "status": None}
    for name, add_options in options.items():
        action = ArgumentParser(description=ACTIONS[name], exit_on_error=False, allow_abbrev=False)
        action.add_argument("folder", type=str, help="of the campaign")
        if add_options is not None:
            add_options(action)
        actions.add_subcommand(name, action, help=ACTIONS[name])


def _init_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add("--measured", type=str, required=True, help=MEASURED)
    FACE.add_to(parser)


def _suggest_options(parser: ArgumentParser) -> None:
    parser.add_argument("-q", "--q", type=COUNT, help="experiments of this round; default: that of the settings")
    add = parser.add_argument
    add("--another", action="store_true", help="one more round, although nothing was entered since the last one")
    add("--round", type=COUNT, help="show this round again, and write its plate map or pick list anew")
    add_plate_options(parser)


def _record_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--results",
        type=str,
        help="results: the target, or some of several, and either the id, all features, or plate and well of our plate "
        "maps; or grids of a plate reader under the plates' names; no value of any: it failed",
    )
    add("--extra", action="store_true", help="also enter what was not proposed")
    add("--replicate", action="store_true", help="a second, different value is one more measurement")
    add(
        "--drop-invalid",
        action="store_true",
        help="leave out rows that cannot be read; they stay pending, and are listed",
    )
    add("--ignore-unknown", action="store_true", help="skip rows that nobody proposed, and rows without an id")
    add(
        "--normalise",
        choices=NORMALISE,
        help="of plates, by their maps: percent-of-control takes the wells negative for 0 and positive for 100",
    )
    add("--give-up", type=str, help="file of pending experiments that will not be tried; they may be proposed again")


def run(options: Namespace) -> Any:
    """Do what was asked for and say what came of it."""
    actions = {"init": _init, "suggest": _suggest, "record": _record, "status": _status}
    return actions[options.action](options[options.action])


def _init(options: Namespace) -> Campaign:
    columns, fitting, choice, rounds = FACE.read(options)
    from ..campaign.settings import Settings
    from ..screening.files.opening import open_source
    from ..screening.invalid import told
    from ..screening.table import find_columns

    settings = Settings(columns, fitting, choice, rounds.written_out())
    file = open_source(options.measured, columns.named)
    if choice.choices is None:
        find_columns(file, replace(columns, id=None))  # before torch takes its time
    else:
        from ..screening.products import open_product

        print(open_product(choice.choices, columns.features, columns.id).describe(), flush=True)

    from ..campaign import Campaign

    campaign, table = Campaign.started(options.folder, file, settings)
    print(f"{options.folder}: a campaign with {campaign.status().initial} results\n{table.describe()}")
    if table.invalid:
        print(told(table.invalid, campaign.folder.dropped))
    return campaign


def _say_changes(campaign: Campaign) -> list[str]:
    """What was done to its files since the last command."""
    notes = campaign.changes()
    for note in notes:
        print(f"note: {note}", flush=True)
    return notes


def _suggest(options: Namespace) -> Any:
    from ..campaign import Campaign
    from ..screening.batch import dropped_path
    from ..screening.invalid import told
    from ..screening.plates.layout import check_map_columns

    campaign = Campaign.open(options.folder)
    said = _say_changes(campaign)
    layout = layout_of(options, campaign.settings.choice.seed)
    if layout is not None:
        check_map_columns([*campaign.settings.columns.features, str(campaign.settings.columns.id)])
    picks = picks_of(options, campaign.settings.columns.id)
    if options.round is None:
        suggestion = campaign.suggest(options.q, layout, picks, options.another)
    elif options.q is not None or options.another:
        raise InputError("--round shows a round that is there; -q and --another make one")
    else:
        suggestion = campaign.again(options.round, layout, picks)
    for note in suggestion.notes:
        if note not in said:
            print(f"note: {note}")
    count, before = len(suggestion.batch.frame), suggestion.batch.run.get("campaign", {}).get("pending", 0)
    waiting = f"; {before} from earlier rounds are pending, too" if before else ""
    if suggestion.again:
        asked = options.round is not None
        why = "" if asked else ", which was there already: nothing was entered since (--another makes one more)"
        print(f"this is round {suggestion.round} as it was made{why}")
        waiting = ""
    print(f"{suggestion.path}: {count} experiments of round {suggestion.round}{waiting}")
    if suggestion.batch.invalid:
        print(told(suggestion.batch.invalid, dropped_path(suggestion.path)))
    for path in suggestion.plates:
        print(path)
    return suggestion


def _record(options: Namespace) -> EntryCounts:
    if (options.results is None) == (options.give_up is None):
        raise InputError("give either --results FILE or --give-up FILE")
    from ..campaign import Campaign
    from ..screening.invalid import told

    campaign = Campaign.open(options.folder)
    _say_changes(campaign)
    if options.give_up is not None:
        named = ("extra", "replicate", "drop_invalid", "ignore_unknown", "normalise")
        given = [f"--{name.replace('_', '-')}" for name in named if options[name]]
        if given:
            raise InputError(f"{', '.join(given)} go with --results; --give-up only names experiments")
        counts = campaign.give_up(options.give_up)
    else:
        if options.extra and options.ignore_unknown:
            raise InputError("--extra enters what nobody proposed, --ignore-unknown skips it; give one of the two")
        counts = campaign.record(
            options.results,
            options.extra,
            options.replicate,
            options.drop_invalid,
            options.ignore_unknown,
            options.normalise,
        )
    for note in counts.notes:
        print(f"note: {note}")
    state = campaign.state()
    values, still = _by_target(counts, state) if state.settings.columns.several else ("", "")
    print(f"{options.results or options.give_up}: {_said(counts)}{values}")
    if counts.invalid:
        print(told(counts.invalid, campaign.folder.left_out))
    print(f"{len(state.pending)} experiments are pending{still}")
    return counts


def _said(counts: EntryCounts) -> str:
    """What became of the rows, in words."""
    parts = {
        "results entered": counts.measured,
        "failed (without a value)": counts.failed,
        "that nobody proposed": counts.extra,
        "further replicates": counts.replicates,
        "rows without a value": counts.empty,
        "given up": counts.given_up,
        "known already": counts.known,
        "ignored, as nobody proposed them": counts.ignored,
    } | {f"wells of the control {role}": count for role, count in counts.controls.items()}
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "nothing new"


def _by_target(counts: EntryCounts, state: CampaignState) -> tuple[str, str]:
    """' (ic50 96; no column solubility)' and '; still out: solubility 96', or nothing."""
    absent = f"no column {', '.join(counts.absent)}" if counts.absent else ""
    values = "; ".join(filter(None, [_counts(counts.values), absent]))
    out = _counts(dict(zip(state.settings.columns.targets, state.out.sum(axis=0).tolist(), strict=True)))
    return f" ({values})" if values else "", f"; still out: {out}" if out else ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)


def _status(options: Namespace) -> Status:
    from ..campaign import Campaign

    campaign = Campaign.open(options.folder)
    _say_changes(campaign)
    columns, status = campaign.settings.columns, campaign.status()
    values = f" ({_counts(status.values)})" if columns.several else ""
    others = f", {status.others} replicates and others" if status.others else ""
    print(f"{options.folder}: {status.initial} results before round 1{values}{others}")
    if status.rounds:
        print("\n".join(_rounds(status.rounds, columns.several)))
    if status.best is not None and status.objective is not None:
        names = dict.fromkeys([*filter(None, [columns.id]), *columns.features])
        what = [f"{name} {status.best[name]}" for name in names if status.best[name]]
        when = f"round {status.best['round']}" if status.best["round"] else status.best["status"]
        goal = columns.goal
        if columns.several:
            goal += " in standard deviations:"
            what = [f"{name} {float(status.best[name]):g}" for name in columns.targets if status.best[name]] + what
        print(f"best so far: {goal} {status.objective:g} ({', '.join(what)}; {when})")
    return status


def _rounds(rounds: Sequence[Round], several: bool) -> list[str]:
    """A table; of several targets with what is still out of each."""
    widths = {"round": 5, "T": 7, "proposed": 9, "measured": 9, "failed": 7, "given up": 9, "pending": 8}
    widths |= {"partly in": 10, "best": 9} if several else {"": 0, "best": 0}
    lines = [[*widths, " still out" if several else ""]]
    for r in rounds:
        t, best = ("" if value is None else f"{value:g}" for value in (r.temperature, r.best))
        cells = [r.number, t or "?", r.proposed, r.measured, r.failed, r.given_up, r.pending]
        lines.append([*map(str, cells), *([str(r.partial), best, " " + _counts(r.out)] if several else ["", best, ""])])
    padded = (zip(line, [*widths.values(), 0], strict=True) for line in lines)
    return [" ".join(f"{cell:>{width}}" for cell, width in line).rstrip() for line in padded]
