"""Molecules: SMILES texts to Morgan fingerprints, and their scaffolds. RDKit is imported when first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .places import Place, shown

if TYPE_CHECKING:
    import pandas as pd

MORGAN_RADIUS = 2
BITS = 2048
LARGEST_COUNT = 15  # a count that four bits hold; only long chains have more of anything


def rdkit_chem() -> Any:
    """RDKit's `Chem`, its messages on standard error silenced.

    Raises:
        InputError: RDKit is not installed.
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise InputError("columns of kind smiles need RDKit; install it by: pip install 'beebo-scale[chem]'") from None
    rdBase.DisableLog("rdApp.*")
    return Chem


def _of_each(text: pd.Series, place: Place, work: Callable[[Any], Any]) -> list[Any]:
    """`work` of each molecule, none of which is kept.

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    parse = rdkit_chem().MolFromSmiles
    results, bad = [], np.zeros(len(text), dtype=bool)
    for i, smiles in enumerate(text):
        molecule = parse(smiles)
        if molecule is None or molecule.GetNumAtoms() == 0:
            bad[i] = True
        else:
            results.append(work(molecule))
    if bad.any():
        first = shown(text.iloc[int(np.argmax(bad))])
        advice = "correct the SMILES or leave the row out (--drop-invalid)"
        raise place.error(f"holds what is no molecule ({first})", bad, advice, "is no molecule")
    return results


def check_molecules(text: pd.Series, place: Place) -> None:
    """Refuse SMILES that RDKit cannot read.

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    _of_each(text, place, lambda molecule: None)


def packed_fingerprints(
    text: pd.Series, place: Place, radius: int = MORGAN_RADIUS, bits: int = BITS, counts: bool = True
) -> np.ndarray:
    """Morgan fingerprints: how often each environment of an atom occurs, or whether it does.

    Args:
        text: n SMILES.
        place: where they stand.
        radius: bonds from an atom that its environment reaches.
        bits: length of the fingerprint, a multiple of 8.
        counts: numbers up to 15, two to a byte, the first in the lower half; False: bits, eight to a byte, the first
            the lowest.

    Returns:
        n x (bits / 2 or bits / 8) uint8.

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    rdkit_chem()
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.DataStructs import BitVectToBinaryText

    generator = GetMorganGenerator(radius=radius, fpSize=bits)

    def of_counts(molecule: Any) -> bytes:
        found = np.minimum(generator.GetCountFingerprintAsNumPy(molecule), LARGEST_COUNT).astype(np.uint8)
        return (found[0::2] | found[1::2] << 4).tobytes()

    def of_bits(molecule: Any) -> bytes:
        return bytes(BitVectToBinaryText(generator.GetFingerprint(molecule)))

    packed = b"".join(_of_each(text, place, of_counts if counts else of_bits))
    return np.frombuffer(packed, dtype=np.uint8).reshape(len(text), bits // (2 if counts else 8))


def scaffolds(text: pd.Series, place: Place) -> np.ndarray:
    """Murcko scaffolds: the rings of each molecule and what links them, as n canonical SMILES ('' without rings).

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    rdkit_chem()
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return np.array(_of_each(text, place, lambda molecule: MurckoScaffoldSmiles(mol=molecule)), dtype=object)
