"""The page: one HTML file that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ..screening.batch import write_text
from ..screening.outputs import Output, check_outputs, text_form
from .figures import bars, calibration, curve, front, predicted_against_measured, residuals
from .run import CHECKPOINTS, HeldOut, ProposedBatch, TrainingRun, read_training_run, relevance

CURVES = {
    "val_rmse": "validation RMSE",
    "val_nlpd": "validation NLPD",
    "val_coverage95": "coverage of 95 % intervals",
    "val_spearman": "rank correlation",
    "train_loss": "training loss",
}
BATCH_ROWS = 20  # of a batch
MARK = '<meta name="generator" content="beebo-scale report">'  # of pages that may be written anew


def write_report(folder: str, out: str | None = None) -> Path:
    """Write the report of a run folder.

    Args:
        folder: of a `beebo-scale fit`.
        out: the page; None is report.html in the folder.

    Raises:
        InputError: no run there, no matplotlib, or the page cannot be written.
    """
    path = Path(folder) / "report.html" if out is None else Path(out)
    if Path(folder).is_dir():
        check_outputs([Output(path, text_form(MARK), "out")], [("run", Path(folder) / name) for name in CHECKPOINTS])
    run = read_training_run(Path(folder))
    write_text(path, page(run))
    return path


def page(run: TrainingRun) -> str:
    """The page as text."""
    target = run.surrogate.target
    sections = [
        _section("The surrogate", _table(_facts(run))),
        _section("Learning curves", *_curves(run)),
        _section("On held-out rows", *_judged(run.held_out, target)),
        _section("Which inputs matter", *_relevance(run)),
        *(_section(f"Proposed batch: {batch.name}", *_batch(batch)) for batch in run.batches),
    ]
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    title = html.escape(f"{target}: {run.surrogate.kind} surrogate, run {run.folder.name}")
    return template.substitute(title=title, body="\n".join(sections))


def _facts(run: TrainingRun) -> dict[str, Any]:
    summary = run.surrogate.summary()
    kinds = ", ".join(f"{name} ({kind})" for name, kind in summary["features"].items())
    facts = {
        "checkpoint": run.checkpoint.name,
        "features": kinds,
        "measurements": f"{summary['measurements']:,} at {summary['distinct_inputs']:,} distinct inputs",
        "transform of the target": summary["transform"],
        f"noise ({summary['noise_std_of']})": f"{summary['noise_std']:.4g}",
    }
    if "inducing_points" in summary:
        facts["inducing points"] = summary["inducing_points"]
    if "rank" in summary:
        facts["rank"] = summary["rank"]
    error = summary["information_gain_error"]
    beside = summary.get("information_gain_error_beside") or "the exact posterior"
    facts["error of the information gain"] = "not measured" if error is None else f"{error:+.2%} ({beside})"
    return facts | ({"warning": summary["warning"]} if summary.get("warning") else {})


def _curves(run: TrainingRun) -> Iterable[str]:
    shown = [name for name in CURVES if name in run.curves and run.curves[name].notna().any()]
    if not shown:
        return ["<p>No log was kept.</p>"]
    return [_image(curve(run.curves, name, CURVES[name]), f"{CURVES[name]} by epoch") for name in shown]


def _judged(held_out: HeldOut | None, target: str) -> Iterable[str]:
    if held_out is None:
        return ["<p>The encoded rows are no longer in the run's cache folder, so nothing can be judged here.</p>"]
    inside = (abs(held_out.error) < 1.96).mean()
    facts = {
        "rows": f"{len(held_out.mean):,} ({held_out.part})",
        "RMSE": f"{held_out.rmse:.4g}; predicting the mean: {held_out.measured.std():.4g}",
        "inside the 95 % interval": f"{100 * inside:.1f} %",
    }
    return [
        _table(facts),
        _image(predicted_against_measured(held_out, target), "predicted against measured"),
        _image(calibration(held_out), "calibration curve"),
        _image(residuals(held_out), "standardised residuals"),
    ]


def _relevance(run: TrainingRun) -> Iterable[str]:
    values = relevance(run.surrogate)
    parts = []
    if values:
        parts.append("<p>1 / lengthscale, in units of the measured range (or per changed letter or level).</p>")
        parts.append(_image(bars(values, "1 / lengthscale"), "relevance of the inputs"))
    molecules = [name for name, kind in run.surrogate.encoder.kinds.items() if kind == "smiles"]
    if molecules:
        parts.append(
            f"<p>{html.escape(', '.join(molecules))}: similarity of molecules by shared substructures (Tanimoto), "
            "which has no lengthscale.</p>"
        )
    return parts


def _batch(batch: ProposedBatch) -> Iterable[str]:
    certificate = batch.run.get("certificate") or {}
    certified = certificate.get("certified")
    facts = {
        "rows": len(batch.frame),
        "temperature": batch.run.get("temperature"),
        "certified": "does not apply" if certified is None else "yes" if certified else "no",
        **{name: certificate[name] for name in ("value", "upper_bound") if name in certificate},
    }
    outcomes = batch.run.get("outcomes") or {}
    picture = [_image(front(batch), "front and batch")] if "front" in outcomes else []
    head = batch.frame.head(BATCH_ROWS)
    cells = "".join(f"<th>{html.escape(str(name))}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in head.to_numpy())
    more = f"<p>The first {len(head)} of {len(batch.frame)} rows.</p>" if len(batch.frame) > len(head) else ""
    return [
        _table(facts),
        *picture,
        f'<div class="wide"><table class="rows"><tr>{cells}</tr>{lines}</table></div>{more}',
    ]


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def _table(facts: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def _cell(value: Any) -> str:
    return html.escape(f"{value:.5g}" if isinstance(value, float) else str(value))


def _image(uri: str, alt: str) -> str:
    return f'<img src="{uri}" alt="{html.escape(alt)}">'
