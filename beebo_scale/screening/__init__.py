"""Tables of measurements and candidates: reading, checking, encoding and writing them."""

from .batch import Batch as Batch
from .batch import atomic_write as atomic_write
from .batch import check_folder as check_folder
from .counts import noise_from_counts as noise_from_counts
from .encoding import CategoricalColumn as CategoricalColumn
from .encoding import ContinuousColumn as ContinuousColumn
from .encoding import EncodedTable as EncodedTable
from .encoding import Encoder as Encoder
from .encoding import SequenceColumn as SequenceColumn
from .plates.layout import Layout as Layout
from .plates.layout import draw_plate as draw_plate
from .plates.layout import plate_map as plate_map
from .plates.layout import write_plates as write_plates
from .plates.normalise import b_score as b_score
from .plates.normalise import outliers as outliers
from .plates.normalise import percent_of_control as percent_of_control
from .plates.normalise import robust_z as robust_z
from .table import Table as Table
from .table import read_library as read_library
from .table import read_table as read_table
