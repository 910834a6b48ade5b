"""`beebo-scale report`: one HTML page about a training run."""

from __future__ import annotations

from jsonargparse import ArgumentParser, Namespace


def add_options(parser: ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--run", type=str, required=True, help="folder of a beebo-scale fit")
    parser.add_argument("--out", type=str, help="the page; default: report.html in that folder")


def run(options: Namespace) -> None:
    """Read the run, write the page."""
    from ..report import write_report  # reads checkpoints and draws: nothing for the other commands

    print(f"{write_report(options.run, options.out)}: open it in a browser")
