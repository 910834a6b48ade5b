"""What training under Lightning costs, and what it survives.

    python scripts/benchmarks/training.py [--parts overhead processes kill] [--rows 40000]

overhead: an SVGP fit under the Lightning trainer (checkpoints and log included) against a bare loop with the same
    minibatches, the same bound over all rows and the same validation each epoch, in turns; one thread.
processes: two gloo processes against one, one thread each: validation RMSE and time.
kill: SIGKILL at a random moment of the training, five times; each relaunch by the same command; every checkpoint is
    read after each kill; the RMSE at the end against that of a run that was left alone.

Results of the parts are merged into scripts/benchmarks/results/training.json and .md.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import cpu_name, median_of_ratios, read_results, write_results
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.optim.lr_scheduler import LambdaLR

from beebo_scale.surrogates.approximate.svgp import SVGP, WARM_STEPS, HyperAdam
from beebo_scale.surrogates.surrogate import new_gp
from beebo_scale.training.callbacks import AtomicCheckpointIO
from beebo_scale.training.data import Judged, Minibatches, ScreeningDataModule
from beebo_scale.training.module import SurrogateModule
from beebo_scale.training.splits import VALIDATION
from beebo_scale.workers import Workers

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KILLS = 5


def screen(path: Path, rows: int, d: int = 8) -> str:
    """A synthetic screen of d settings."""
    g = np.random.default_rng(0)
    X = g.uniform(size=(rows, d))
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.cos(9 * X[:, 3] * X[:, 4]) + 0.1 * g.standard_normal(rows)
    pd.DataFrame({f"x{i}": X[:, i] for i in range(d)} | {"y": y}).to_parquet(path, index=False)
    return str(path)


# --- overhead ----------------------------------------------------------------------------------------------


def now() -> np.ndarray:
    """CPU time of this process, and the time."""
    return np.array([time.process_time(), time.monotonic()])


class Clock(Callback):
    """CPU seconds and seconds from the first step to the end of the last validation."""

    def on_train_start(self, trainer: Trainer, module: object) -> None:
        """Begin."""
        self.start = now()

    def on_train_end(self, trainer: Trainer, module: object) -> None:
        """End."""
        self.seconds = now() - self.start


def under_lightning(file: str, folder: Path, epochs: int, size: int, m: int) -> tuple[np.ndarray, float]:
    """Time (see `now`) and validation RMSE."""
    clock = Clock()
    trainer = Trainer(
        max_epochs=epochs,
        default_root_dir=str(folder),
        accelerator="cpu",
        logger=CSVLogger(folder, name="logs"),
        callbacks=[clock, ModelCheckpoint(folder, filename="last", enable_version_counter=False)],
        plugins=[AtomicCheckpointIO()],
        num_sanity_val_steps=0,
        enable_model_summary=False,
        log_every_n_steps=10,
    )
    source = ScreeningDataModule(file, "y", batch_size=size)
    trainer.fit(SurrogateModule("svgp", inducing_points=m), datamodule=source)
    return clock.seconds, float(trainer.logged_metrics["val_rmse"])


def bare(file: str, folder: Path, epochs: int, size: int, m: int) -> tuple[np.ndarray, float]:
    """The same steps in a loop of one's own, from the same starting point."""
    source, module = ScreeningDataModule(file, "y", batch_size=size), SurrogateModule("svgp", inducing_points=m)
    source.trainer = Trainer(default_root_dir=str(folder), accelerator="cpu", logger=False, enable_checkpointing=False)
    source.setup("fit")
    store, data = source.store, source.training
    starts = [torch.load(path, weights_only=True) for path in (folder / "cache").glob("start-*.pt")]
    begin = next(start for start in starts if len(start["Z"]) == m)
    gp = new_gp(store.encoder, "botorch")
    gp.load_state_dict(begin["hyperparameters"])
    model = SVGP(gp, begin["Z"], len(data))
    optimizer = HyperAdam(model, module.options.lr)
    steps = epochs * (len(data) // size)
    schedule = LambdaLR(optimizer, lambda step: 0.5 * (1 + np.cos(np.pi * min(step / steps, 1))))
    start, step, error2 = now(), 0, torch.zeros(())
    for epoch in range(epochs):
        for rows, y, _, _ in Minibatches(data, size, 0, Workers(), lambda epoch=epoch: epoch):
            optimizer.zero_grad()
            loss = model.loss(store.packing.unpack(rows), y)
            if step >= WARM_STEPS:
                loss.backward()
            model.natural_step(max(module.options.natural_lr, 1 / (step + 1)))
            optimizer.step()
            schedule.step()
            step += 1
        model.collapse(data)
        posterior = model.posterior()
        with torch.no_grad():
            judged = Judged(store, store.members(VALIDATION))
            pairs = [(posterior.mean_and_variance(store.packing.unpack(rows)), y) for rows, y in judged]
        error2 = torch.cat([store.scale.moments(*moments)[0] - y for moments, y in pairs]).square().mean()
    return now() - start, float(error2.sqrt())


def overhead(rows: int) -> list[dict]:
    return [overhead_with(m, rows) for m in (256, 512)]


def overhead_with(m: int, rows: int, epochs: int = 3, size: int = 1024, repeats: int = 5) -> dict:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = screen(folder / "s.parquet", rows)
        under_lightning(file, folder, 1, size, m)  # encodes the file, finds the starting point, warms everything up
        given = (file, folder, epochs, size, m)
        pairs = [(under_lightning(*given), bare(*given)) for _ in range(repeats)]
    ours, theirs = (np.array([time for time, _ in side]) for side in zip(*pairs, strict=True))  # repeats x 2
    cpu, wall = (median_of_ratios(ours[:, k], theirs[:, k]) - 1 for k in range(2))
    return {
        "rows": rows,
        "inducing_points": m,
        "steps": epochs * (int(0.8 * rows) // size),
        "lightning_cpu_seconds": ours[:, 0].tolist(),
        "bare_cpu_seconds": theirs[:, 0].tolist(),
        "lightning_seconds": ours[:, 1].tolist(),
        "bare_seconds": theirs[:, 1].tolist(),
        "overhead_cpu": float(cpu),
        "overhead_wall": float(wall),
        "rmse": [pairs[0][0][1], pairs[0][1][1]],
    }


# --- processes and kills -----------------------------------------------------------------------------------


def command(file: str, run: Path, epochs: int) -> list[str]:
    options = {"data.file": file, "data.target": "y", "data.batch_size": 1024, "model.inducing_points": 256}
    options |= {"trainer.max_epochs": epochs, "trainer.default_root_dir": run, "trainer.accelerator": "cpu"}
    options |= {"trainer.enable_progress_bar": "false", "early_stopping.patience": 1000, "ckpt_path": "last"}
    return ["-m", "beebo_scale", "fit", *(f"--{name}={value}" for name, value in options.items())]


def start(arguments: list[str]) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *arguments], env=environment, cwd=ROOT, stderr=subprocess.DEVNULL)


