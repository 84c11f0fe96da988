"""The pages as documents: headings, names for who cannot see, escaping, colours that can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest

import nmar
from nmar.evaluate.comparison import Comparison
from nmar.report import figures
from nmar.report.html import comparison_page, model_page
from nmar.report.text import signed

VOID = {"meta", "br", "link", "img", "input", "hr"}
NASTY = '<b>"x" & y</b>'


class Document(HTMLParser):
    """Tags with their attributes, in order; whether they are balanced; text by heading level."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and re.fullmatch(r"h[1-6]", self.open[-1]):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of all elements of a kind."""
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def named_cells(linked: nmar.Cells) -> nmar.Cells:
    """The same cells with ids that a page must escape."""
    row, col = linked.positions()
    table = {"r": [f"{NASTY}{i}" for i in row], "c": [f"<i>{j}" for j in col], "v": linked.values}
    return nmar.Cells.from_frame(table, row="r", col="c", value="v")


@pytest.fixture(scope="module")
def model(named_cells: nmar.Cells) -> nmar.CCPF:
    linkage = nmar.Linear(0.3)
    return nmar.CCPF(nmar.Factorization(2), linkage, 3, max_iter=8, random_state=0, n_jobs=1).fit(named_cells)


@pytest.fixture(scope="module")
def pages(comparison: Comparison, model: nmar.CCPF, named_cells: nmar.Cells) -> dict[str, str]:
    columns = {"row": NASTY, "col": "a b", "value": None}
    return {
        "comparison": comparison_page(comparison),
        "model": model_page(model, named_cells, f"{NASTY}.nmar", columns),
    }


both = pytest.mark.parametrize("which", ["comparison", "model"])


