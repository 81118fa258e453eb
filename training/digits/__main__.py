"""`python -m training.digits`: train a four-layer perceptron on handwritten digits by hand."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import torch
import typer
from torch import Tensor
from typer import Option

from training.digits.data import CLASSES, Split, bundled, mnist
from training.digits.layers import Chain, names_of, perceptron
from training.digits.loop import ByHand, Descent, Recipe, accuracy, descend
from training.errors import reported
from training.keeping import METRICS, Keep, Keeper
from training.metrics import Metrics
from training.monitor import GRADIENTS, UPDATES, Moments, Monitor, Scale, beside_spread
from training.names.settings import within
from training.options import Every, Figures, Out, Resume, Tensorboard, Threads
from training.plots import save_figures
from training.session import COLUMNS, Step, drive
from training.tape.perceptron import ByTape


class Gradients(StrEnum):
    """Who calls the derived backwards: layers that spell out their backward, or the tape."""

    layers = "layers"
    tape = "tape"


LEARNERS: dict[Gradients, type[ByHand] | type[ByTape]] = {Gradients.layers: ByHand, Gradients.tape: ByTape}
GRADIENT_ROWS = "gradients.csv"
LOOKS = 60  # over a run
SCALES = {"activations": Scale(0.0, 8.0), "gradients": GRADIENTS, "updates": UPDATES}


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on. Raises `InputError` for a number outside its range."""

    recipe: Recipe = field(default_factory=Recipe)
    keep: Keep = field(default_factory=lambda: Keep(every=500))
    mnist: Path | None = None
    hidden: int = 128
    gradients: Gradients = Gradients.layers
    seed: int = 0
    threads: int = 1
    quiet: bool = False

    def __post_init__(self) -> None:
        recipe = self.recipe
        within("--steps", recipe.steps, 0)
        within("--batch", recipe.batch, 1)
        within("--lr", recipe.rate(0), 0.0)
        within("--clip", recipe.clip, 1e-12)
        within("--every", self.keep.every, 1)
        within("--hidden", self.hidden, 1)
        within("--seed", self.seed, 0, 2**62)
        within("--threads", self.threads, 1)

    def identity(self, split: Split) -> dict[str, Any]:
        """What decides every step: a checkpoint is only good for the same."""
        recipe = {f"--{name}": str(value) for name, value in vars(self.recipe).items()}
        data = f"{split.source}, {len(split.train)} to learn from"
        return {
            **recipe,
            "--hidden": self.hidden,
            "--gradients": str(self.gradients),
            "--seed": self.seed,
            "the pictures": data,
        }


