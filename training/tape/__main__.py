"""`python -m training.tape`: one neuron with its data and gradients, as a picture."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from training.plots import drawable
from training.tape.tensor import Tensor


def neuron() -> Tensor:
    """tanh(x1*w1 + x2*w2 + b), the example of Karpathy's lecture on micrograd (2022)."""
    x1, x2 = Tensor(2.0, True, "x1"), Tensor(0.0, True, "x2")
    w1, w2 = Tensor(-3.0, True, "w1"), Tensor(1.0, True, "w2")
    b = Tensor(6.8813735870195432, True, "b")
    products = x1 * w1, x2 * w2
    products[0].label, products[1].label = "x1*w1", "x2*w2"
    n = products[0] + products[1] + b
    n.label = "n"
    o = n.tanh()
    o.label = "o"
    return o


def main(out: Annotated[Path, Option(help="The picture: .svg, .png or .pdf.")] = Path("runs/neuron.svg")) -> None:
    """Draw the graph of one neuron, with the data and the gradient of every tensor in it.

    The perceptron on the tape: python -m training.digits --gradients tape
    """
    if not drawable():
        raise typer.Exit(2)
    # Imported here: it needs matplotlib.
    from training.tape.drawing import draw

    o = neuron()
    o.backward()
    out.parent.mkdir(parents=True, exist_ok=True)
    draw(o, out)
    typer.echo(f"written: {out}")


if __name__ == "__main__":
    typer.run(main)
