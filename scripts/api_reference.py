"""The API reference in docs/api, one Markdown page for each part of the package, rendered from the docstrings."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import beebo_scale

FOLDER = Path(__file__).parents[1] / "docs" / "api"
PAGES = {  # page -> what it is about, and the modules whose public names it holds
    "tables": ("Tables, batches, plates", ("screening", "datasets", "errors")),
    "settings": ("Settings: columns, fitting, choice", ("specs",)),
    "surrogates": ("Surrogates", ("surrogates",)),
    "proposals": ("Choosing a batch", ("proposal",)),
    "campaigns": ("Campaigns", ("campaign",)),
    "simulations": ("Simulations", ("simulation",)),
    "acquisition": (
        "The mathematics: posterior, information, energy, acquisition",
        ("posterior", "kernel_posterior", "information", "energy", "acquisition", "bounds", "temperature"),
    ),
}
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
ENTRY = re.compile(r"^    ([\w*][\w, *]*): (.*)$")


def names(module: ModuleType) -> list[str]:
    """Public names of a module; those in __all__ may not be loaded yet."""
    return list(getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")])


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions and classes that the package offers as `beebo_scale.NAME` or `beebo_scale.MODULE.NAME`."""
    for name in names(module):
        thing = getattr(module, name)
        if isinstance(thing, ModuleType) and thing.__name__ in (
            f"beebo_scale.{n}" for n in ("bounds", "datasets", "temperature")
        ):
            for inner in names(thing):
                part = getattr(thing, inner)
                if getattr(part, "__module__", "") == thing.__name__:
                    yield f"{name}.{inner}", part
        elif inspect.isfunction(thing) or inspect.isclass(thing):
            yield name, thing


def page_of(thing: Any) -> str:
    """The page that a name belongs on."""
    part = thing.__module__.split(".")[1]
    return next(page for page, (_, parts) in PAGES.items() if part in parts)


def signature(name: str, thing: Any) -> str:
    """The call as one writes it, on several lines where one would be too long."""
    try:
        call = inspect.signature(thing)
    except ValueError:
        return name
    call = call.replace(return_annotation=call.empty) if inspect.isclass(thing) else call
    parameters = [
        p.replace(
            annotation=Verbatim(p.annotation) if isinstance(p.annotation, str) else p.annotation,
            default=Default(p.default) if p.default is not p.empty else p.default,
        )
        for p in call.parameters.values()
    ]
    returned = call.return_annotation
    returned = Verbatim(returned) if isinstance(returned, str) else returned
    text = name + str(call.replace(parameters=parameters, return_annotation=returned))
    text = re.sub(r"\bself, |\(self\)", lambda match: "()" if match[0] == "(self)" else "", text)
    if len(text) <= 100:
        return text
    head, rest = text.split("(", 1)
    inside, tail = rest.rsplit(")", 1)
    return head + "(\n" + "".join(f"    {part},\n" for part in split(inside)) + ")" + tail


class Default:
    """A default as it is printed: the same on every machine and in every run."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return re.sub(r" object at 0x\w+| at 0x\w+", "", repr(self.value))


class Verbatim:
    """An annotation, which is a string (`from __future__ import annotations`): printed without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def split(text: str) -> list[str]:
    """Parameters, cut at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def body(thing: Any) -> list[str]:
    """The docstring as Markdown: sections become lists."""
    lines, section = [], False
    for line in (inspect.getdoc(thing) or "").splitlines():
        if match := SECTION.match(line):
            lines += [f"**{match[1]}**", ""]
            section = True
        elif section and (entry := ENTRY.match(line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif section and line.startswith("        "):
            lines.append("  " + line.strip())
        else:
            lines.append(line[4:] if section and line.startswith("    ") else line)
            section = section and (not line or line.startswith("    "))
    return [re.sub(r"<(\w)", r"\\<\1", line) if "`" not in line else line for line in lines]


def described(name: str, thing: Any) -> list[str]:
    """A function or a class with its methods."""
    lines = [f"## {name}", "", "```python", signature(name, thing), "```", "", *body(thing), ""]
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return lines
    for inner, member in vars(thing).items():
        member = inspect.unwrap(getattr(member, "__func__", member))
        if inner.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        if getattr(member, "__doc__", None):
            call = f"{name}.{inner}" if isinstance(member, property) else signature(f"{name}.{inner}", member)
            lines += [f"### {name}.{inner}", "", "```python", call, "```", "", *body(member), ""]
    return lines


def pages() -> dict[str, str]:
    """Name of each file and its text."""
    found: dict[str, list[tuple[str, Any]]] = {page: [] for page in PAGES}
    for name, thing in public(beebo_scale):
        found[page_of(thing)].append((name, thing))
    note = "<!-- written by scripts/api_reference.py from the docstrings; do not edit -->\n"
    texts, index = {}, [note, "# API reference", "", "All of it is `import beebo_scale as bs`, then `bs.NAME`.", ""]
    for page, things in found.items():
        title = PAGES[page][0]
        lines = [line for name, thing in things for line in described(name, thing)]
        texts[f"{page}.md"] = re.sub(r"\n{3,}", "\n\n", "\n".join([note, f"# {title}", "", *lines])).rstrip() + "\n"
        links = ", ".join(f"[`{name}`]({page}.md#{anchor(name)})" for name, _ in things)
        index += [f"- [{title}]({page}.md): {links}"]
    return {"README.md": "\n".join(index) + "\n", **texts}


def anchor(name: str) -> str:
    """Where a heading is, as GitHub makes it."""
    return name.lower().replace(".", "")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
