"""Batched energy-entropy Bayesian optimisation for large screens and large batches.

Read `posterior.py` first: everything else builds a `Posterior` (most a `KernelPosterior`) or reads one.
"""

from . import bounds as bounds
from . import datasets as datasets
from . import temperature as temperature
from .acquisition import BatchedEnergyEntropy as BatchedEnergyEntropy
from .campaign import Campaign as Campaign
from .energy import MeanEnergy as MeanEnergy
from .energy import SoftmaxEnergy as SoftmaxEnergy
from .energy import TargetEnergy as TargetEnergy
from .energy import TaskWeights as TaskWeights
from .errors import InputError as InputError
from .information import information_gain as information_gain
from .information import marginal_gain as marginal_gain
from .kernel_posterior import KernelPosterior as KernelPosterior
from .posterior import Posterior as Posterior
from .proposal import BoxSearch as BoxSearch
from .proposal import propose as propose
from .screening import Batch as Batch
from .screening import Table as Table
from .screening import b_score as b_score
from .screening import draw_plate as draw_plate
from .screening import noise_from_counts as noise_from_counts
from .screening import outliers as outliers
from .screening import percent_of_control as percent_of_control
from .screening import plate_map as plate_map
from .screening import read_library as read_library
from .screening import read_table as read_table
from .screening import robust_z as robust_z
from .simulation import Landscape as Landscape
from .simulation import TestFunction as TestFunction
from .simulation import simulate as simulate
from .surrogates import Approximation as Approximation
from .surrogates import Surrogate as Surrogate
from .surrogates import fit as fit
from .surrogates import load_surrogate as load_surrogate
from .surrogates import posterior_of as posterior_of
from .version import VERSION

__version__ = VERSION
