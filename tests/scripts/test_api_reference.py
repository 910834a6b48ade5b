import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_says_what_the_docstrings_say():
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "scripts" / "api_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = module.pages()
    written = {path.name: path.read_text(encoding="utf-8") for path in module.FOLDER.glob("*.md")}
    old = [name for name in expected if written.get(name) != expected[name]]
    assert not old, f"docs/api is not up to date ({', '.join(old)}); run python scripts/api_reference.py"
    assert written.keys() == expected.keys()
