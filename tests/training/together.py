"""What each of several processes does in test_names_shared.py; the first writes what it saw to the file it is given."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from training.data import BUILT_IN, load_names
from training.group import Group, joined
from training.names.examples import Examples, split_examples
from training.names.loop import GENERATED, Method, Recipe, batches, descend
from training.names.module import NamesModule
from training.names.network import Network, initialise
from training.names.shared import shared_method


def start() -> tuple[Network, torch.Generator]:
    generator = torch.Generator().manual_seed(2147483647)
    return initialise(3, 10, 64, generator, torch.float32), generator


def trained(train: Examples, recipe: Recipe, method: Method) -> tuple[list[float], Network]:
    network, generator = start()
    blocks = descend(network, train, recipe, method, generator)
    return [loss for losses in blocks for loss in losses], network


def apart(ours: tuple[list[float], Network], one: tuple[list[float], Network]) -> dict[str, float]:
    losses = max(abs(a - b) for a, b in zip(ours[0], one[0], strict=True))
    parameters = max(float((a - b).abs().max()) for a, b in zip(ours[1], one[1], strict=True))
    return {"losses": losses, "parameters": parameters, "steps": len(one[0])}


def drop_in(train: Examples, group: Group | None) -> list[float]:
    """Losses of the module under DistributedDataParallel, each process with its half; or of the whole, alone."""
    network, generator = start()
    module = NamesModule(network, group=dist.group.WORLD if group else None)
    wrapped = DistributedDataParallel(module) if group else module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for ix, y in batches(train, 32, 50, generator):
        mine: tuple[Tensor, Tensor] = (group.shard(ix), group.shard(y)) if group else (ix, y)
        optimizer.zero_grad()
        loss = wrapped(*mine)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        losses.append(float(group.sum(total) / group.world if group else total))
    return losses


def main(file: Path) -> None:
    torch.set_num_threads(1)
    train = split_examples(load_names(BUILT_IN).words).train
    with joined() as group:
        seen = {}
        for name, recipe in (("even", Recipe(500, batch=32)), ("uneven", Recipe(50, batch=33))):
            shared = trained(train, recipe, shared_method(group))
            # Both processes hold the same bits, or they would drift apart.
            others = [torch.empty_like(shared[1].W1) for _ in range(group.world)]
            dist.all_gather(others, shared[1].W1)
            assert all(torch.equal(other, shared[1].W1) for other in others)
            seen[name] = apart(shared, trained(train, recipe, GENERATED))
        ours, alone = drop_in(train, group), drop_in(train, None)
        seen["drop-in"] = {"losses": max(abs(a - b) for a, b in zip(ours, alone, strict=True))}
        if group.rank == 0:
            file.write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
