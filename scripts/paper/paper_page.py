"""The page of reproduce_paper: tables beside the published ones, tests, times, and what is not run."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from paired import fisher, p_better, standard_error
from paper_published import COLUMNS, ERRORS, Published, halves_error, tables, verdict
from scipy.stats import t as student

Table = list[list[str]]
FIGURES = {"normalised": "Best so far", "regret": "Regret of the last batch"}
LARGER = {"normalised": True, "regret": False}
OURS = ("mean-beebo", "max-beebo")
SIGNIFICANT = 0.05
DEFAULT = 1.0  # T' of `default`, which is meanBEEBO in every round but the last: what we would take knowing nothing

HOW = """\
**How they are judged.** The published tables give means without errors, of ten replicates (meanBEEBO, maxBEEBO, q-UCB)
or five (the others). `=`: our mean is within two standard errors of the difference of the two means, and the rounding
of the published figure; the error is s sqrt(1/n + 1/n'), s our standard deviation over n seeds, n' the published
replicates, as if theirs spread as ours do. `+` is better than that, `-` worse. How they do spread can be seen: the
first five published replicates are known, too, and the two halves of the ten differ as if the standard error of five
was {theirs}; ours is {ours} (root mean squares over problems and methods with T', best so far / regret).

**What is the same.** Functions, starting points (seeds 0 to 4 have the very points of the published replicates),
rounds, batch size, T' and kappa, the last round with T' = 0 (mean energy) or kappa = 0, Matern-5/2, f_max of the
softmax energy, and the priors but for this: `search` has those of the paper, and no lengthscale below n^(-1/d) / 4.
**What differs.** Fits start from the hyperparameters of the round before (and afresh) and take at most {iterations}
iterations of the exact likelihood, afresh from lengthscales of 0.5 and a noise variance of 0.01; the paper's start
afresh, from 0.693 and 2, and its scripts estimate likelihood and solves by conjugate gradients and random probes.
BEEBO climbs by L-BFGS-B from {restarts} batch(es) of {start} start (`mixed`: Sobol points, and a part n^(-1/d) / 2
near the best rows), the paper's by Adam from 10 of 100 Sobol batches; in the last round ours starts from the best
posterior mean. q-UCB and q-LogEI climb by Adam as there, but from {restarts} of 100 Sobol batches and with 128
samples, not 1,024. Regret is divided by its expectation at random, not by that of one random batch a seed. Thompson
sampling draws scrambled Sobol points: the published one's, not scrambled, hold the middle of the cube, which is the
optimum of Ackley and Rastrigin (hence its 1.000 there)."""


def page(
    rows: list[dict[str, Any]],
    missing: list[dict[str, Any]],
    left_out: list[str],
    setting: dict[str, Any],
    pictures: list[Path],
) -> str:
    """The result page.

    Args:
        rows: a line of the results each.
        missing: cases that were planned and have none.
        left_out: published problems that were not planned.
        setting: of all of them.
        pictures: of the curves.
    """
    runs = pd.DataFrame(rows)
    for figure in FIGURES:
        runs[f"last_{figure}"] = [values[-1] for values in runs[figure]]
    temperatures = sorted(runs["temperature"].dropna().unique())
    lines = ["# The paper's experiments, reproduced", "", *introduction(runs, setting), ""]
    lines += ["## In all", "", *markdown(overview(runs)), "", *cells(runs), "", *against_published(runs)]
    for temperature in temperatures:
        some = runs[runs["temperature"] == temperature]
        for figure, words in FIGURES.items():
            lines += [f"## {words}, T' = {temperature:g}", "", *markdown(beside(some, figure)), ""]
    some = runs[runs["temperature"].isna()]
    for figure, words in FIGURES.items() if len(some) else ():
        lines += [f"## {words}, methods without T'", "", *markdown(beside(some, figure)), ""]
    for ours in OURS:
        for temperature in temperatures if ours in set(runs["method"]) else ():
            lines += tests(runs, ours, temperature)
    lines += ["## Curves", "", *(f"![{path.stem}]({path.name})\n" for path in pictures)]
    lines += ["## Not run", "", *not_run(missing, left_out)]
    return "\n".join(lines) + "\n"


def introduction(runs: pd.DataFrame, setting: dict[str, Any]) -> list[str]:
    """What was run, how it is judged."""
    problems, seeds = runs[["problem", "d"]].drop_duplicates(), runs["seed"].nunique()
    ours = [f"{pooled_error(runs, figure):.3f}" for figure in FIGURES]
    theirs = [f"{halves_error(figure):.3f}" for figure in FIGURES]
    hours = sum(sum(map(sum, runs[f"{part}_seconds"])) for part in ("fit", "choice")) / 3600
    return [
        f"`scripts/paper/reproduce_paper.py`: {len(problems)} of 33 problems, {seeds} seeds, "
        f"{setting['start']} points, then {setting['rounds']} rounds of {setting['q']}; priors: {setting['priors']}; "
        f"one thread a run, {hours:.1f} hours of fits and choices in all, "
        f"{platform.machine()}, torch {torch.__version__}. Best so far: 0 is the best of the start, 1 the optimum. "
        "Regret: 0 is a batch at the optimum, 1 one at random; less is better. Cells are ours (standard error), the "
        "published figure and the verdict; bold is the best of ours in the row.",
        "",
        HOW.format(
            theirs=" / ".join(theirs),
            ours=" / ".join(ours),
            iterations=setting["iterations"],
            restarts=setting["restarts"],
            start=setting["search_start"],
        ),
    ]


def pooled_error(runs: pd.DataFrame, figure: str) -> float:
    """Root mean square of the standard errors of five of ours, over problems and the methods with T'."""
    groups = runs[runs["temperature"].notna()].groupby(["problem", "d", "method", "temperature"])[f"last_{figure}"]
    variances = [values.var() / 5.0 for _, values in groups if len(values) > 1]
    return float(np.mean(variances) ** 0.5) if variances else float("nan")


def overview(runs: pd.DataFrame) -> Table:
    """A line for each method and T': means and medians over its problems, verdicts, seconds."""
    table: Table = [["method", "T'", "problems"]]
    for words in ("best so far", "regret"):
        table[0] += [f"{words}: mean, median", "published, same problems", "published, all 33", "+, =, -"]
    table[0] += ["seconds a run: fits", "choices"]
    for (method, temperature), some in runs.groupby(["method", "temperature"], sort=False, dropna=False):
        own = None if temperature != temperature else temperature
        line = [method, "" if own is None else f"{own:g}", str(some.groupby(["problem", "d"]).ngroups)]
        for figure in FIGURES:
            ours, theirs, signs = [], [], ""
            for (problem, d), values in some.groupby(["problem", "d"])[f"last_{figure}"]:
                known = tables().get((figure, problem, d, method, own))
                ours.append(values.mean())
                theirs += [known.mean] if known else []
                signs += verdict(list(values), known, LARGER[figure])
            everywhere = [value.mean for key, value in tables().items() if (key[0], *key[3:]) == (figure, method, own)]
            line += [middle(ours), middle(theirs), middle(everywhere)]
            line.append(", ".join(str(signs.count(sign)) for sign in "+=-") if signs else "")
        seconds = (sum(map(sum, some[f"{part}_seconds"])) / len(some) for part in ("fit", "choice"))
        table.append([*line, *(f"{value:.0f}" for value in seconds)])
    return table


def cells(runs: pd.DataFrame) -> list[str]:
    """How many of all cells are better, within and worse, and how many would be if the methods were equal."""
    lines = []
    for figure, words in FIGURES.items():
        signs = "".join(
            verdict(list(some[f"last_{figure}"]), known_of(some, figure, problem, d, method), LARGER[figure])
            for (problem, d, method, _), some in runs.groupby(["problem", "d", "method", "temperature"], dropna=False)
        )
        better, within, worse = (signs.count(sign) for sign in "+=-")
        lines.append(f"{words}: {better} cells better, {within} within, {worse} worse, of {len(signs)}.")
    chance = float(student.cdf(-ERRORS, max(1, runs["seed"].nunique() - 1)))
    return [*lines, f"Equal methods would be better in {chance:.0%} of the cells, and worse in as many (Student's t)."]


def against_published(runs: pd.DataFrame) -> list[str]:
    """The default, and BEEBO at each T', beside every published column over the problems that the default has run."""
    some = runs[runs["method"] == "default"]
    if some.empty:
        return []
    places = list(dict.fromkeys(zip(some["problem"], some["d"], strict=True)))
    table: Table = [["", "T'", "best so far: mean, median", "regret: mean, median"]]
    table.append(["**ours, the default**", f"{DEFAULT:g}", *(f"**{cell}**" for cell in means_over(some, places))])
    for method in OURS:
        for temperature, own in runs[runs["method"] == method].groupby("temperature"):
            cells = means_over(own, places)
            table += [[f"ours, {method}", f"{temperature:g}", *cells]] if cells else []
    for method, temperature in dict.fromkeys(key[3:] for key in tables()):
        columns = [[tables()[(f, *place, method, temperature)].mean for place in places] for f in FIGURES]
        table.append([f"published {method}", "" if temperature is None else f"{temperature:g}", *map(middle, columns)])
    problems = ", ".join(f"{problem}-{d} ({len(g)})" for (problem, d), g in some.groupby(["problem", "d"], sort=False))
    words = f"meanBEEBO at T' = {DEFAULT:g}, all else as set above, for every problem (seeds): {problems}."
    return ["## One default against all that is published", "", words, "", *markdown(table), ""]


def means_over(runs: pd.DataFrame, places: Sequence[tuple[str, int]]) -> list[str]:
    """Mean and median of each figure over problems; nothing where one of them was not run."""
    means = runs.groupby(["problem", "d"])[[f"last_{figure}" for figure in FIGURES]].mean()
    if not set(places) <= set(means.index):
        return []
    return [middle(list(means.loc[places, column])) for column in means]


def middle(values: Sequence[float]) -> str:
    """Mean and median."""
    return f"{np.mean(values):.3f}, {np.median(values):.3f}" if len(values) else ""


def beside(runs: pd.DataFrame, figure: str) -> Table:
    """Problems by methods, ours beside the published figures; their means and medians over complete rows below."""
    methods = list(dict.fromkeys(runs["method"]))
    table = [["problem", "d", *(word for m in methods for word in (m, "published" if m in COLUMNS else "", ""))]]
    means: list[list[float]] = []
    for (problem, d), some in runs.groupby(["problem", "d"], sort=False):
        values = {m: list(some.loc[some["method"] == m, f"last_{figure}"]) for m in methods}
        known = {m: known_of(some, figure, problem, d, m) for m in methods}
        best = (max if LARGER[figure] else min)(round(np.mean(v), 3) for v in values.values() if v)
        line, numbers = [problem, str(d)], []
        for m in methods:
            mean, published = float(np.mean(values[m])) if values[m] else float("nan"), known[m]
            theirs = published.mean if published else float("nan")
            line += [ours_in_words(values[m], best), shown(theirs), verdict(values[m], published, LARGER[figure])]
            numbers += [mean, theirs]
        table.append(line)
        means.append(numbers)
    columns = np.array(means)  # problems x (2 methods)
    for name, reduce in (("**mean**", np.mean), ("**median**", np.median)):
        cells = [shown(float(reduce(column))) for column in columns.T]
        table.append([name, "", *(word for i in range(0, len(cells), 2) for word in (cells[i], cells[i + 1], ""))])
    return drop_empty(table)


def known_of(some: pd.DataFrame, figure: str, problem: str, d: int, method: str) -> Published | None:
    """What is published for a method at the T' of these rows."""
    temperature = some["temperature"].iloc[0]
    return tables().get((figure, problem, d, method, None if temperature != temperature else temperature))


def ours_in_words(values: Sequence[float], best: float) -> str:
    """Mean (standard error) of the seeds, bold if it is the best."""
    if not len(values):
        return ""
    mean, error = float(np.mean(values)), standard_error(values)
    text = f"{mean:.3f}" + (f" ({error:.3f})" if error == error else "")
    return f"**{text}**" if round(mean, 3) == best else text


def shown(value: float) -> str:
    """Three digits, nothing for NaN."""
    return f"{value:.3f}" if value == value else ""


def tests(runs: pd.DataFrame, ours: str, temperature: float) -> list[str]:
    """P-values that ours is better than each other method (at the same T', if it has one), problem by problem."""
    some = runs[(runs["temperature"] == temperature) | runs["temperature"].isna()]
    others = [m for m in dict.fromkeys(some["method"]) if m != ours]
    lines = []
    for figure, words in FIGURES.items():
        table: Table = [["problem", "d", *others]]
        columns: list[list[float]] = []
        for (problem, d), group in some.groupby(["problem", "d"], sort=False):
            by_method = {m: dict(zip(g["seed"], g[f"last_{figure}"], strict=True)) for m, g in group.groupby("method")}
            first = by_method.get(ours, {})
            columns.append([p_better(first, by_method.get(m, {}), LARGER[figure]) for m in others])
            table.append([problem, str(d), *map(in_words, columns[-1])])
        table.append(["**combined**", "", *(in_words(fisher(column)) for column in zip(*columns, strict=True))])
        lines += [f"## Is {ours} better? {words}, T' = {temperature:g}", "", *TEST_WORDS, *markdown(table), ""]
    return lines


TEST_WORDS = ("One-sided p-values of paired t-tests over the seeds; combined by Fisher's method; bold below 0.05.", "")


def in_words(p: float) -> str:
    """A p-value, bold if significant."""
    if p != p:
        return ""
    text = f"{p:.3f}" if p >= 1e-3 else f"{p:.0e}"
    return f"**{text}**" if p < SIGNIFICANT else text


def not_run(missing: list[dict[str, Any]], left_out: list[str]) -> list[str]:
    """What was planned and has no figure yet, a line for each method, and what was not planned."""
    lines = [
        f"Published problems that were not planned: {', '.join(left_out) or 'none'}. The control problems (rover, "
        "robot pushing), which the paper has in a figure only, are functions of `beebo-scale simulate`.",
        "",
    ]
    if not missing:
        return [*lines, "Of what was planned nothing is missing."]
    lines += ["Of what was planned:", "", "| method | T' | problems | runs |", "|---|---|---|---|"]
    planned = pd.DataFrame(missing).astype({"temperature": float})
    for (method, temperature), some in planned.groupby(["method", "temperature"], sort=False, dropna=False):
        names = ", ".join(
            dict.fromkeys(f"{problem}-{d}" for problem, d in zip(some["problem"], some["d"], strict=True))
        )
        own = "" if temperature != temperature else f"{temperature:g}"
        lines.append(f"| {method} | {own} | {names} | {len(some)} |")
    return lines


def drop_empty(table: Table) -> Table:
    """The table without columns that have a head at most."""
    kept = [i for i in range(len(table[0])) if any(line[i] for line in table[1:])]
    return [[line[i] for i in kept] for line in table]


def markdown(table: Table) -> list[str]:
    """Lines of a Markdown table, its first row the head."""
    head, *body = table
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(line)} |" for line in body)]
