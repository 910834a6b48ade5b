"""Closed loops on what is fully known: landscapes and test functions."""

from ..specs import Fitting as Fitting
from ..temperature import Steps as Steps
from .landscape import Landscape as Landscape
from .problems.functions import TestFunction as TestFunction
from .product import ProductLandscape as ProductLandscape
from .results import Results as Results
from .simulate import FUNCTION_STRATEGIES as FUNCTION_STRATEGIES
from .simulate import LANDSCAPE_STRATEGIES as LANDSCAPE_STRATEGIES
from .simulate import MORE_FUNCTION_STRATEGIES as MORE_FUNCTION_STRATEGIES
from .simulate import NOISE_STRATEGIES as NOISE_STRATEGIES
from .simulate import PRODUCT_STRATEGIES as PRODUCT_STRATEGIES
from .simulate import Options as Options
from .simulate import simulate as simulate
