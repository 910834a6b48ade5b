"""Small problems on one thread, and the files that take longest first.

Threads that wait for each other cost ten times more than they save.
"""

import torch

torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """Files that start processes come first, so that the workers of a parallel run end together."""
    long = {item.path for item in items if item.get_closest_marker("process")}
    items.sort(key=lambda item: item.path not in long)
