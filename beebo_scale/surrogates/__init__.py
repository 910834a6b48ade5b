"""Surrogates: they build a `Posterior` from measurements; everything else only reads it."""

from .botorch_models import posterior_of as posterior_of
from .fit import fit as fit
from .surrogate import Surrogate as Surrogate
from .surrogate import load_surrogate as load_surrogate
