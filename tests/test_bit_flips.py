"""One bit of a file is turned: each reader notices, or reads what it would have read.

200 flips in all, over every kind of file that the product writes and reads back; fixed seed, one process.
"""

import io
import random
import warnings

import pytest
import torch

import beebo_scale as bs
from beebo_scale import archives
from beebo_scale.campaign import Campaign
from beebo_scale.proposal.jobs.run_folder import open_run
from beebo_scale.simulation import TestFunction, simulate
from beebo_scale.simulation.loop import Plan, Run, read_run
from beebo_scale.simulation.strategies import Random
from beebo_scale.training.store import DAMAGED, encode, load, load_checkpoint
from tests.campaign.helpers import create, proposed, truth
from tests.training.runs import data, module, screen, trainer

FLIPS = 200
IDENTITY = {"q": 96, "temperature": 0.5, "library": "lib.parquet"}
RUN = Run(TestFunction("ackley", 2), Random(), "random", 0, Plan(2, 2, 3))


def as_bytes(content):
    """Content that is the same has the same bytes."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def fitted(folder):
    folder.mkdir()
    run, rows, model = trainer(folder / "run", 1), data(screen(folder / "s.csv", 60), batch_size=16), module("exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Lightning says to programmers
        run.fit(model, rows)
    bs.fit(bs.read_table(folder / "s.csv", "y", id="id"), "exact", iterations=2).save(folder / "model.ckpt")
    return rows.screen


def stored(described, folder):
    def read():
        encode(described, folder)
        store = load(described, folder)
        return as_bytes([store.rows.clone(), store.y, store.part, store.identity, store.encoder.to_dict()])

    return read


def campaign_of(folder):
    def read():
        campaign = Campaign.open(folder)
        if campaign.changes():
            raise bs.InputError("said")
        state = campaign.state()
        return state.measured.to_csv() + state.proposed.to_csv() + campaign.settings.to_yaml() + str(campaign.status())

    return read


def job_of(folder):
    def read():
        with open_run(folder, IDENTITY) as ledger:
            return as_bytes(ledger.read("score", 0))

    return read


def read_plain(folder):
    points, notes = read_run(RUN, folder)
    return [torch.from_numpy(each) for each in points], notes


@pytest.fixture
def kinds(tmp_path):
    """Files and what reads them."""
    described = fitted(tmp_path / "fit")
    cache = tmp_path / "fit" / "run" / "cache"
    start = next(cache.glob("start-*.pt"))
    campaign = create(tmp_path)
    rows = proposed(campaign)
    campaign.record(rows.iloc[:3].assign(y=truth(rows["variant"][:3])))
    with open_run(tmp_path / "job", IDENTITY) as ledger:
        ledger.write("score", 0, {"rows": torch.arange(30), "score": torch.rand(30)})
    simulate(RUN.world, {"random": Random()}, tmp_path / "sims", q=2, rounds=2, start=3)
    in_campaign, simulated = campaign_of(campaign.folder.path), lambda: as_bytes(read_plain(tmp_path / "sims"))
    settings = campaign.folder
    return [
        (
            tmp_path / "fit" / "model.ckpt",
            lambda: as_bytes(bs.load_surrogate(tmp_path / "fit" / "model.ckpt").to_dict()),
        ),
        (
            tmp_path / "fit" / "run" / "last.ckpt",
            lambda: as_bytes(load_checkpoint(tmp_path / "fit" / "run" / "last.ckpt")),
        ),
        *((next(cache.glob(form)), stored(described, cache)) for form in ("*.rows", "[!s]*.pt")),
        (start, lambda: as_bytes(archives.load(start, DAMAGED))),
        *((path, in_campaign) for path in (settings.settings, settings.measured, settings.batch(1))),
        (settings.batch(1).with_suffix(".run.json"), in_campaign),
        (settings.path / "seal.json", in_campaign),
        *((tmp_path / "job" / name, job_of(tmp_path / "job")) for name in ("job.json", "chunks/score-000000.pt")),
        *((tmp_path / "sims" / "random-0" / name, simulated) for name in ("round-001.csv", "round-001.json")),
    ]


@pytest.mark.slow
def test_every_flipped_bit_is_found_or_harmless(kinds):
    chance, said, harmless = random.Random(0), [], 0
    expected = [read() for _, read in kinds]
    for i in range(FLIPS):
        path, read = kinds[i % len(kinds)]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert read() == expected[i % len(kinds)], f"{path}: unnoticed"
            harmless += 1
        except bs.InputError as error:
            said.append(str(error))
        path.write_bytes(whole)
    assert not [line for line in said if "\n" in line]
    assert len(said) + harmless == FLIPS
    assert len(said) > FLIPS / 2
