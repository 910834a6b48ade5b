"""Memory of `propose` with many measured molecules: peak of the process, and what it was before.

    python scripts/benchmarks/measured_memory.py --rows 300000

The surrogate is one fitted to a few molecules whose measured rows are random fingerprints, packed as training
packs them: what `propose` does with them is to look candidates up among them.
"""

import argparse
import resource
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale.screening.packing import Packing
from beebo_scale.surrogates.data.observations import PackedObservations

GROUPS = ("C", "N", "O", "S", "C(F)", "C(Cl)", "C(c2ccccc2)", "C(=O)N", "C(C)", "C(c2ccncc2)")


def molecules(n: int, seed: int) -> list[str]:
    """Chains of groups."""
    draws = np.random.default_rng(seed).integers(0, len(GROUPS), size=(n, 5))
    return ["C" + "C".join(GROUPS[i] for i in row) + "C" for row in draws]


def peak() -> float:
    """Largest memory of the process so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    rows = parser.parse_args().rows
    smiles = sorted(set(molecules(400, 0)))
    screen = pd.DataFrame({"smiles": smiles, "y": np.random.default_rng(1).standard_normal(len(smiles))})
    table = bs.read_table(screen, "y", features={"smiles": "smiles"})
    surrogate = bs.fit(table, kind="sgpr", iterations=1)
    packing = Packing.of(surrogate.encoder)
    bits = torch.randint(0, 256, (rows, packing.size), dtype=torch.uint8)
    many = torch.zeros(rows)
    data = PackedObservations(bits, packing, many, None, many + 1, many)
    surrogate = replace(surrogate, data=data)
    library = pd.DataFrame({"smiles": molecules(3000, 2)}).drop_duplicates()
    before, start = peak(), time.process_time()
    bs.propose(surrogate, 24, library=library)
    print(
        f"{rows:,} measured: peak {peak():.2f} GB ({before:.2f} GB before), {time.process_time() - start:.1f} s of CPU"
    )


if __name__ == "__main__":
    main()
