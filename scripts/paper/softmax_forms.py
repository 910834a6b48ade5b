"""maxBEEBO in the paper's closed loops: the energy divided by its normalisation, beside the paper's form.

    python scripts/paper/softmax_forms.py --problems hartmann-6 ackley-10 --seeds 2

Both forms (the paper's: `SoftmaxEnergy(normalised=False)`) with the setting of reproduce_paper.yaml at T' = 0.5
and the same starts. paper_runs.jsonl has the paper's form as `max-beebo`, by the version of the package of then. Writes
softmax_forms.json and .md in scripts/paper/results after every run; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from reproduce_paper import PAPER, PROBLEMS, Case, Setting, fields, figures_of, load, parse

from beebo_scale.energy import SoftmaxEnergy
from beebo_scale.simulation.loop import run_loop

RESULTS = Path(__file__).parent / "results"
TEMPERATURE = 0.5
FORMS = {"normalised": SoftmaxEnergy(), "paper": PAPER}


def one(case: Case, setting: Setting, form: str) -> dict[str, Any]:
    """Best so far, and regret of the last batch, at the end of a run."""
    run = case.run(setting, FORMS[form])
    with tempfile.TemporaryDirectory() as folder:
        run_loop(run, folder)
        figures = figures_of(case, run, Path(folder))
    return {"best": figures["normalised"][-1], "regret": figures["regret"][-1]}


def page(found: dict[str, dict[str, Any]], known: dict[str, dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = ["# maxBEEBO: two forms of the softmax energy in the paper's closed loops", ""]
    lines += [*__doc__.splitlines()[4:8], "", "Best so far (0 the best of the start, 1 the optimum) / regret of the "]
    lines[-1] += "last batch at the end; seeds count from 0."
    lines += ["", "| problem, seed | normalised | the paper's form | in paper_runs.jsonl |", "|---|---|---|---|"]
    pairs = []
    for place, forms in found.items():
        if set(FORMS) <= set(forms):
            pairs.append([(e["best"], e["regret"]) for e in (*(forms[form] for form in FORMS), known[place])])
            lines.append(f"| {place} | {_cells(pairs[-1])} |")
    lines.append(f"| **mean of {len(pairs)}** | {_cells(np.mean(pairs, 0))} |")
    return "\n".join(lines) + "\n"


def _cells(figures: Any) -> str:
    return " | ".join(f"{best:.3f} / {regret:.3f}" for best, regret in figures)


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=["hartmann-6"], metavar="NAME-D")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    planned = parse([])
    setting = Setting(**{field.name: getattr(planned, field.name) for field in fields(Setting)})
    lines = load(RESULTS / "paper_runs.jsonl", setting)
    path = RESULTS / "softmax_forms.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    known = {
        f"{case.problem}-{case.d}, {case.seed}": {"best": line["normalised"][-1], "regret": line["regret"][-1]}
        for case, line in lines.items()
        if case.method == "max-beebo" and case.temperature == TEMPERATURE
    }
    for seed in range(options.seeds):
        for problem in options.problems:
            name, d = problem.rsplit("-", 1)
            place = f"{problem}, {seed}"
            for form in FORMS:
                if form not in found.setdefault(place, {}):
                    found[place][form] = one(Case(name, int(d), "max-beebo", TEMPERATURE, seed), setting, form)
                    print(place, form, found[place][form], known[place], flush=True)
                path.write_text(json.dumps(found, indent=1) + "\n")
            (RESULTS / "softmax_forms.md").write_text(page(found, known))


if __name__ == "__main__":
    main()
