"""Which experts each row of a pass is routed to, read where the experts themselves get it.

Since version 5 transformers hands the chosen ids to one module a layer that holds all routed experts, whatever the
router did before (softmax or sigmoid, groups, correction bias). A hook there sees the ids that are used; shared experts
do not pass through it, and dense layers have no such module.
"""

import inspect
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from oracle.errors import InputError

_IDS = ("top_k_index", "router_indices", "topk_indices", "selected_experts")
_LARGEST_BYTE = 256
Ids = NDArray[Any]  # uint8 or uint16
_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")


class Routing:
    """Watches the routed experts of a model while the context is entered.

    Attributes
    ----------
    layers, top_k, num_experts
        MoE layers, experts a token, experts a layer; all 0 for a dense model.

    Raises
    ------
    InputError
        A model that is a mixture of experts but does not show its routing, or whose layers differ.
    """

    def __init__(self, model: Any, name: str) -> None:
        self._modules = [(module, parameter) for module in model.modules() if (parameter := _parameter(module))]
        config = model.config.get_text_config()
        if not self._modules and any((getattr(config, count, None) or 0) > 1 for count in _COUNTS):
            raise InputError(
                f"{name}: is a mixture of experts ({config.model_type}), but none of its modules takes the ids of the "
                "experts, so routing cannot be recorded; load it unquantised, or use an architecture whose experts "
                "are one module a layer in transformers 5"
            )
        self._name = name
        self._seen: list[torch.Tensor] = []
        self._handles: list[Any] = []
        self.layers = len(self._modules)
        self.num_experts = self._same("num_experts", {int(module.num_experts) for module, _ in self._modules})
        self.top_k = int(getattr(config, "num_experts_per_tok", 0) or 0) if self._modules else 0

    def __enter__(self) -> Self:
        for module, parameter in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._hook(parameter), with_kwargs=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._seen.clear()

    def take(self) -> Ids:
        """Give the ids of the one pass since the last call: (rows, layers, top_k), without layers for a dense model."""
        seen, self._seen = self._seen, []
        if not self.layers:
            return np.zeros((0, 0, 0), np.uint8)
        if len(seen) != self.layers:
            raise RuntimeError(f"{len(seen)} layers were routed in one pass of {self.layers} MoE layers")
        self.top_k = self._same("experts a token", {ids.shape[-1] for ids in seen})
        together = torch.stack([ids.reshape(-1, self.top_k) for ids in seen], dim=1)
        found = together.cpu().numpy()
        if found.size and not 0 <= found.min() <= found.max() < self.num_experts:
            raise InputError(
                f"{self._name}: routes to expert {found.max()} of {self.num_experts}, as models split over devices "
                "do; load it whole"
            )
        return np.asarray(found, np.uint8 if self.num_experts <= _LARGEST_BYTE else np.uint16)

    def _hook(self, parameter: str) -> Any:
        def note(_module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            self._seen.append((named[parameter] if parameter in named else arguments[1]).detach())

        return note

    def _same(self, what: str, values: set[int]) -> int:
        if len(values) > 1:
            listed = ", ".join(map(str, sorted(values)))
            raise InputError(f"{self._name}: its layers differ in {what} ({listed}); a trace holds one number for all")
        return values.pop() if values else 0


def _parameter(module: Any) -> str | None:
    """Name the parameter that takes the expert ids; None for a module that does not hold all routed experts."""
    if not hasattr(module, "num_experts"):
        return None
    names = list(inspect.signature(module.forward).parameters)
    return names[1] if len(names) > 1 and names[1] in _IDS else None
