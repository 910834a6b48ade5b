"""The three specs from which every face is made: Python keywords, commands, campaign.yaml, Lightning's modules.

`Columns` says what the columns of a measured file are, `Fitting` how a surrogate is fitted, `Choice` what a batch is
chosen from and how. Nothing here needs torch or pandas, so that what cannot work is refused before either is loaded.
"""

from .choice import Box as Box
from .choice import BoxSearch as BoxSearch
from .choice import Choice as Choice
from .choice import Limits as Limits
from .choice import Lists as Lists
from .columns import Columns as Columns
from .fitting import Approximation as Approximation
from .fitting import Fitting as Fitting
from .setting import keywords_of as keywords_of
from .setting import make as make
from .setting import plain as plain
from .setting import settings_of as settings_of
from .texts import is_list_file as is_list_file
