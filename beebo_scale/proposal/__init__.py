"""Proposals: from a posterior to the next batch, out of a library or a box."""

from .box.multistart import BoxSearch as BoxSearch
from .box.units import Box as Box
from .library.limits import Limits as Limits
from .propose import check_request as check_request
from .propose import propose as propose
from .request import Request as Request
