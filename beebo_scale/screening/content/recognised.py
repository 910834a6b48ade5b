"""Texts that mean more than a label, told by what they look like: molecules, sequences, mutations, relations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ..columns import ALPHABETS
from ..fingerprints import rdkit_chem

LOOKED_AT = 200  # different texts that tell what a column holds
NEARLY = 0.9  # of them must look alike
LONG = 10  # letters of a text that is a sequence rather than an acronym such as DIPEA ...
MUTATED = "mutations"
MANY = 20  # ... unless there are so many, all of one length

_AMINO = f"[{ALPHABETS['protein']}]"
_THREE = "(?:Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val)"
_CHANGE = r"(?:del|dup|fs\w*|ins[A-Za-z]+|delins[A-Za-z]+|Ter|[*=X-])"
_MUTATION = (
    rf"(?:p\.)?(?:{_AMINO}\d+(?:_{_AMINO}\d+)?(?:{_AMINO}|{_CHANGE})|{_THREE}\d+(?:{_THREE}|{_CHANGE})|\d+{_AMINO})"
    r"|(?:[cgn]\.)?\d+[ACGT]>[ACGT]"
)
MUTATIONS = re.compile(rf"(?:{_MUTATION})(?:[:;,/+_ -]\s*(?:{_MUTATION}))*")
WILD_TYPE = re.compile(r"_?wt|wild[ _-]?type", re.IGNORECASE)
STRUCTURE = re.compile(r"[=#()\[\]@]|[A-Za-z][1-9].*[A-Za-z][1-9]|c1|n1")  # of a SMILES that is no plain word
SMILES = re.compile(r"[A-Za-z0-9@+\-\[\]()\\/%=#$.:*~]+")
RELATIONS = re.compile(r"['\"]?\s*(?:[<>]=?|<<|>>|[≤≥=~≈]|==)\s*['\"]?")
EQUAL = re.compile(r"['\"]?\s*==?\s*['\"]?")


@dataclass(frozen=True)
class Recognised:
    """What the texts of a column are.

    Attributes:
        kind: to be taken as; empty where there is none for it.
        what: they are, in words.
        way: out, where they cannot be taken.
    """

    kind: str
    what: str
    way: str = ""


def recognised(texts: Sequence[str]) -> Recognised | None:
    """What some different texts of a column are; None for labels."""
    some = [text.strip() for text in texts[:LOOKED_AT]]
    if _mutations(some):
        return Recognised("", MUTATED, "give the whole sequences as a column of kind protein")
    return _sequences(some) or (Recognised("smiles", "molecules") if _molecules(some) else None)


def _share(some: Sequence[str], pattern: re.Pattern[str]) -> float:
    return sum(pattern.fullmatch(text) is not None for text in some) / max(1, len(some))


def _mutations(some: Sequence[str]) -> bool:
    """Whether texts are such as A24G, V39A:D40G, 3F, p.Ala24Gly, WT."""
    others = [text for text in some if not WILD_TYPE.fullmatch(text)]
    return len(others) > 1 and _share(others, MUTATIONS) >= NEARLY


def _sequences(some: Sequence[str]) -> Recognised | None:
    """Sequences of letters of an alphabet: long ones, or many of one length."""
    letters = [text for text in some if re.fullmatch(r"[A-Za-z*-]+", text)]
    if len(some) < 2 or len(letters) < NEARLY * len(some):
        return None
    lengths, counts = np.unique([len(text) for text in letters], return_counts=True)
    alike = counts.max() >= NEARLY * len(letters)
    if not (lengths.min() >= LONG or (alike and len(letters) >= MANY and lengths[counts.argmax()] > 2)):
        return None
    whole = "".join(letters)
    used = set(whole.upper()) - set("*-")
    if used <= set("ACGU") and "U" in used:
        return Recognised("", "sequences of RNA", "write T for U and name the kind dna")
    kind = "dna" if used <= set(ALPHABETS["dna"]) else "protein"
    known = sum(set(text.upper()) <= {*ALPHABETS[kind], *"*-X"} for text in letters)
    if known < NEARLY * len(letters) or (kind == "protein" and sum(c.isupper() for c in whole) < len(whole) / 2):
        return None
    if not alike:
        return Recognised("", f"sequences of {lengths[0]} to {lengths[-1]} letters", "align them to one length")
    return Recognised(kind, f"sequences of {lengths[counts.argmax()]} letters")


def _molecules(some: Sequence[str]) -> bool:
    """Whether texts are SMILES: nearly all are molecules, and most have brackets, bonds or rings."""
    if len(some) < 2 or _share(some, SMILES) < NEARLY:
        return False
    if sum(STRUCTURE.search(text) is not None for text in some) < len(some) / 2:
        return False
    try:
        parse = rdkit_chem().MolFromSmiles
    except InputError:
        return True  # whoever reads them says what is missing
    return sum(parse(text) is not None for text in some) >= NEARLY * len(some)


def are_relations(texts: Sequence[str]) -> bool:
    """Whether texts say which values of another column are limits: '>', '<', '~' and '='."""
    return bool(texts) and all(RELATIONS.fullmatch(text.strip()) for text in texts)


def is_limit(text: str) -> bool:
    """Whether a relation says that the value beside it is no measured one."""
    return RELATIONS.fullmatch(text.strip()) is not None and EQUAL.fullmatch(text.strip()) is None
