import numpy as np
import pandas as pd

from beebo_scale.campaign import Campaign, Settings
from beebo_scale.screening import Batch

LETTERS = "ACDEFG"
VARIANTS = [a + b for a in LETTERS for b in LETTERS]
NAMES = {variant: f"v{i}" for i, variant in enumerate(VARIANTS)}


def truth(variants):
    return np.array([LETTERS.index(a) + 0.5 * LETTERS.index(b) for a, b in variants])


def frame_of(variants, **columns):
    return pd.DataFrame({"name": [NAMES[v] for v in variants], "variant": list(variants), **columns})


def files(folder):
    """A library of 36 variants, 14 of them measured."""
    frame_of(VARIANTS).to_csv(folder / "library.csv", index=False)
    first = np.random.default_rng(0).permutation(VARIANTS)[:14]
    frame_of(first, y=truth(first)).to_csv(folder / "screen.csv", index=False)


def settings(folder, **changes):
    given = {"target": "y", "features": {"variant": "protein"}, "id": "name", "library": str(folder / "library.csv")}
    return Settings.of(**given | {"q": 4, "seed": 3} | changes)


def create(folder, **changes):
    """A campaign in folder/c."""
    files(folder)
    return Campaign.create(folder / "c", folder / "screen.csv", settings(folder, **changes))


def unmeasured(campaign):
    known = set(campaign.state().measured["variant"]) | set(campaign.state().proposed["variant"])
    return [v for v in VARIANTS if v not in known]


def proposed(campaign, count=6):
    """Put down a round without a fit; returns its rows."""
    chosen = unmeasured(campaign)[:count]
    frame = frame_of(chosen, mean=1.0, std=0.5, gain=0.2)
    frame.insert(0, "rank", range(1, count + 1))
    number = max(campaign.folder.rounds(), default=0) + 1
    Batch(frame, {"temperature": 0.5}).write(campaign.folder.batch(number))
    campaign.refresh()
    return frame_of(chosen)


def snapshot(folder):
    """All files of a campaign but the lock."""
    return {p.name: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "lock"}
