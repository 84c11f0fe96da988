"""Formulas of the theory's page become MathML that browsers read, with all of their symbols."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("formulas", DOCS / "formulas.py")
assert _spec is not None and _spec.loader is not None
formulas = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(formulas)


def test_scripts_stand_where_they_belong():
    made = formulas.formula("α^u_ik = Σ_{j∈Ω_i} s_ij^n V_jk")
    assert "<msubsup><mrow><mi>α</mi></mrow><mrow><mi>i</mi><mi>k</mi></mrow><mrow><mi>u</mi></mrow></msubsup>" in made
    assert "<msubsup><mrow><mi>s</mi></mrow><mrow><mi>i</mi><mi>j</mi></mrow><mrow><mi>n</mi></mrow></msubsup>" in made
    assert "Ω" in made and "_" not in made and "^" not in made


def test_words_are_upright_and_symbols_are_not():
    assert formulas.formula("log φ") == (
        '<mrow><mtext>log</mtext><mspace width="0.2em"></mspace><mrow><mi>φ</mi></mrow></mrow>'
    )


def test_every_formula_of_the_theory_keeps_its_symbols():
    """The text of the MathML is the formula without spaces, braces and the marks of scripts."""
    blocks = formulas.BLOCK.findall((DOCS / "theory.md").read_text("utf-8"))
    assert len(blocks) > 30
    plain = re.compile(r"[\s_^{}]")
    for block in blocks:
        tree = ET.fromstring(formulas.block(block))
        text = plain.sub("", "".join(tree.itertext()))
        assert sorted(text) == sorted(plain.sub("", block))
