"""Tables of measurements and candidates: reading, checking, encoding and writing them."""

from .batch import Batch as Batch
from .batch import atomic_write as atomic_write
from .batch import check_folder as check_folder
from .batch import check_output as check_output
from .batch import run_path as run_path
from .encoding import CategoricalColumn as CategoricalColumn
from .encoding import ContinuousColumn as ContinuousColumn
from .encoding import Encoder as Encoder
from .encoding import FingerprintColumn as FingerprintColumn
from .encoding import SequenceColumn as SequenceColumn
from .table import KINDS as KINDS
from .table import Table as Table
from .table import read_library as read_library
from .table import read_table as read_table
