"""The base classes of the Imputer: those of scikit-learn if it is installed, otherwise minimal replacements."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mac_policy.common.checks import check_choice


class NotFittedError(ValueError, AttributeError):
    """Raised when an estimator is used before `fit`."""


class TransformerMixin:
    """fit_transform."""

    def fit_transform(self: Any, X: Any, y: Any = None) -> Any:
        return self.fit(X, y).transform(X)


class BaseEstimator:
    """Parameters by name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Any:
        known = self.get_params()
        for name, value in params.items():
            setattr(self, check_choice("parameter", name, known), value)
        return self

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({settings})"

    def __sklearn_tags__(self) -> Any:
        """The tags that scikit-learn's own class has."""


if not TYPE_CHECKING:
    with suppress(ModuleNotFoundError):
        from sklearn.base import BaseEstimator, TransformerMixin
        from sklearn.exceptions import NotFittedError

__all__ = ["BaseEstimator", "NotFittedError", "TransformerMixin"]
