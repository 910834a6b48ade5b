"""`beebo-scale campaign`: round after round in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..campaign import Campaign, Settings
from ..campaign.state import Books
from ..campaign.status import Round, Status
from ..campaign.tally import Tally
from ..errors import InputError
from ..kernels.screen import PRIORS
from ..proposal.box.ascent import STARTS
from ..screening import Layout, Table, check_names, read_table
from ..screening.invalid import dropped_path, told
from ..screening.targets import parse_target
from ..surrogates import KINDS
from ..surrogates.data.target import TRANSFORMS
from ..temperature import ExploitLast, Steps
from . import plates, temperatures
from .arguments import number, parse_bounds, parse_features, parse_names, whole_number
from .choice import BATCH, DROP_INVALID, ROBUST, TARGET, measured_id

HELP = "Keep a campaign of several rounds in one folder: init, suggest, record, status."
ACTIONS = {
    "init": "Start a campaign in a new folder from what was measured so far.",
    "suggest": "Fit all results and choose the next batch, which is pending from then on.",
    "record": "Enter results of pending experiments, in whatever pieces they come.",
    "status": "Say where the campaign stands.",
}


def build_parser() -> ArgumentParser:
    """The parser of the command, still without its actions."""
    return ArgumentParser(description=HELP, exit_on_error=False, allow_abbrev=False)


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
    add(
        "--measured",
        type=str,
        required=True,
        help="results so far: CSV, TSV (also .gz, .xz), Excel (FILE.xlsx#SHEET) or Parquet",
    )
    add("--target", type=str, required=True, help=TARGET)
    add("--features", nargs="+", metavar="COLUMN:KIND", help="as in suggest; without it every other column")
    add("--id", type=str, help="column that names the rows of the library")
    add("--noise-variance", type=str, help="column with the known variance of each target")
    add("--batch", type=str, help=f"{BATCH}; files of results have it, too")
    add("--robust", action="store_true", help=ROBUST)
    add("--library", type=str, help="candidates to choose from")
    add("--bounds", nargs="+", metavar="COLUMN:LOW:HIGH", help="a box instead of a library, as in suggest")
    add("--integer", nargs="+", metavar="COLUMN", help="columns of the box that take whole numbers only")
    add("--constraint", nargs="+", metavar="TEXT", help="linear limits in the box, such as 'acid + 2*base <= 80'")
    add("--shared", nargs="+", metavar="COLUMN", help="columns that are the same in a whole batch")
    add("--drop-invalid", action="store_true", help=DROP_INVALID)
    add("-q", "--q", type=whole_number, default=96, help="experiments of a round")
    temperatures.add_options(add, "T' = 0")
    add("--rounds", type=whole_number, help="rounds that --schedule leads over, and the last of --exploit-last")
    add("--minimize", action="store_true", help="small targets are good")
    add("--hit", type=number, help="a value that the target should come close to")
    add("--kind", choices=KINDS, default="auto", help="surrogate")
    add("--transform", choices=TRANSFORMS, default="auto", help="of the target")
    add("--priors", choices=PRIORS, default="botorch", help="of the hyperparameters")
    add("--search-start", choices=STARTS, default=Settings.search_start, help="where batches of a box start")
    add("--seed", type=whole_number, default=0, help="of the first round; each round adds one")


def _suggest_options(parser: ArgumentParser) -> None:
    parser.add_argument("-q", "--q", type=whole_number, help="experiments of this round; default: that of the settings")
    plates.add_options(parser)


def _record_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--results",
        type=str,
        help="results: the target, or some of several, and either the id or all features; no value of any: it failed",
    )
    add("--extra", action="store_true", help="also enter what was not proposed")
    add("--replicate", action="store_true", help="a second, different value is one more measurement")
    add("--give-up", type=str, help="file of pending experiments that will not be tried; they may be proposed again")


def run(options: Namespace) -> Any:
    """Do what was asked for and say what came of it."""
    actions = {"init": _init, "suggest": _suggest, "record": _record, "status": _status}
    return actions[options.action](options[options.action])


def _init(options: Namespace) -> Campaign:
    for flag in ("minimize", "drop_invalid", "robust", "exploit_last"):
        if not isinstance(options[flag], bool):  # from a configuration file
            raise InputError(f"{flag}: {options[flag]!r} is neither true nor false")
    table = _measured(options)
    settings = Settings(
        target=parse_target(options.target),
        features=table.kinds,
        bounds=None if options.bounds is None else parse_bounds(options.bounds),
        integer=parse_names(options.integer),
        constraints=_texts(options.constraint),
        shared=parse_names(options.shared),
        temperatures=_temperatures(options),
        **{
            name: options[name]
            for name in (
                "id",
                "noise_variance",
                "batch",
                "robust",
                "drop_invalid",
                "library",
                "q",
                "minimize",
                "hit",
                "kind",
                "transform",
                "priors",
                "search_start",
                "seed",
            )
        },
    )
    campaign = Campaign.create(options.folder, options.measured, settings)
    print(f"{options.folder}: a campaign with {campaign.status().initial} results\n{table.describe()}")
    if table.invalid:
        print(told(table.invalid, campaign.folder.dropped))
    return campaign


def _measured(options: Namespace) -> Table:
    """The first results; features are those asked for, or every column without another use."""
    features = None if options.features is None else parse_features(options.features)
    id = None if options.library is None else measured_id(options)  # Settings refuses it with a box
    noise, drop = options.noise_variance, options.drop_invalid
    return read_table(options.measured, parse_target(options.target), features, id, noise, drop, options.batch)


def _texts(given: Any) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _temperatures(options: Namespace) -> tuple[float, ...]:
    """T' of each round, written out."""
    steps = temperatures.written_out(options)
    if not options.exploit_last:
        if options.schedule is None and options.rounds is not None:
            raise InputError(
                "--rounds goes with --schedule or --exploit-last; otherwise give T' of each round as --temperatures"
            )
        return steps
    if options.rounds is None or options.rounds < 1:
        raise InputError("--exploit-last needs --rounds N: T' = 0 in the last of them")
    if len(steps) > options.rounds:
        raise InputError(f"--temperatures has {len(steps)} for --rounds {options.rounds}; leave some out")
    schedule = ExploitLast(Steps(steps))
    return tuple(schedule(k, options.rounds) for k in range(options.rounds))


