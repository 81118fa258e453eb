"""A spec's docstring in the generated module: whatever it holds, the module is Python, and says the same."""

import warnings
from pathlib import Path

import pytest

from derive.catalogue import load_file
from derive.emit import render
from derive.pipeline import derivation_of

SPEC = """from derive import *

n = axes("n")


@op
def mine(f, x: tensor[n]):
    {doc}
    f.y[n] = 2 * x[n]
    return f.y
"""
DOCS = {
    """'''Says \"\"\"hi\"\"\".'''""": 'Says """hi""".',
    """'''\"Hi\" and \"\"\"\"four.'''""": '"Hi" and """"four.',
    """'''Says \"hi\"'''""": 'Says "hi".',
    r"""r'''A \alpha and \x41 \N{DASH}.'''""": r"A \alpha and \x41 \N{DASH}.",
    r"""r'''Ends in \\'''""": "Ends in \\\\.",
    r"""'''a \x00 \x0c b \ud800.'''""": r"a \x00 \x0c b \ud800.",
    """'''{{ x }} {% if %} {# c #}.'''""": "{{ x }} {% if %} {# c #}.",
    """'''Ünï ⊗.'''""": "Ünï ⊗.",
}


@pytest.mark.parametrize("doc", DOCS)
def test_a_docstring_goes_out_as_it_is(doc: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SPEC.format(doc=doc), encoding="utf-8")
    (op,) = load_file(tmp_path / "mine.py")
    source = render(derivation_of(op))
    source.encode("utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an escape that Python does not know
        code = compile(source, "mine.py", "exec")
    module, *functions = (d.strip() for d in _docstrings(code) if d)  # Black keeps a quote from three
    assert module.startswith(f"{DOCS[doc]}\n")
    assert f"{DOCS[doc]} Differentiable by `loss.backward()`." in functions


def _docstrings(code):
    """What a module's code and that of its functions begin with."""
    yield next((c for c in code.co_consts if isinstance(c, str)), None)
    for inner in code.co_consts:
        if hasattr(inner, "co_consts"):
            yield from _docstrings(inner)
