"""Layers of Keras that are not to be trained: TensorFlow's own flag still calls their variables trainable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradcheck.autodiff.interception import patched
from gradcheck.autodiff.sources import variable_of


class CalledLayers:
    """The layers of Keras that ran."""

    def __init__(self) -> None:
        self._layers: dict[int, Any] = {}

    @contextmanager
    def noted(self) -> Iterator[CalledLayers]:
        """Note those that run inside the block."""
        homes = [sys.modules[name].layers for name in ("keras", "tf_keras") if name in sys.modules]
        with patched(*((home.Layer, "__call__", self._call) for home in homes)):
            yield self

    def _call(self, original: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        self._layers[id(layer)] = layer
        return original(layer, *args, **kwargs)

    def frozen(self) -> set[int]:
        """The identities of the variables that a layer has and does not train."""
        found = set()
        for layer in self._layers.values():
            trained = {id(variable_of(variable)) for variable in layer.trainable_variables}
            found |= {id(variable_of(variable)) for variable in layer.variables} - trained
        return found
