import warnings

import pytest

ADVICE = (  # of Lightning, to programmers
    ".*does not have many workers.*",
    ".*IterableDataset. has .__len__.*",
    ".*number of training batches.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    "(?s).*LeafSpec.*",
)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        for words in ADVICE:
            warnings.filterwarnings("ignore", message=words)
        yield
