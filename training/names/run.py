"""A whole run: read, split, train with checkpoints and looks, calibrate, report, draw."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import typer

from training.data import load_names
from training.errors import InputError, NotFinite
from training.group import Group, joined, launched
from training.interrupts import Stop, stop_on_signals
from training.keeping import METRICS, Keeper
from training.monitor import Monitor
from training.names import looks
from training.names.examples import ALPHABET, Examples, Split, split_examples
from training.names.loop import BLOCK, GENERATED, Method, descend
from training.names.network import Moments, Network, calibrate, initialise, mean_loss, sample
from training.names.settings import Gradients, Settings, within
from training.names.shared import shared_method
from training.names.twin import AUTOGRAD
from training.plots import save_figures
from training.progress import Bar

METHODS = {Gradients.generated: GENERATED, Gradients.autograd: AUTOGRAD}
COLUMNS = ("step", "loss", "rate")


@dataclass
class State:
    """What changes from step to step, and what was seen of it."""

    network: Network
    generator: torch.Generator
    monitor: Monitor

    def dump(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        parameters = {name: parameter.detach().cpu() for name, parameter in self.network._asdict().items()}
        return {"parameters": parameters, "generator": self.generator.get_state(), "monitor": self.monitor.dump()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `dump` gave."""
        for name, parameter in self.network._asdict().items():
            parameter.copy_(state["parameters"][name])
        self.generator.set_state(state["generator"])
        self.monitor.load(state["monitor"])


def look(state: State, train: Examples, settings: Settings, step: int) -> None:
    """Count what flows through the network after `step` steps."""
    recipe = settings.recipe
    ix, y = looks.batch_of(train, recipe, settings.seed, step)
    groups, _ = looks.flow(state.network.cpu(), ix, y, recipe.rate(min(step, recipe.steps - 1)), recipe.eps)
    state.monitor.look(step, groups)


def train(
    state: State, examples: Examples, settings: Settings, method: Method, keeper: Keeper, group: Group | None
) -> None:
    """Descend in place under a progress bar, with checkpoints and metrics; `Exit` where a signal interrupts it."""
    recipe, done = settings.recipe, keeper.start
    watched = settings.keep.out is not None and settings.keep.writes
    # Blocks end at multiples of BLOCK, and so do the looks, whether or not the run was interrupted.
    apart = max(1, recipe.steps // (BLOCK * looks.LOOKS)) * BLOCK
    bar = Bar("training", recipe.steps, done, settings.quiet)
    with stop_on_signals() as stop, bar:
        asked = partial(bool, stop) if group is None else partial(agreed, group, stop)
        if watched and done == 0:
            look(state, examples, settings, done)
        try:
            for losses in descend(state.network, examples, recipe, method, state.generator, done, asked):
                keeper.log([(done + k, loss, recipe.rate(done + k)) for k, loss in enumerate(losses)])
                done += len(losses)
                bar.advance(len(losses), sum(losses) / len(losses))
                if watched and (done % apart == 0 or done == recipe.steps):
                    look(state, examples, settings, done)
                if keeper.due(done):
                    keeper.save(done, state.dump())
        except NotFinite as error:
            keeper.log([(done + k, loss, recipe.rate(done + k)) for k, loss in enumerate(error.losses)])
            raise error.with_kept(keeper.last_good()) from None
        keeper.save(done, state.dump())
    if done < recipe.steps:
        if group is None or group.rank == 0:
            typer.echo(f"interrupted after {done:,} of {recipe.steps:,} steps; {keeper.last_good()}", err=True)
        raise typer.Exit(stop.status)
    if done > keeper.start and not settings.quiet:
        typer.echo(bar.summary())


def agreed(group: Group, stop: Stop) -> bool:
    """Whether a signal reached any process of the group."""
    return group.any(bool(stop))


def report(network: Network, moments: Moments, split: Split, settings: Settings) -> None:
    """One line a split with its loss, then the names the network makes up."""
    eps = settings.recipe.eps
    parts = (("train", split.train), ("validation", split.validation), ("test", split.test))
    for name, examples in parts:
        typer.echo(f"{name + ' loss':<15} {mean_loss(network, moments, examples, eps):.4f}")
    # The notebook's own offset: samples do not depend on how many batches were drawn.
    generator = torch.Generator().manual_seed(settings.seed + 10)
    for _ in range(settings.samples):
        typer.echo(sample(network, moments, settings.context, eps, generator))


def draw(state: State, examples: Examples, settings: Settings, out: Path, figures: ModuleType) -> None:
    """The figures of a run."""
    recipe = settings.recipe
    figures.loss_curve(out / METRICS, out / "loss.png")
    for group, title, axis, marks in (
        ("activations", "Activations", "value", ()),
        ("gradients", "Gradients", "log10 |gradient|", ()),
        ("updates", "Update-to-data ratios", "log10 (|update| / std of the parameter)", (-3.0,)),
    ):
        figures.distributions(state.monitor, group, out / f"{group}.png", title, axis, marks)
    ix, y = looks.batch_of(examples, recipe, settings.seed, recipe.steps)
    _, dlogits = looks.flow(state.network.cpu(), ix, y, recipe.lr, recipe.eps)
    figures.dlogits_picture(dlogits, y, ALPHABET, out / "dlogits.png")


def run(settings: Settings) -> None:
    """The whole run, in this process or together with those that `torchrun` started beside it."""
    torch.set_num_threads(settings.threads)
    if not launched():
        run_in(settings, METHODS[settings.gradients], None)
        return
    if settings.gradients is not Gradients.generated:
        cause = "--gradients autograd takes no part in a run of several processes"
        raise InputError("reading options", cause, "leave out --gradients, or torchrun")
    with joined() as group:
        within("--batch", settings.recipe.batch, group.world)
        if group.rank:
            # It computes what the first process does, and leaves files and terminal to it.
            settings = replace(settings, keep=replace(settings.keep, writes=False), quiet=True)
        run_in(settings, shared_method(group), group)


def run_in(settings: Settings, method: Method, group: Group | None) -> None:
    """Read, split, train; then the first process calibrates, reports and draws."""
    first = group is None or group.rank == 0
    names = load_names(settings.names)
    if names.note and first:
        typer.echo(names.note, err=True)
    split = split_examples(names.words, settings.context, settings.split_seed)
    generator = torch.Generator().manual_seed(settings.seed)
    network = initialise(settings.context, settings.embedding, settings.hidden, generator, settings.dtype.torch)
    if not settings.quiet:
        sizes = f"{len(split.train):,} / {len(split.validation):,} / {len(split.test):,}"
        typer.echo(f"names: {len(names.words):,} from {names.source}; {sizes} examples")
        shared = f", {group.world} processes on {group.device.type}" if group else ""
        typer.echo(f"network: {network.size:,} parameters, gradients: {settings.gradients}{shared}")
    if group is not None:
        network = Network(*(parameter.to(group.device) for parameter in network))
    state = State(network, generator, looks.monitor())
    identity = settings.identity(names, group.world if group else 1)
    with Keeper(settings.keep, identity, COLUMNS, settings.recipe.steps) as keeper:
        if keeper.state is not None:
            state.load(keeper.state)
        train(state, split.train, settings, method, keeper, group)
    if first:
        trained = state.network.cpu()
        report(trained, calibrate(trained, split.train), split, settings)
        if settings.keep.out is not None and settings.keep.figures:
            save_figures(partial(draw, state, split.train, settings, settings.keep.out), settings.quiet)
