"""How a notebook shows an estimator: what was learned, or the settings where nothing was."""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from nmar.data.notebook import facts_table, first_ids
from nmar.evaluate.notes import POPULATIONS
from nmar.report.described import model_facts


class Shown:
    """A table of facts in place of scikit-learn's diagram, which needs a script and shows no results.

    ``sklearn.set_config(display="text")`` turns it off, as it does for other estimators.
    """

    def _repr_html_(self) -> str:
        """Settings, and what was learned."""
        settings = " ".join(repr(self).split())
        if not hasattr(self, "posterior_"):
            return facts_table(f"{type(self).__name__}, not fitted", [("settings", settings, "")])
        known: Any = self.posterior_
        ids = [("row ids", first_ids(known.rows.ids), ""), ("column ids", first_ids(known.cols.ids), "")]
        found = [*model_facts(self), *ids, ("settings", settings, "")]
        return facts_table(f"{type(self).__name__}, fitted", found, POPULATIONS[known.law.target])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What Jupyter asks first."""
        shown = {"text/plain": repr(self)}
        return shown if get_config()["display"] == "text" else {**shown, "text/html": self._repr_html_()}