@both
def test_structure(pages: dict[str, str], which: str) -> None:
    found = Document(pages[which])
    assert found.open == [] and found.named("html")[0]["lang"] == "en" and found.named("title")
    assert any(meta.get("name") == "viewport" for meta in found.named("meta"))
    levels = [level for level, _ in found.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(text.strip() for _, text in found.headings)
    assert len(found.named("main")) == 1 and not {"script", "link", "img", "iframe", "a"} & {
        tag for tag, _ in found.tags
    }
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


@both
def test_names_for_who_cannot_see(pages: dict[str, str], which: str) -> None:
    found = Document(pages[which])
    pictures = found.named("svg")
    assert len(pictures) >= 5
    for one in pictures:
        label = one["aria-label"] or ""
        assert one["role"] == "img" and ". " in label and re.search(r"\d", label)
    assert len(found.named("desc")) == len(pictures)
    assert all(head.get("scope") in ("col", "row", "rowgroup") for head in found.named("th")) and found.named("th")


def test_plain_words_come_before_technical_names(pages: dict[str, str], comparison: Comparison) -> None:
    text = pages["comparison"]
    for plain, technical in (
        ("Missingness modelled", "coupled model"),
        ("What rows and columns choose tells about their values", "mechanism &quot;taste&quot;"),
        ("Choices of other rows and columns, at random", "shuffled control"),
        ("Noise by the chance of being observed", "two-stage baseline"),
        ("Heavier tails everywhere, whatever is missing", "tail-only control"),
        ("Missingness ignored", "ignorable model"),
    ):
        assert f'{plain} <span class="technical">[{technical}]</span>' in text
    finding = comparison.verdict.findings[0]
    assert not re.search(r"\d\.\d", finding.plain)
    order = [text.index(part) for part in (finding.plain.split("[")[0][:40], 'class="forest"', "data-head=", "<svg")]
    assert order == sorted(order)


def test_every_gain_is_on_the_page_with_a_zero_line(pages: dict[str, str], comparison: Comparison) -> None:
    text = pages["comparison"].replace("−", "-")
    for row in comparison.rows:
        for gain in (row.gain, row.gain_over_own, row.gain_over_two_stage, row.gain_over_control):
            assert gain is None or signed(gain) in text
    assert text.count('class="zero"') == len(comparison.rows) == text.count('class="line"')
    assert '<div class="axis"' in text and ">0</span>" in text
    assert signed(-1e-9) == signed(1e-9) == "0.0000"


def test_the_zigzag_is_explained_where_it_is_shown(pages: dict[str, str], named_cells: nmar.Cells) -> None:
    assert pages["comparison"].count("The zigzag of the linear linkage is meant") == 1
    assert pages["model"].count("The zigzag of the linear linkage is meant") == 2  # in words, and below the figure
    free = nmar.CCPF(nmar.Effects("rows"), "free", 2, max_iter=2, random_state=0, n_jobs=1).fit(named_cells)
    assert "zigzag" not in model_page(free)


def test_the_zigzag_has_a_straight_mean() -> None:
    import numpy as np

    chance = np.linspace(0.1, 0.9, 9)
    found = nmar.Linear(0.3).expected(-np.log1p(-chance))
    np.testing.assert_allclose(found, 1 - 0.3 * chance, rtol=1e-12)


@both
def test_names_are_escaped(pages: dict[str, str], which: str) -> None:
    assert "<b>" not in pages[which] and "sim <1>" not in pages[which] and "<i>1" not in pages[which]


def test_what_a_model_page_says(pages: dict[str, str], model: nmar.CCPF, named_cells: nmar.Cells) -> None:
    text = pages["model"]
    heads = [words for _, words in Document(text).headings]
    for head in ("On held-out cells", "Factors of the values", "Components of the missingness"):
        assert head in heads
    for head in ("What predictions are about", "What imputation takes for granted", "What to do next"):
        assert head in heads
    assert "given that they are observed" in text and "a missing value is taken to be like an observed one" in text
    for sign in ("high", "low"):
        member = model.col_factors_.top(1, sign)["factor 1"][0][0]
        assert member.replace("<", "&lt;").replace(">", "&gt;") in text
    assert "--col &#x27;a b&#x27; --value VALUE" in text and "nmar evaluate" in text and "model.sensitivity(" in text
    bare = model_page(model)
    assert "No cells were given to judge by" in bare and "values inside" not in bare


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nmar.CCPF(nmar.Mixture(2), "ignorable", 2), ("Clusters", "Missingness ignored")),
        (lambda: nmar.CCPF(nmar.Effects("rows"), "two-stage", 2), ("Noise by the chance of being observed",)),
        (
            lambda: nmar.CCPF(nmar.Effects("rows"), factors=2, mechanism="taste"),
            ("What rows and columns choose tells",),
        ),
        (
            lambda: nmar.CCPF(nmar.Effects("rows"), factors=2, mechanism="taste", control="shuffled"),
            ("Choices of other rows and columns",),
        ),
        (
            lambda: nmar.CCPF(nmar.Effects("rows"), factors=2, mechanism="value"),
            (
                "Values decide whether they are seen",
                "P(observed | value)",
                "slope Γ",
                "drawn given that they are missing",
            ),
        ),
        (lambda: nmar.CCPF(nmar.Constant("gaussian"), "free", 2, control="tail"), ("Heavier tails everywhere",)),
        (lambda: nmar.CCPF(nmar.PatternOnly(), factors=2), ("Components of the missingness",)),
        (lambda: nmar.CCPF(nmar.Effects("rows"), nmar.Free(mean="shift"), 2), ("also moves the mean",)),
        (lambda: nmar.CCPF(nmar.Effects("rows"), "ignorable", 2, target="all"), ("values of all cells",)),
    ],
)
def test_every_kind_of_model_has_a_page(
    make: Callable[[], nmar.CCPF], words: tuple[str, ...], linked: nmar.Cells
) -> None:
    fitted = make().set_params(max_iter=3, n_jobs=1, random_state=0, tol=0.0).fit(linked)
    text = model_page(fitted)
    assert Document(text).open == [] and all(word in text for word in words)


# --- colours ------------------------------------------------------------------------------------------------


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2)."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str) -> None:
    css = resources.files("nmar.report").joinpath("page.css").read_text(encoding="utf-8")
    light, dark = css.split("prefers-color-scheme: dark", 1)
    part = light if scheme == "light" else dark.split("\n}\n", 1)[0]
    colors = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", part))
    for text in ("ink", "muted"):
        for ground in ("bg", "card", "soft", "accent-soft"):
            assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
    for mark in (f"c{k}" for k in range(1, 9)):
        assert contrast(colors[mark], colors["card"]) >= 3.0, mark
    if scheme == "light":
        assert all(colors[role] == color for role, color in figures.ROLES.items())


def test_a_model_page_has_names_and_the_seed(linked: nmar.Cells) -> None:
    model = nmar.CCPF(nmar.Effects("both"), factors=2, max_iter=3, random_state=11).fit(linked)
    titles = {int(one): f"film {one}, The" for one in linked.col_ids}
    text = model_page(model, col_labels=titles)
    noisiest = model.col_noise_.noisiest(2).tolist()
    assert all(f"film {one}, The (" in text for one in noisiest) and "; film" in text
    assert "<dt>seed</dt><dd>11</dd>" in text
    assert "typical distance of a value from its mean" in text and "<dt>dispersion</dt>" not in text
    with pytest.raises(ValueError, match="none of the ids has a label"):
        model_page(model, row_labels={"nobody": "x"})
