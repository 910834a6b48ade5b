"""Proposals: from a posterior to the next batch, out of a library or a box."""

from .box import BoxSearch as BoxSearch
from .limits import Limits as Limits
from .propose import check_request as check_request
from .propose import propose as propose
from .request import Request as Request
from .settings import Box as Box
