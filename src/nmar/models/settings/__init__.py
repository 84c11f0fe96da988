"""What users write to choose a data model, one file each; each builds the model that runs."""

from nmar.models.settings.base import Settings
from nmar.models.settings.constant import Constant
from nmar.models.settings.effects import Effects
from nmar.models.settings.factorization import Factorization
from nmar.models.settings.mixture import Mixture
from nmar.models.settings.pattern_only import PatternOnly
from nmar.models.settings.regression import Regression
from nmar.models.settings.regressor import Regressor

__all__ = ["Constant", "Effects", "Factorization", "Mixture", "PatternOnly", "Regression", "Regressor", "Settings"]
