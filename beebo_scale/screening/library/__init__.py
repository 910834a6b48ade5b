"""Candidate libraries that are read in chunks."""

from .library import Library as Library
from .library import open_library as open_library