def curve(run: Path) -> pd.Series:
    """Validation RMSE by epoch."""
    logs = [pd.read_csv(path) for path in sorted(run.glob("logs/version_*/metrics.csv"))]
    return pd.concat(logs).groupby("epoch").last()["val_rmse"]


def processes(rows: int, epochs: int = 5) -> dict:
    found = {"rows": rows, "epochs": epochs}
    with tempfile.TemporaryDirectory() as name:
        file = screen(Path(name) / "s.parquet", rows)
        for count in (1, 2):
            run, launcher = Path(name) / str(count), ["-m", "torch.distributed.run", "--standalone"]
            launcher += [f"--nproc-per-node={count}", *command(file, run, epochs)]
            began = time.monotonic()
            if start(launcher).wait():
                raise SystemExit("a fit failed")
            found[f"seconds_{count}"] = time.monotonic() - began
            found[f"rmse_{count}"] = float(curve(run).iloc[-1])
    return found | {"difference": abs(found["rmse_2"] / found["rmse_1"] - 1)}


def kill(rows: int, epochs: int = 60) -> dict:
    draw, epoch_found = random.Random(0), []
    with tempfile.TemporaryDirectory() as name:
        file, runs = screen(Path(name) / "s.parquet", rows), {key: Path(name) / key for key in ("alone", "killed")}
        if start(command(file, runs["alone"], epochs)).wait():
            raise SystemExit("a fit failed")
        last = runs["killed"] / "last.ckpt"
        for _ in range(KILLS):
            before = last.stat().st_mtime_ns if last.exists() else 0
            job = start(command(file, runs["killed"], epochs))
            while not last.exists() or last.stat().st_mtime_ns == before:  # it trains
                time.sleep(0.01)
            time.sleep(draw.uniform(0.0, 4.0))
            job.send_signal(signal.SIGKILL)
            if job.wait() != -signal.SIGKILL:
                raise SystemExit("a fit was over before it was killed; give more rows")
            for path in runs["killed"].glob("[!.]*.ckpt"):  # half of one could not be read
                torch.load(path, weights_only=True)
            epoch_found.append(torch.load(last, weights_only=True)["epoch"])
        if start(command(file, runs["killed"], epochs)).wait():
            raise SystemExit("the last relaunch failed")
        alone, killed = (float(curve(run).iloc[-1]) for run in runs.values())
    return {
        "rows": rows,
        "epochs": epochs,
        "epoch_of_last_checkpoint_after_each_kill": epoch_found,
        "rmse_alone": alone,
        "rmse_killed": killed,
        "difference": abs(killed / alone - 1),
    }


