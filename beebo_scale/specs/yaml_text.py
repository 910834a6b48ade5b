"""YAML as people write settings: what is small but unfolds to much is refused before anything walks through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LONGEST = 1 << 20  # characters
NODES, DEEPEST = 100_000, 50  # entries, those that aliases stand for counted; lists and mappings in each other


def load_yaml(text: str) -> Any:
    """The settings in a text.

    Raises:
        yaml.YAMLError: no YAML, or more than settings are.
    """
    import yaml  # type: ignore[import-untyped]

    check_yaml(text, yaml.SafeLoader)
    return yaml.safe_load(text)


def check_yaml(text: str, loader: type) -> None:
    """Refuse a text that is longer, deeper or, its aliases written out, larger than settings are.

    Args:
        text: of a file, or of an option.
        loader: of PyYAML that will read it.

    Raises:
        yaml.YAMLError: it is, or it is no YAML.
    """
    import yaml

    if len(text) > LONGEST:
        raise yaml.YAMLError(f"more than {LONGEST:,} characters are no settings")
    sizes: dict[str, int] = {}  # of what has an anchor
    around: list[tuple[str | None, int]] = [(None, 0)]  # anchor and size so far of each list or mapping that is open
    for event in yaml.parse(text, loader):
        anchor, size = getattr(event, "anchor", None), int(isinstance(event, yaml.ScalarEvent))
        if isinstance(event, yaml.CollectionStartEvent):
            around.append((anchor, 1))
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = around.pop()
        elif isinstance(event, yaml.AliasEvent):
            anchor, size = None, _size(anchor, sizes)
        sizes |= {} if anchor is None else {anchor: size}
        around[-1] = (around[-1][0], around[-1][1] + size)
        if around[-1][1] > NODES or len(around) > DEEPEST:
            raise yaml.YAMLError(f"more than {NODES:,} entries, aliases written out, or {DEEPEST} in each other")


def _size(anchor: str | None, sizes: dict[str, int]) -> int:
    import yaml

    if anchor not in sizes:
        raise yaml.YAMLError(f"the alias *{anchor} stands for nothing, or for a part of itself")
    return sizes[anchor]


@dataclass(frozen=True)
class Limited:
    """A loader of YAML behind `check_yaml`."""

    load: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        """What the text holds."""
        import yaml

        check_yaml(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return self.load(text)
