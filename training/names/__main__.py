"""`python -m training.names`: train the names network by hand, then let it invent names.

`torchrun --nproc-per-node 2 -m training.names` does the same with two processes, each with half of every batch.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from training.errors import reported
from training.keeping import Keep
from training.names.loop import Recipe
from training.names.run import run
from training.names.settings import Dtype, Gradients, Settings
from training.options import Every, Figures, NamesFile, Out, Resume, Tensorboard, Threads

DEFAULTS = Settings()


def main(
    names: NamesFile = None,
    context: Annotated[int, Option(help="Letters the network sees.")] = DEFAULTS.context,
    embedding: Annotated[int, Option(help="Numbers that stand for a letter.")] = DEFAULTS.embedding,
    hidden: Annotated[int, Option(help="Hidden units.")] = DEFAULTS.hidden,
    batch: Annotated[int, Option(help="Examples a step.")] = DEFAULTS.recipe.batch,
    steps: Annotated[int, Option(help="Steps of descent; 2000 for a quick try.")] = DEFAULTS.recipe.steps,
    lr: Annotated[float, Option(help="Learning rate.")] = DEFAULTS.recipe.lr,
    lr_final: Annotated[float, Option(help="Learning rate after the drop.")] = DEFAULTS.recipe.lr_final,
    lr_drop: Annotated[float, Option(help="Fraction of the steps before the drop.")] = DEFAULTS.recipe.lr_drop,
    eps: Annotated[float, Option(help="Added to the variance in batchnorm.")] = DEFAULTS.recipe.eps,
    seed: Annotated[int, Option(help="Of the parameters, the batches and the samples.")] = DEFAULTS.seed,
    split_seed: Annotated[int, Option(help="Of the 80/10/10 split.")] = DEFAULTS.split_seed,
    samples: Annotated[int, Option(help="Names to make up at the end.")] = DEFAULTS.samples,
    dtype: Annotated[Dtype, Option(help="Precision.")] = DEFAULTS.dtype,
    threads: Threads = DEFAULTS.threads,
    gradients: Annotated[
        Gradients, Option(help="Derived by machine, or by autograd in the plain-PyTorch twin.")
    ] = DEFAULTS.gradients,
    out: Out = Path("runs/names"),
    every: Every = DEFAULTS.keep.every,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    figures: Figures = True,
    quiet: Annotated[bool, Option("--quiet", help="Only the losses and the samples.")] = False,
) -> None:
    """Train the two-layer names network without loss.backward(), then let it invent names.

    A quick try: python -m training.names --steps 2000
    """
    with reported():
        recipe = Recipe(steps, batch, lr=lr, lr_final=lr_final, lr_drop=lr_drop, eps=eps)
        settings = Settings(
            recipe,
            names,
            context=context,
            embedding=embedding,
            hidden=hidden,
            seed=seed,
            split_seed=split_seed,
            samples=samples,
            dtype=dtype,
            threads=threads,
            gradients=gradients,
            quiet=quiet,
            keep=Keep(out, every, resume, tensorboard, figures),
        )
        run(settings)


if __name__ == "__main__":
    typer.run(main)
