"""Sequences as lists: a wild type, the positions that vary, and the letters that each may have.

    variant: {wild_type: MQYKLILN, positions: [3, 5, 6], letters: NNK}
    variant:MQYKLILN@3|5|6=NNK

Letters are also ACDE, ALL, a list of degenerate codons ([NDT, VHG, TGG]), or a mapping of positions to any of these.
A measured variant is a whole sequence, its letters at the positions, or its mutations: 'Y3A/L5G', 'WT' for none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ..columns import ALPHABETS
from ..places import Place, shown
from ..same import BLANKS
from .lists import MUTATION, BlockList

if TYPE_CHECKING:
    import pandas as pd

BASES = "TCAG"
AMINO_ACIDS = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"  # of the codons TTT, TTC, ..., GGG
CODE = dict(zip(map("".join, product(BASES, repeat=3)), AMINO_ACIDS, strict=True))
DEGENERATE = {
    **{base: base for base in BASES},
    **{"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT"},
}
CODON = re.compile(f"^[{''.join(DEGENERATE)}]{{3}}$")
SHORT = re.compile(r"^([A-Za-z]+)@([\d|]+)=(.+)$")
SEPARATORS = re.compile(r"[/,;:+\s]+")
ENTRIES = ("wild_type", "positions", "letters", "first")
WILD = "WT"


@dataclass(frozen=True, eq=False)
class Sites:
    """The positions of a sequence that vary.

    Attributes:
        name: of the column of variants.
        wild_type: the whole sequence.
        positions: as people number them.
        first: number of the first letter.
        lists: one for each position.
    """

    name: str
    wild_type: str
    positions: tuple[int, ...]
    first: int
    lists: tuple[BlockList, ...]

    def mutations(self, letters: np.ndarray) -> np.ndarray:
        """'Y3A/L5G' of the letters at the positions, n x s -> n."""
        own = [self.wild_type[p - self.first] for p in self.positions]
        texts = [
            "/".join(f"{w}{p}{x}" for w, p, x in zip(own, self.positions, row, strict=True) if x != w) or WILD
            for row in letters.tolist()
        ]
        return np.array(texts, dtype=object)

    def sequences(self, letters: np.ndarray) -> np.ndarray:
        """Whole sequences, n x s -> n."""
        found = []
        for row in letters.tolist():
            whole = list(self.wild_type)
            for p, x in zip(self.positions, row, strict=True):
                whole[p - self.first] = x
            found.append("".join(whole))
        return np.array(found, dtype=object)

    def letters(self, cells: pd.Series, place: Place) -> np.ndarray:
        """The letters at the positions of measured variants, n -> n x s.

        Raises:
            InputError: a cell is no variant of the wild type, or varies elsewhere.
        """
        rows = []
        for i, cell in enumerate(cells.astype(object).astype(str)):
            text = cell.strip(BLANKS)
            found, why = self.read(text)
            if found is None:
                bad = np.arange(len(cells)) == i
                raise place.error(
                    f"holds {shown(text)}, which {why}",
                    bad,
                    f"give a sequence of {len(self.wild_type)} letters, the letters at the positions, or mutations "
                    "such as A3G/L5M",
                )
            rows.append(list(found))
        return np.array(rows, dtype=object)

    def read(self, text: str) -> tuple[str | None, str]:
        """The letters at the positions of a variant, or None and why there are none."""
        own, at = [self.wild_type[p - self.first] for p in self.positions], {p: i for i, p in enumerate(self.positions)}
        if text.upper() == WILD:
            return "".join(own), ""
        if len(text) == len(self.wild_type) and text.isalpha():
            text = text.upper()
            odd = [i + self.first for i, (a, b) in enumerate(zip(text, self.wild_type, strict=True)) if a != b]
            outside = [p for p in odd if p not in at]
            if outside:
                return None, f"differs from the wild type at position {outside[0]}, which does not vary"
            found = "".join(text[p - self.first] for p in self.positions)
        elif len(text) == len(self.positions) and text.isalpha():
            found = text.upper()
        else:
            letters = list(own)
            for part in filter(None, SEPARATORS.split(text)):
                match = MUTATION.match(part)
                if match is None:
                    return None, f"is neither a sequence nor mutations ({shown(part)})"
                position = int(match[2])
                if position not in at:
                    return None, f"mutates position {position}, which does not vary"
                if match[1].upper() != own[at[position]]:
                    return (
                        None,
                        f"takes the wild type for {match[1].upper()} at {position}, but it is {own[at[position]]}",
                    )
                letters[at[position]] = match[3].upper()
            found = "".join(letters)
        odd_letters = [x for x in found if x not in ALPHABETS["protein"]]
        return (None, f"has the letter {odd_letters[0]!r}") if odd_letters else (found, "")


def sites_of(name: str, given: Any) -> Sites | None:
    """Sites as people write them, None where it is a list of another kind.

    Raises:
        InputError: positions or letters that cannot be.
    """
    if isinstance(given, str) and SHORT.match(given):
        wild, positions, letters = SHORT.match(given).groups()  # type: ignore[union-attr]
        given = {"wild_type": wild, "positions": [int(p) for p in positions.split("|") if p], "letters": letters}
    if not isinstance(given, Mapping) or "wild_type" not in given:
        return None
    unknown = [key for key in given if key not in ENTRIES]
    if unknown or "positions" not in given:
        raise InputError(f"choices {name!r}: a sequence has the entries {', '.join(ENTRIES)}; positions must be there")
    wild, first = str(given["wild_type"]).strip().upper(), int(given.get("first", 1))
    bad = [x for x in wild if x not in ALPHABETS["protein"]]
    if bad or not wild:
        raise InputError(
            f"choices {name!r}: the wild type holds {bad[0] if bad else 'nothing'!r}; it takes amino acids"
        )
    positions = tuple(int(p) for p in given["positions"])
    outside = [p for p in positions if not first <= p < first + len(wild)]
    if outside or len(set(positions)) < len(positions) or not positions:
        why = f"position {outside[0]} is not in" if outside else "each position is named once for"
        raise InputError(f"choices {name!r}: {why} the wild type, {first} to {first + len(wild) - 1}")
    letters = given.get("letters", "ALL")
    each = letters if isinstance(letters, Mapping) else dict.fromkeys(positions, letters)
    each = {int(p): allowed for p, allowed in each.items()}
    missing = [p for p in positions if p not in each]
    if missing:
        raise InputError(f"choices {name!r}: letters says nothing of position {missing[0]}; add it")
    lists = tuple(_site(f"{name}{p}", letters_of(each[p], f"choices {name!r}")) for p in positions)
    return Sites(name, wild, positions, first, lists)


def letters_of(given: Any, source: str) -> str:
    """Amino acids from 'ACDE', 'ALL', a degenerate codon such as NNK, or a list of codons or letters.

    Raises:
        InputError: there are none, or one is unknown.
    """
    several = isinstance(given, Sequence) and not isinstance(given, str)
    parts = [str(text).strip().upper() for text in (given if several else re.split(r"[|,]", str(given)))]
    found: set[str] = set()
    for text in parts:
        if text == "ALL":
            found |= set(ALPHABETS["protein"])
        elif CODON.match(text):
            found |= {CODE["".join(bases)] for bases in product(*(DEGENERATE[x] for x in text))} - {"*"}
        else:
            bad = [x for x in text if x not in ALPHABETS["protein"]]
            if bad:
                raise InputError(
                    f"{source}: {text!r} holds {bad[0]!r}, no amino acid; give letters, ALL, or codons (NNK)"
                )
            found |= set(text)
    if not found:
        raise InputError(f"{source} is an empty list; give at least one letter")
    return "".join(sorted(found))


def _site(name: str, letters: str) -> BlockList:
    import pandas as pd

    values = np.array(list(letters), dtype=object)
    return BlockList(name, "protein", name, values, values, False, pd.DataFrame(index=range(len(values))))
