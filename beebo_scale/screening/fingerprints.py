"""Molecules: SMILES texts to Morgan fingerprints, and their scaffolds. RDKit is imported when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beebo_scale.errors import InputError

from .columns import Place, shown

if TYPE_CHECKING:
    import pandas as pd

RADIUS = 2
BITS = 2048


def rdkit_chem() -> Any:
    """RDKit's `Chem`, its messages on standard error silenced.

    Raises:
        InputError: RDKit is not installed.
    """
    try:
        from rdkit import Chem, RDLogger
    except ImportError:
        raise InputError("columns of kind smiles need RDKit; install it by: pip install 'beebo-scale[chem]'") from None
    RDLogger.DisableLog("rdApp.*")
    return Chem


def molecules(text: pd.Series, place: Place) -> list[Any]:
    """The RDKit molecules of n SMILES.

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    parse = rdkit_chem().MolFromSmiles
    found = [parse(smiles) for smiles in text]
    bad = np.array([molecule is None or molecule.GetNumAtoms() == 0 for molecule in found], dtype=bool)
    if bad.any():
        first = shown(text.iloc[int(np.argmax(bad))])
        raise place.error(f"holds what is no molecule ({first})", bad, "correct the SMILES or leave the row out")
    return found


def packed_fingerprints(text: pd.Series, place: Place, radius: int = RADIUS, bits: int = BITS) -> np.ndarray:
    """Morgan fingerprints, eight bits to a byte, the first the lowest.

    Args:
        text: n SMILES.
        place: where they stand.
        radius: bonds from an atom that its environment reaches.
        bits: length of the fingerprint, a multiple of 8.

    Returns:
        n x (bits / 8) uint8.

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    found = molecules(text, place)
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.DataStructs import BitVectToBinaryText

    generator = GetMorganGenerator(radius=radius, fpSize=bits)
    packed = b"".join(BitVectToBinaryText(generator.GetFingerprint(molecule)) for molecule in found)
    return np.frombuffer(packed, dtype=np.uint8).reshape(len(found), bits // 8)


def scaffolds(text: pd.Series, place: Place) -> np.ndarray:
    """Murcko scaffolds: the rings of each molecule and what links them, as n canonical SMILES ('' without rings).

    Raises:
        InputError: a text is no molecule, or RDKit is not installed.
    """
    found = molecules(text, place)
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return np.array([MurckoScaffoldSmiles(mol=molecule) for molecule in found], dtype=object)
