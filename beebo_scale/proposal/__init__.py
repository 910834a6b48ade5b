"""Proposals: from a posterior to the next batch, out of a library or a box."""

from .choose import choose as choose
from .prepare import Prepared as Prepared
from .prepare import encode_measured as encode_measured
from .prepare import measured_blocks as measured_blocks
from .prepare import prepare as prepare
from .prepare import prepare_measured as prepare_measured
from .propose import propose as propose
