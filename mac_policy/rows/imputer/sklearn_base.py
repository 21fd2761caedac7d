"""What an estimator has from scikit-learn: its classes where it is installed, the little that is needed otherwise."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class NotFittedError(ValueError, AttributeError):
        """Raised where something is asked of an estimator before `fit`."""

    class TransformerMixin:
        def fit_transform(self, X: Any, y: Any = None) -> Any: ...

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...

else:
    try:
        from sklearn.base import BaseEstimator, TransformerMixin
        from sklearn.exceptions import NotFittedError
    except ModuleNotFoundError:

        class NotFittedError(ValueError, AttributeError):
            """Raised where something is asked of an estimator before `fit`."""

        class TransformerMixin:
            """fit_transform, for where scikit-learn is not installed."""

            def fit_transform(self, X, y=None):
                return self.fit(X, y).transform(X)

        class BaseEstimator:
            """Parameters by name, for where scikit-learn is not installed."""

            def get_params(self, deep=True):
                return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

            def set_params(self, **params):
                known = self.get_params()
                for name, value in params.items():
                    if name not in known:
                        raise ValueError(f"unknown parameter {name!r}; allowed are {', '.join(map(repr, known))}")
                    setattr(self, name, value)
                return self

            def __repr__(self):
                settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
                return f"{type(self).__name__}({settings})"


__all__ = ["BaseEstimator", "NotFittedError", "TransformerMixin"]
