"""Curves of reproduce_paper: best so far against the rounds, one picture for each family of functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from paper_published import tables

ALONE = ("shekel", "hartmann", "cosine", "embeddedhartmann")  # share a picture
COLOURS = {  # Okabe and Ito's, and what goes with them
    "default": "#7A0019",
    "mean-beebo": "#0072B2",
    "max-beebo": "#56B4E9",
    "q-ucb": "#D55E00",
    "q-logei": "#E69F00",
    "kb-logei": "#009E73",
    "turbo": "#CC79A7",
    "thompson": "#000000",
    "gp-bucb": "#8C510A",
    "local-penalisation": "#5E3C99",
    "gibbon": "#A6CEE3",
    "gibbon-scaled": "#1B7837",
    "random": "#9A9A9A",
}


def draw_families(rows: list[dict[str, Any]], folder: Path, stem: str) -> list[Path]:
    """Write FOLDER/STEM_FAMILY.png for each family with a finished run."""
    runs = pd.DataFrame(rows)
    runs["family"] = ["others" if problem in ALONE else problem for problem in runs["problem"]]
    paths = []
    for family, some in runs.groupby("family", sort=False):
        path = folder / f"{stem}_{family}.png"
        draw(some, path)
        paths.append(path)
    return paths


def draw(runs: pd.DataFrame, path: Path) -> None:
    """Problems from top to bottom, T' from left to right; methods without T' are in each of these."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    problems = list(dict.fromkeys(zip(runs["problem"], runs["d"], strict=True)))
    temperatures = sorted(runs["temperature"].dropna().unique()) or [None]
    size = (3.6 * len(temperatures) + 1.8, 2.7 * len(problems) + 0.4)
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    panels = figure.subplots(len(problems), len(temperatures), squeeze=False, sharex=True, sharey="row")
    handles: dict[str, Any] = {}
    for (problem, d), line in zip(problems, panels, strict=True):
        for temperature, axes in zip(temperatures, line, strict=True):
            own = (runs["problem"] == problem) & (runs["d"] == d)
            at = (runs["temperature"] == temperature) | runs["temperature"].isna()
            panel(axes, runs[own & at], handles)
            words = "" if temperature is None else f", T' = {temperature:g}"
            axes.set_title(f"{problem}, d = {d}{words}", fontsize=9)
    for axes in panels[:, 0]:
        axes.set_ylabel("best so far")
    for axes in panels[-1]:
        axes.set_xlabel("round")
        axes.xaxis.get_major_locator().set_params(integer=True)
    bar = {"published": Line2D([], [], color="black", marker="_", linestyle="none")}
    both = handles | bar
    figure.legend(both.values(), both.keys(), loc="outside right center", frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": None})


def panel(axes: Any, runs: pd.DataFrame, handles: dict[str, Any]) -> None:
    """Mean over the seeds in a band of one standard error; what is published for the last round as a bar there."""
    for method, some in runs.groupby("method", sort=False):
        curves = np.array(list(some["normalised"]))  # seeds x (rounds + 1)
        rounds, mean = np.arange(curves.shape[1]), curves.mean(0)
        (handles[method],) = axes.plot(rounds, mean, color=COLOURS[method], linewidth=1.5)
        if len(curves) > 1:
            error = curves.std(0, ddof=1) / len(curves) ** 0.5
            axes.fill_between(rounds, mean - error, mean + error, color=COLOURS[method], alpha=0.15, linewidth=0)
        temperature = some["temperature"].iloc[0]
        key = ("normalised", some["problem"].iloc[0], int(some["d"].iloc[0]), method)
        known = tables().get((*key, None if temperature != temperature or temperature is None else temperature))
        if known:
            axes.plot(rounds[-1] + 0.5, known.mean, marker="_", markersize=9, color=COLOURS[method])
    axes.set_ylim(-0.03, 1.03)
    axes.grid(axis="y", color="#d9dee3", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
