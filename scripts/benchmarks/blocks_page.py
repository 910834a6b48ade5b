"""The page of results of blocks.py and blocks_screens.py."""

from __future__ import annotations

import statistics
from typing import Any

from common import table

TITLES = {
    "uci": "UCI sets",
    "gain": "Error of the information gain, and what a batch loses by it",
    "million": "One million made rows",
    "loop": "Closed loop at scale",
    "gb1": "GB1, 130,000 variants",
    "gpcr": "The GPCR screen",
}
NOTES = {
    "uci": """Protocol of uci.py: the same splits, standardisation and hyperparameters. The figures of exact, SGPR and
SVGP (m = 1,024) are those of uci.md, of an idle machine; their seconds contain those for the hyperparameters. Seconds
of blocks are of fit (with the estimate of the error of I) and of prediction without these, on a machine that others
used, too.""",
    "gain": """10,000 training rows, m = 1,024, blocks of 1,000. Batches: the greedy one of exact from the test rows
(spread), and the rows nearest to one test row (clustered). Error: I of blocks / I of exact - 1. Value: a(X), by the
exact posterior, of the batch that blocks choose over that of the batch that exact chooses, T' = 0.5.""",
    "million": "f drawn from a GP prior by random features (Matern-5/2, lengthscale 1, d = 10), noise variance 0.01.",
    "loop": """f drawn from a GP prior by random features, Matern-3/2, lengthscale 2, d = 8 in the unit box, noise
variance 1e-6; hyperparameters are fitted. Improvement: the best value of f found over the best of random search with
the same start and as many points, less 1, in percent. Published under this protocol: ADASAP 10.4 %, stochastic dual
descent 6.5 %, preconditioned conjugate gradients 0.1 %, on GPUs (Rathore et al., NeurIPS 2025).""",
    "gb1": """149,361 measured variants, 19,361 of them held out at random; hyperparameters from 3,000 rows.""",
    "gpcr": """325,567 molecules, a fifth held out at random by the seed; Morgan counts. `beebo-scale fit` from the raw
file, `predict` of the molecules held out; the random forest learns from 60,000 molecules, all hits among them.""",
}


def page(content: dict[str, Any], uci: dict[str, Any]) -> str:
    """All parts that there are."""
    lines = [
        "# Blocks beside inducing points",
        "",
        "Written by `scripts/benchmarks/blocks.py` and `blocks_screens.py`.",
    ]
    for part, title in TITLES.items():
        if part not in content:
            continue
        lines += ["", f"## {title}", "", NOTES[part], ""]
        rows = beside(content[part], uci["cases"]) if part == "uci" else listed(content[part])
        lines += table(rows)
    return "\n".join(lines) + "\n"


def listed(cases: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each case."""
    return [
        {"case": key} | {k: v for k, v in case.items() if not isinstance(v, (dict, list))}
        for key, case in cases.items()
    ]


def beside(cases: dict[str, Any], known: dict[str, Any]) -> list[dict[str, Any]]:
    """Blocks of each set and split beside the other kinds, and the means over splits of the default sizes."""
    rows, ratios = [], dict[str, list[float]]()
    for key, case in cases.items():
        name, split, *tried = key.split()
        others = {kind: known.get(f"{name} {split} {kind}", {}) for kind in ("exact", "sgpr", "svgp")}
        row: dict[str, Any] = {"case": key, "blocks": f"{case['blocks']} x {case['largest_block']}"}
        row |= {"m": case["inducing_points"], "RMSE": case["rmse"]}
        exact = others["exact"]
        if exact:
            row["over exact"] = case["rmse"] / exact["rmse"]
            row["seconds exact / blocks"] = f"{exact['fit_seconds'] + exact['predict_seconds']:.0f} / " + (
                f"{case['fit_seconds'] + case['predict_seconds']:.0f} (+ {case['hyperparameter_seconds']:.0f})"
            )
            if not tried:
                ratios.setdefault(name, []).append(row["over exact"])
        for figure in ("rmse", "nlpd"):
            row[f"{figure} exact, SGPR, SVGP"] = ", ".join(
                f"{others[kind].get(figure, float('nan')):.4f}" for kind in others
            )
        row |= {"NLPD": case["nlpd"], "coverage": case["coverage"], "error of I": case["gain_error"]}
        rows.append(row | {"beside half blocks": case["error_beside_half_blocks"]})
    for name, found in ratios.items():
        rows.append({"case": f"{name}, mean of {len(found)}", "over exact": statistics.mean(found)})
    return rows