def report(found: dict) -> str:
    lines = [
        "# Training under Lightning",
        "",
        f"One thread a process, {found['machine']}; synthetic screens, d = 8, SVGP",
    ]
    lines += ["with 256 inducing points where not said otherwise.", "", "| what | measured | bar |", "|---|---|---|"]
    for part in found.get("overhead", []):
        lightning, loop = (statistics.median(part[f"{side}_cpu_seconds"]) for side in ("lightning", "bare"))
        lines.append(
            f"| Lightning (progress bar, log, checkpoints) against a bare loop, {part['inducing_points']} inducing "
            f"points, {part['steps']} steps, {part['rows']:,} rows | {lightning:.2f} CPU seconds against {loop:.2f}, "
            f"median ratio of {len(part['bare_seconds'])} pairs {1 + part['overhead_cpu']:.3f} (by wall clock "
            f"{1 + part['overhead_wall']:.3f}, on a machine shared with others); RMSE {part['rmse'][0]:.5f} and "
            f"{part['rmse'][1]:.5f} | 1.10 |"
        )
    if part := found.get("processes"):
        lines.append(
            f"| two processes against one, {part['rows']:,} rows, {part['epochs']} epochs: validation RMSE | "
            f"{part['rmse_2']:.6f} against {part['rmse_1']:.6f}, {100 * part['difference']:.1e} % apart; "
            f"{part['seconds_2']:.0f} s against {part['seconds_1']:.0f} s | 1 % |"
        )
    if part := found.get("kill"):
        epochs = ", ".join(
            "none" if e is None else str(e + 1) for e in part["epoch_of_last_checkpoint_after_each_kill"]
        )
        lines.append(
            f"| SIGKILL five times (epochs in last.ckpt after each: {epochs} of {part['epochs']}): RMSE at the end | "
            f"{part['rmse_killed']:.6f} against {part['rmse_alone']:.6f}, {100 * part['difference']:.1e} % apart; "
            f"every checkpoint readable after every kill | 1 % |"
        )
    return "\n".join([*lines, ""])


PARTS = {"overhead": overhead, "processes": processes, "kill": kill}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=40_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = read_results("training")
    found["machine"] = cpu_name()
    for name in options.parts:
        found[name] = PARTS[name](options.rows)
        write_results("training", found, report(found))
    print(report(found))


if __name__ == "__main__":
    main()
