"""`python -m training.pinn`: solve Burgers' equation by a perceptron whose residual's gradient is derived."""

from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import torch
import typer
from typer import Option

from training.errors import reported
from training.keeping import METRICS, Keep, Keeper
from training.names.settings import Dtype, within
from training.options import Every, Figures, Out, Resume, Tensorboard, Threads
from training.pinn.loop import TIMES, ByHand, Recipe, compared, descend, error
from training.pinn.network import Network, initialise
from training.plots import save_figures
from training.session import COLUMNS, Step, drive

LOOKS = 40  # over a run


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on. Raises `InputError` for a number outside its range."""

    recipe: Recipe = field(default_factory=Recipe)
    keep: Keep = field(default_factory=lambda: Keep(every=2000))
    hidden: int = 32
    dtype: Dtype = Dtype.float32
    seed: int = 0
    threads: int = 1
    quiet: bool = False

    def __post_init__(self) -> None:
        recipe = self.recipe
        within("--steps", recipe.steps, 0)
        within("--batch", recipe.batch, 1)
        within("--known", recipe.known, 2)
        within("--lr", recipe.lr, 0.0)
        within("--clip", recipe.clip, 1e-12)
        within("--viscosity", recipe.viscosity, 1e-3)
        within("--every", self.keep.every, 1)
        within("--hidden", self.hidden, 1)
        within("--seed", self.seed, 0, 2**62)
        within("--threads", self.threads, 1)

    def identity(self) -> dict[str, Any]:
        """What decides every step: a checkpoint is only good for the same."""
        recipe = {f"--{name}": value for name, value in vars(self.recipe).items()}
        return {**recipe, "--hidden": self.hidden, "--dtype": str(self.dtype), "--seed": self.seed}


@dataclass
class State:
    """What changes from step to step, and what was seen of it."""

    learner: ByHand
    errors: list[tuple[int, float]] = field(default_factory=list)  # step, beside the solution's norm

    def dump(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "parameters": self.learner.network._asdict(),
            "optimizer": self.learner.optimizer.state(),
            "errors": self.errors,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `dump` gave."""
        for name, parameter in self.learner.network._asdict().items():
            parameter.copy_(state["parameters"][name])
        self.learner.optimizer.restore(state["optimizer"])
        self.errors = [(int(step), float(off)) for step, off in state["errors"]]


def train(state: State, settings: Settings, keeper: Keeper) -> None:
    """Descend under a progress bar, with checkpoints, metrics and the distance from the solution."""
    recipe = settings.recipe
    apart = max(1, recipe.steps // LOOKS)

    def look(step: int, taken: Step) -> None:
        if step % apart == 0 or step == recipe.steps:
            state.errors.append((step, error(state.learner.network, recipe.viscosity)))

    taken = descend(state.learner, recipe, settings.seed, settings.dtype.torch, keeper.start)
    drive(taken, recipe, Network._fields, keeper, state.dump, look, settings.quiet)


def draw(state: State, settings: Settings, out: Path, figures: ModuleType) -> None:
    """The figures of a run."""
    figures.loss_curve(out / METRICS, out / "loss.png")
    figures.beside_solution(TIMES, *compared(state.learner.network, settings.recipe.viscosity), out / "solution.png")


def run(settings: Settings) -> None:
    """Derive, train, report."""
    torch.set_num_threads(settings.threads)
    network = initialise(settings.hidden, torch.Generator().manual_seed(settings.seed), settings.dtype.torch)
    state = State(ByHand(network, settings.recipe))
    if not settings.quiet:
        sizes = f"2 -> {settings.hidden} -> {settings.hidden} -> {settings.hidden} -> 1"
        count = sum(p.numel() for p in network)
        typer.echo(f"Burgers' equation: u_t + u*u_x = {settings.recipe.viscosity:.5g} * u_xx")
        typer.echo(f"perceptron: {sizes}, {count:,} parameters, gradients: derived")
    with Keeper(settings.keep, settings.identity(), COLUMNS, settings.recipe.steps) as keeper:
        if keeper.state is not None:
            state.load(keeper.state)
        train(state, settings, keeper)
    off = error(state.learner.network, settings.recipe.viscosity)
    typer.echo(f"off the solution, beside its norm: {100 * off:.2f}%")
    out = settings.keep.out
    if out is not None and settings.keep.figures:
        save_figures(lambda figures: draw(state, settings, out, figures), settings.quiet)


def main(
    hidden: Annotated[int, Option(help="Units of each of the three hidden layers.")] = Settings.hidden,
    batch: Annotated[int, Option(help="Collocation points a step.")] = Recipe.batch,
    known: Annotated[int, Option(help="Points of the start and of the walls a step.")] = Recipe.known,
    viscosity: Annotated[
        float, Option(help="The smaller, the steeper the shock.", show_default="0.01 / pi")
    ] = Recipe.viscosity,
    steps: Annotated[int, Option(help="Steps of descent; 2000 for a quick try.")] = Recipe.steps,
    lr: Annotated[float, Option(help="Learning rate at the start.")] = Recipe.lr,
    clip: Annotated[float, Option(help="Largest global norm of the gradients.")] = Recipe.clip,
    dtype: Annotated[Dtype, Option(help="Precision.")] = Settings.dtype,
    seed: Annotated[int, Option(help="Of the parameters and the points.")] = Settings.seed,
    out: Out = Path("runs/pinn"),
    every: Every = 2000,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    figures: Figures = True,
    threads: Threads = Settings.threads,
    quiet: Annotated[bool, Option("--quiet", help="Only how far it is off.")] = False,
) -> None:
    """Solve Burgers' equation by a perceptron, without loss.backward() or torch.autograd.grad().

    A quick try: python -m training.pinn --steps 2000
    """
    with reported():
        recipe = Recipe(steps, batch, known, lr, clip, viscosity)
        run(Settings(recipe, Keep(out, every, resume, tensorboard, figures), hidden, dtype, seed, threads, quiet))


if __name__ == "__main__":
    typer.run(main)
