"""What a command writes: checked against all that it reads before any work is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import InputError
from ..screening.batch import check_folder, check_output, run_path


def check_outputs(out: str, inputs: Mapping[str, str | None], others: Mapping[str, str | None]) -> None:
    """Refuse to write over what is read, and to write two things to one name.

    Args:
        out: the batch.
        inputs: option -> file that is read.
        others: option -> file that is written beside the batch.

    Raises:
        InputError: names that meet, or a place that cannot be written to.
    """
    for path in (out, *filter(None, others.values())):
        for name, source in inputs.items():
            if source is not None and Path(source).resolve() == Path(path).resolve():
                raise InputError(f"{path} is also --{name.replace('_', '-')} and would be lost; write to another name")
    check_output(out)
    batch = (Path(out).resolve(), run_path(out).resolve())
    for name, beside in others.items():
        if beside is not None:
            check_folder(beside)
            if Path(beside).resolve() in batch:
                flag = name.replace("_", "-")
                raise InputError(f"{beside} is also written as the batch; give --{flag} another name")
