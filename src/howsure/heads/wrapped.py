"""An external network, split into a backbone and a head that give exactly its output."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.errors import InputError
from howsure.heads.base import Head
from howsure.heads.free_point import FreePointHead
from howsure.heads.point import PointHead

PICTURES = 4  # of noise, to find the layer whose output is that of the network


class FeaturesBefore(nn.Module):
    """The inputs of a network's layer of that name, (N, M)."""

    def __init__(self, network: nn.Module, layer: str):
        super().__init__()
        self.network, self.layer = network, layer

    def forward(self, pixels: Tensor) -> Tensor:
        return _inputs_and_outputs(self.network, self.layer, pixels)[0]


def wrapped(module: nn.Module, shape: tuple[int, int, int], last_layer: str | None) -> tuple[nn.Module, Head]:
    """Backbone and head of a network for pictures of `shape`, with copies of its weights.

    The head is linear where the network ends in the linear layer `last_layer`, by default its last one, or in that at
    length 1; else it is the identity, on top of all of the network.
    """
    network = copy.deepcopy(module).eval()
    linear = {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.Linear) and name}
    if last_layer is not None and last_layer not in linear:
        expected = f"a linear layer of the network: {', '.join(linear) or 'it has none'}"
        raise InputError("last_layer", expected=expected, got=repr(last_layer))
    noise = torch.rand(PICTURES, *shape, generator=torch.Generator().manual_seed(0))
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            out = network(noise.to(device))
    except RuntimeError as error:
        size = " x ".join(map(str, shape))
        got = str(error).splitlines()[0]
        raise InputError("module", expected=f"a network that takes pictures of {size}", got=got) from error
    if not isinstance(out, Tensor) or out.ndim != 2 or not out.shape[1]:
        got = str(tuple(out.shape)) if isinstance(out, Tensor) else type(out).__name__
        raise InputError("output of the module", expected="(N, D)", got=got, fix="end it with nn.Flatten()")
    names = [last_layer] if last_layer is not None else list(linear)[-1:]
    for name in names:
        with torch.no_grad():
            features, z = _inputs_and_outputs(network, name, noise.to(device))
        if features.ndim == 2 and z.shape == out.shape:
            if torch.equal(z, out):
                return FeaturesBefore(network, name), _head_from(FreePointHead, linear[name])
            if torch.allclose(F.normalize(z, dim=1), out, rtol=1e-4, atol=1e-6):
                return FeaturesBefore(network, name), _head_from(PointHead, linear[name])
        if last_layer is not None:
            raise InputError("last_layer", expected="the layer that the network ends in", got=repr(last_layer))
    identity = nn.Linear(out.shape[1], out.shape[1])
    nn.init.eye_(identity.weight)
    nn.init.zeros_(identity.bias)
    return network, _head_from(FreePointHead, identity.to(device))


def _inputs_and_outputs(network: nn.Module, layer: str, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Of one layer."""
    calls: list[tuple[Tensor, Tensor]] = []
    with network.get_submodule(layer).register_forward_hook(lambda _, inputs, out: calls.append((inputs[0], out))):
        network(pixels)
    if len(calls) != 1:
        raise InputError("last_layer", expected="a layer that is used once", got=f"{layer!r}, used {len(calls)} times")
    return calls[0]


def _head_from(kind: type[FreePointHead] | type[PointHead], layer: nn.Linear) -> Head:
    head = kind(layer.in_features, layer.out_features).to(layer.weight.device)
    with torch.no_grad():
        head.location.weight.copy_(layer.weight)
        head.location.bias.copy_(torch.zeros_like(head.location.bias) if layer.bias is None else layer.bias)
    return head.eval()
