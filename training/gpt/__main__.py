"""`python -m training.gpt`: train a small decoder on names by hand, then let it invent names."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from typer import Option

from training.data import Names, load_names
from training.errors import InputError, reported
from training.gpt.examples import Sequences, build_sequences
from training.gpt.loop import ByHand, Recipe, descend, mean_loss, sample
from training.gpt.network import initialise
from training.keeping import METRICS, Keep, Keeper
from training.names.examples import ALPHABET, split_words
from training.names.settings import within
from training.options import Every, Figures, NamesFile, Out, Resume, Tensorboard, Threads
from training.plots import save_figures
from training.session import COLUMNS, Step, drive


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on. Raises `InputError` for a number outside its range."""

    recipe: Recipe = field(default_factory=Recipe)
    keep: Keep = field(default_factory=lambda: Keep(every=500))
    names: Path | None = None
    width: int = 64
    heads: int = 4
    blocks: int = 3
    tied: bool = False
    seed: int = 2147483647
    samples: int = 20
    evaluate: int = 1000
    threads: int = 1
    quiet: bool = False

    def __post_init__(self) -> None:
        recipe = self.recipe
        within("--steps", recipe.steps, 0)
        within("--batch", recipe.batch, 1)
        within("--lr", recipe.lr, 0.0)
        within("--warmup", recipe.warmup, 0)
        within("--clip", recipe.clip, 1e-12)
        within("--decay", recipe.decay, 0.0)
        within("--every", self.keep.every, 1)
        within("--heads", self.heads, 1)
        within("--width", self.width, 1)
        if self.width % self.heads:
            cause = f"--width is {self.width}, which {self.heads} heads do not divide"
            raise InputError("reading options", cause, "change --width or --heads")
        within("--blocks", self.blocks, 1)
        within("--seed", self.seed, 0, 2**62)
        within("--samples", self.samples, 0)
        within("--evaluate", self.evaluate, 1)
        within("--threads", self.threads, 1)

    def identity(self, names: Names) -> dict[str, Any]:
        """What decides every step: a checkpoint is only good for the same."""
        recipe = {f"--{name}": value for name, value in vars(self.recipe).items()}
        own = {f"--{name}": getattr(self, name) for name in ("width", "heads", "blocks", "tied", "seed", "threads")}
        digest = hashlib.sha256("\n".join(names.words).encode()).hexdigest()
        return {**recipe, **own, "the list of names": digest[:12]}


@dataclass
class State:
    """What changes from step to step."""

    learner: ByHand
    generator: torch.Generator
    validation: list[tuple[int, float]] = field(default_factory=list)

    def dump(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "parameters": dict(self.learner.gpt.named()),
            "optimizer": self.learner.optimizer.state(),
            "generator": self.generator.get_state(),
            "validation": self.validation,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `dump` gave."""
        for name, parameter in self.learner.gpt.named():
            parameter.copy_(state["parameters"][name])
        self.learner.optimizer.restore(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.validation = [(int(step), float(loss)) for step, loss in state["validation"]]


def train(state: State, train: Sequences, validation: Sequences, settings: Settings, keeper: Keeper) -> None:
    """Descend under a progress bar, with checkpoints, metrics and the validation loss."""
    recipe, gpt = settings.recipe, state.learner.gpt

    def look(step: int, taken: Step) -> None:
        if step % settings.evaluate == 0 or step == recipe.steps:
            state.validation.append((step, mean_loss(gpt, validation)))

    taken = descend(state.learner, train, recipe, state.generator, keeper.start)
    drive(taken, recipe, [name for name, _ in gpt.named()], keeper, state.dump, look, settings.quiet)


def run(settings: Settings) -> None:
    """Read, split, train, report."""
    torch.set_num_threads(settings.threads)
    names = load_names(settings.names)
    if names.note:
        typer.echo(names.note, err=True)
    longest = max(map(len, names.words)) + 1
    parts = [build_sequences(words, longest, torch.float32) for words in split_words(names.words)]
    generator = torch.Generator().manual_seed(settings.seed)
    sizes = (len(ALPHABET), longest, settings.width, settings.heads, settings.blocks, settings.tied)
    gpt = initialise(*sizes, generator)
    state = State(ByHand(gpt, settings.recipe), generator)
    if not settings.quiet:
        typer.echo(f"names: {len(names.words):,} from {names.source}")
        typer.echo(f"decoder: {sum(p.numel() for p in gpt.parameters):,} parameters, gradients: generated")
    identity = settings.identity(names)
    with Keeper(settings.keep, identity, COLUMNS, settings.recipe.steps) as keeper:
        if keeper.state is not None:
            state.load(keeper.state)
        train(state, parts[0], parts[1], settings, keeper)
    for name, part in zip(("train", "validation", "test"), parts, strict=True):
        label = "" if settings.quiet else f"{name} loss"
        typer.echo(f"{name + ' loss':<15} {mean_loss(gpt, part, label):.4f}")
    generator = torch.Generator().manual_seed(settings.seed + 10)
    for _ in range(settings.samples):
        typer.echo(sample(gpt, generator))
    if settings.keep.out is not None and settings.keep.figures:
        out = settings.keep.out
        save_figures(
            lambda figures: figures.loss_curve(out / METRICS, out / "loss.png", validation=state.validation),
            settings.quiet,
        )


def main(
    names: NamesFile = None,
    width: Annotated[int, Option(help="Features of a position.")] = Settings.width,
    heads: Annotated[int, Option(help="Heads of the attention.")] = Settings.heads,
    blocks: Annotated[int, Option(help="Blocks of attention and MLP.")] = Settings.blocks,
    tied: Annotated[bool, Option("--tied", help="The head is the table of tokens, transposed.")] = False,
    batch: Annotated[int, Option(help="Names a step.")] = Recipe.batch,
    steps: Annotated[int, Option(help="Steps of descent; 500 for a quick try.")] = Recipe.steps,
    lr: Annotated[float, Option(help="Highest learning rate.")] = Recipe.lr,
    warmup: Annotated[int, Option(help="Steps up to it.")] = Recipe.warmup,
    clip: Annotated[float, Option(help="Largest global norm of the gradients.")] = Recipe.clip,
    decay: Annotated[float, Option(help="Weight decay of the matrices.")] = Recipe.decay,
    seed: Annotated[int, Option(help="Of the parameters, the batches and the samples.")] = Settings.seed,
    samples: Annotated[int, Option(help="Names to make up at the end.")] = Settings.samples,
    evaluate: Annotated[int, Option(help="Steps between two looks at the validation loss.")] = Settings.evaluate,
    out: Out = Path("runs/gpt"),
    every: Every = 500,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    figures: Figures = True,
    threads: Threads = Settings.threads,
    quiet: Annotated[bool, Option("--quiet", help="Only the losses and the samples.")] = False,
) -> None:
    """Train a small decoder on names without loss.backward(), then let it invent names.

    A quick try: python -m training.gpt --steps 500
    """
    with reported():
        recipe = Recipe(steps, batch, lr, warmup, clip, decay)
        keep = Keep(out, every, resume, tensorboard, figures)
        model = (width, heads, blocks, tied)
        run(Settings(recipe, keep, names, *model, seed, samples, evaluate, threads, quiet))


if __name__ == "__main__":
    typer.run(main)