def _suggest(options: Namespace) -> Any:
    campaign = Campaign.open(options.folder)
    layout: Layout | None = plates.layout_of(options, campaign.settings.seed)
    if layout is not None:
        check_names([*campaign.settings.features, str(campaign.settings.id)])
    suggestion = campaign.suggest(options.q, layout)
    for note in suggestion.notes:
        print(f"note: {note}")
    count, before = len(suggestion.batch.frame), suggestion.batch.run["campaign"]["pending"]
    waiting = f"; {before} from earlier rounds are pending, too" if before else ""
    print(f"{suggestion.path}: {count} experiments of round {suggestion.round}{waiting}")
    if suggestion.batch.invalid:
        print(told(suggestion.batch.invalid, dropped_path(suggestion.path)))
    for path in suggestion.plates:
        print(path)
    return suggestion


def _record(options: Namespace) -> Tally:
    if (options.results is None) == (options.give_up is None):
        raise InputError("give either --results FILE or --give-up FILE")
    campaign = Campaign.open(options.folder)
    if options.give_up is not None:
        if options.extra or options.replicate:
            raise InputError("--extra and --replicate go with --results")
        tally = campaign.give_up(options.give_up)
    else:
        tally = campaign.record(options.results, options.extra, options.replicate)
    books = campaign.books()
    values, still = _by_target(tally, books) if books.settings.several else ("", "")
    print(f"{options.results or options.give_up}: {_said(tally)}{values}")
    print(f"{len(books.pending)} experiments are pending{still}")
    return tally


def _said(tally: Tally) -> str:
    """What became of the rows, in words."""
    parts = {
        "results entered": tally.measured,
        "failed (without a value)": tally.failed,
        "that nobody proposed": tally.extra,
        "further replicates": tally.replicates,
        "rows without a value": tally.empty,
        "given up": tally.given_up,
        "known already": tally.known,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "nothing new"


def _by_target(tally: Tally, books: Books) -> tuple[str, str]:
    """' (ic50 96; no column solubility)' and '; still out: solubility 96', or nothing."""
    absent = f"no column {', '.join(tally.absent)}" if tally.absent else ""
    values = "; ".join(filter(None, [_counts(tally.values), absent]))
    out = _counts(dict(zip(books.settings.targets, books.out.sum(axis=0).tolist(), strict=True)))
    return f" ({values})" if values else "", f"; still out: {out}" if out else ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)


def _status(options: Namespace) -> Status:
    campaign = Campaign.open(options.folder)
    settings, status = campaign.settings, campaign.status()
    values = f" ({_counts(status.values)})" if settings.several else ""
    others = f", {status.others} replicates and others" if status.others else ""
    print(f"{options.folder}: {status.initial} results before round 1{values}{others}")
    if status.rounds:
        print("\n".join(_rounds(status.rounds, settings.several)))
    if status.best is not None and status.worth is not None:
        names = dict.fromkeys([*filter(None, [settings.id]), *settings.features])
        what = [f"{name} {status.best[name]}" for name in names if status.best[name]]
        when = f"round {status.best['round']}" if status.best["round"] else status.best["status"]
        goal = settings.goal
        if settings.several:
            goal += " in standard deviations:"
            what = [f"{name} {float(status.best[name]):g}" for name in settings.targets if status.best[name]] + what
        print(f"best so far: {goal} {status.worth:g} ({', '.join(what)}; {when})")
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
