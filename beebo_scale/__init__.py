"""Batched energy-entropy Bayesian optimisation for large screens and large batches.

Read `posterior.py` first: everything else builds a `Posterior` or reads one. Names are imported when they are first
used; `__init__.pyi` says from where.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