@dataclass
class State:
    """What changes from step to step, and what was seen of it."""

    learner: ByHand | ByTape
    monitor: Monitor = field(default_factory=lambda: Monitor(SCALES))
    accuracies: list[tuple[int, float, float]] = field(default_factory=list)  # step, learning, validation

    @property
    def network(self) -> Chain:
        """The network that is trained."""
        return self.learner.network

    def dump(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "parameters": dict(zip(names_of(self.network), self.network.parameters, strict=True)),
            "optimizer": self.learner.optimizer.state(),
            "monitor": self.monitor.dump(),
            "accuracies": self.accuracies,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `dump` gave."""
        for name, parameter in zip(names_of(self.network), self.network.parameters, strict=True):
            parameter.copy_(state["parameters"][name])
        self.learner.optimizer.restore(state["optimizer"])
        self.monitor.load(state["monitor"])
        self.accuracies = [tuple(row) for row in state["accuracies"]]


def look(state: State, split: Split, taken: Step, step: int, before: list[Tensor], rows: Metrics | None) -> None:
    """Count values, write moments, measure accuracy, after `step` steps; `before` are the parameters one step ago."""
    names = names_of(state.network)
    parameters = dict(zip(names, state.network.parameters, strict=True))
    gradients = {f"d{name}": gradient for name, gradient in zip(names, taken.gradients, strict=True)}
    x, activations = split.validation.x, {}
    for number, layer in enumerate(state.network.layers[:-1], start=1):
        x, _ = layer.forward(x)
        if number % 2 == 0:
            activations[f"ReLU {number // 2}"] = x
    changes = [new - old for new, old in zip(state.network.parameters, before, strict=True)]
    shown = beside_spread(parameters, changes)
    state.monitor.look(step, {"activations": activations, "gradients": gradients, "updates": shown})
    state.accuracies.append((step, accuracy(state.network, split.train), accuracy(state.network, split.validation)))
    if rows is not None:
        moments = [Moments.of(gradient) for gradient in taken.gradients]
        rows.write([(step, *(value for m in moments for value in (m.mean, m.std, m.norm)))])


def train(state: State, split: Split, settings: Settings, keeper: Keeper) -> None:
    """Descend under a progress bar, with checkpoints, metrics and looks at the gradients."""
    recipe, out = settings.recipe, settings.keep.out
    names = names_of(state.network)
    apart = max(1, recipe.steps // LOOKS)
    columns = ["step", *(f"d{name} {what}" for name in names for what in ("mean", "std", "norm"))]
    # A step that is looked at is taken before its row is written, hence the 1.
    rows = Metrics(out / GRADIENT_ROWS, columns, keeper.start + 1 if keeper.start else 0) if out else None

    before = [parameter.clone() for parameter in state.network.parameters]

    def due(step: int) -> bool:
        return step % apart == 0 or step == recipe.steps

    def watch(step: int, taken: Step) -> None:
        if due(step):
            look(state, split, taken, step, before, rows)
        if due(step + 1):
            before[:] = [parameter.clone() for parameter in state.network.parameters]

    try:
        taken = descend(state.learner, split.train, recipe, settings.seed, keeper.start)
        drive(taken, recipe, names, keeper, state.dump, watch, settings.quiet)
    finally:
        if rows is not None:
            rows.close()


def draw(state: State, test: float, out: Path, figures: ModuleType) -> None:
    """The figures of a run."""
    figures.loss_curve(out / METRICS, out / "loss.png")
    figures.accuracy_curve(state.accuracies, test, out / "accuracy.png")
    figures.norms(out / METRICS, out / "norms.png")
    figures.moments(out / GRADIENT_ROWS, out / "moments.png")
    for group, title, axis, marks in (
        ("activations", "Activations of the validation pictures", "value", ()),
        ("gradients", "Gradients, after clipping", "log10 |gradient|", ()),
        ("updates", "Update-to-data ratios", "log10 (|update| / std of the parameter)", (-3.0,)),
    ):
        figures.distributions(state.monitor, group, out / f"{group}.png", title, axis, marks)


def run(settings: Settings) -> None:
    """Read, split, train, report."""
    torch.set_num_threads(settings.threads)
    split = mnist(settings.mnist, settings.seed) if settings.mnist else bundled(settings.seed)
    sizes = (split.train.x.shape[1], *[settings.hidden] * 3, CLASSES)
    network = perceptron(sizes, torch.Generator().manual_seed(settings.seed))
    state = State(LEARNERS[settings.gradients](network, settings.recipe))
    if not settings.quiet:
        counts = f"{len(split.train):,} / {len(split.validation):,} / {len(split.test):,}"
        typer.echo(f"digits: {split.source}; {counts} pictures")
        count = sum(p.numel() for p in network.parameters)
        shown = " -> ".join(map(str, sizes))
        typer.echo(f"perceptron: {shown}, {count:,} parameters, gradients: generated, by {settings.gradients}")
    with Keeper(settings.keep, settings.identity(split), COLUMNS, settings.recipe.steps) as keeper:
        if keeper.state is not None:
            state.load(keeper.state)
        train(state, split, settings, keeper)
    parts = (("train", split.train), ("validation", split.validation), ("test", split.test))
    shares = {name: accuracy(network, part) for name, part in parts}
    for name, share in shares.items():
        typer.echo(f"{name + ' accuracy':<20} {100 * share:.2f}%")
    out = settings.keep.out
    if out is not None and settings.keep.figures:
        save_figures(lambda figures: draw(state, shares["test"], out, figures), settings.quiet)


def main(
    mnist: Annotated[
        Path | None,
        Option(help="Folder of MNIST's four IDX files, plain or .gz.", show_default="scikit-learn's digits"),
    ] = None,
    hidden: Annotated[int, Option(help="Units of each of the three hidden layers.")] = Settings.hidden,
    optimizer: Annotated[Descent, Option(help="How a gradient becomes a step.")] = Recipe.optimizer,
    batch: Annotated[int, Option(help="Pictures a step.")] = Recipe.batch,
    steps: Annotated[int, Option(help="Steps of descent.")] = Recipe.steps,
    lr: Annotated[float | None, Option(help="Learning rate.", show_default="what suits the optimizer")] = None,
    clip: Annotated[float, Option(help="Largest global norm of the gradients.")] = Recipe.clip,
    gradients: Annotated[Gradients, Option(help="Backwards by hand, or found by the tape.")] = Settings.gradients,
    seed: Annotated[int, Option(help="Of the split, the parameters and the order.")] = Settings.seed,
    out: Out = Path("runs/digits"),
    every: Every = 500,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    figures: Figures = True,
    threads: Threads = Settings.threads,
    quiet: Annotated[bool, Option("--quiet", help="Only the accuracies.")] = False,
) -> None:
    """Train a four-layer perceptron on handwritten digits without loss.backward()."""
    with reported():
        recipe = Recipe(steps, batch, optimizer, lr, clip)
        keep = Keep(out, every, resume, tensorboard, figures)
        run(Settings(recipe, keep, mnist, hidden, gradients, seed, threads, quiet))


if __name__ == "__main__":
    typer.run(main)
