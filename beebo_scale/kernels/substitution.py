r"""The kernel of a protein's sites: amino acids of like chemistry may stand for each other.

    k(x, x') = exp(-sum_s theta_s D(x_s, x'_s)),      D(a, b) = (1 - w) [a != b] + w |z_a - z_b|^2 / c

z are the z-scales of the amino acids (hydrophobicity, size, polarity and two more), c makes the mean of the second term
over different letters 1, and w in (0, 1) is learned. w = 0 is the exchange kernel, in which all letters are as
different. Positive definite: [a != b] and squared distances are conditionally negative definite, and so is their sum
(Schoenberg, 1938).
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.priors import NormalPrior
from torch import Tensor

from ..screening.columns import ALPHABETS

# z1 to z5 of Sandberg et al., J. Med. Chem. 41 (1998) 2481, table 1.
Z_SCALES = {
    "A": (0.24, -2.32, 0.60, -0.14, 1.30),
    "C": (0.84, -1.67, 3.71, 0.18, -2.65),
    "D": (3.98, 0.93, 1.93, -2.46, 0.75),
    "E": (3.11, 0.26, -0.11, -3.04, -0.25),
    "F": (-4.22, 1.94, 1.06, 0.54, -0.62),
    "G": (2.05, -4.06, 0.36, -0.82, -0.38),
    "H": (2.47, 1.95, 0.26, 3.90, 0.09),
    "I": (-3.89, -1.73, -1.71, -0.84, 0.26),
    "K": (2.29, 0.89, -2.49, 1.49, 0.31),
    "L": (-4.28, -1.30, -1.49, -0.72, 0.84),
    "M": (-2.85, -0.22, 0.47, 1.94, -0.98),
    "N": (3.05, 1.62, 1.04, -1.15, 1.61),
    "P": (-1.66, 0.27, 1.84, 0.70, 2.00),
    "Q": (1.75, 0.50, -1.44, -1.34, 0.66),
    "R": (3.52, 2.50, -3.50, 1.99, -0.17),
    "S": (2.39, -1.07, 1.15, -1.39, 0.67),
    "T": (0.75, -2.18, -1.12, -1.46, -0.40),
    "V": (-2.59, -2.64, -1.54, -0.85, -0.02),
    "W": (-4.36, 3.94, 0.59, 3.44, -1.59),
    "Y": (-2.54, 2.44, 0.43, 0.04, -1.47),
}

LETTERS = len(Z_SCALES)
SPREAD = 1.5  # standard deviation of the normal prior on logit w: w is between 0.05 and 0.95 for 19 of 20 draws


def chemical_distances() -> Tensor:
    """|z_a - z_b|^2 of the letters in alphabetical order, each scale with variance 1, mean 1 over a != b; 20 x 20."""
    z = torch.tensor([Z_SCALES[letter] for letter in ALPHABETS["protein"]], dtype=torch.float64)  # 20 x 5
    z = (z - z.mean(0)) / z.std(0)
    D = (z.unsqueeze(1) - z).square().sum(-1)
    return D / (D.sum() / (LETTERS * (LETTERS - 1)))


class SubstitutionKernel(Kernel):
    """See the module; theta_s is kept as `lengthscale` 1 / theta_s, large where a site matters little."""

    has_lengthscale = True
    distances: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register_buffer("distances", chemical_distances(), persistent=False)
        self.register_parameter("logit_similarity", torch.nn.Parameter(torch.zeros(1)))
        self.register_prior("similarity_prior", NormalPrior(0.0, SPREAD), "logit_similarity")

    @property
    def similarity(self) -> Tensor:
        """The weight w of chemical likeness, 1."""
        return torch.sigmoid(self.logit_similarity)

    def exponents(self) -> Tensor:
        """theta_s D(a, b), sites x 20 x 20."""
        different = 1 - torch.eye(LETTERS, dtype=self.distances.dtype, device=self.distances.device)
        D = different + self.similarity * (self.distances - different)  # 20 x 20
        return D / self.lengthscale.reshape(-1, 1, 1)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x s and ... q x s -> ... p x q (diag: ... p); one product with indicators of letters."""
        E, a, b = self.exponents(), x1.long(), x2.long()
        site = torch.arange(len(E), device=E.device)
        if diag:
            return torch.exp(-E[site, a, b].sum(-1))
        indicators = torch.nn.functional.one_hot(a, LETTERS).to(E).flatten(-2)  # ... p x 20 s
        return torch.exp(-(indicators @ E[site, b].flatten(-2).mT))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        if f"{prefix}logit_similarity" not in state_dict:  # a file of an earlier version: the exchange kernel, w = 0
            state_dict[f"{prefix}logit_similarity"] = torch.full((1,), -torch.inf)
            own = self.similarity_prior.state_dict()
            state_dict.update({f"{prefix}similarity_prior.{name}": value for name, value in own.items()})
        super()._load_from_state_dict(state_dict, prefix, *rest)
