"""The check of a machine with a GPU still runs, small and on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]


def test_small(tmp_path):
    environment = os.environ | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [ROOT / "scripts" / "gpu_check", "--small", "--no-tests", "--out", tmp_path / "figures.json"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["device"].startswith("CPU")
    rows = {row["what"].split(",")[0]: row for row in figures["rows"]}
    assert len(rows) >= 7
    assert not [row for row in rows.values() if "error" in row or "skipped" in row]
    assert all(row["seconds"] > 0 for row in rows.values())
    assert [row["certified"] for row in rows.values() if "certified" in row] == [True]


def test_full_size_needs_a_gpu():
    environment = os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run([ROOT / "scripts" / "gpu_check"], env=environment, capture_output=True, text=True)
    assert result.returncode == 2
    assert "there is no GPU here" in result.stderr
