"""`python -m tests.opinfo.report`: how many of PyTorch's samples each op takes, and why it does not take the others."""

from __future__ import annotations

from collections import Counter

from tests.opinfo.samples import samples
from tests.opinfo.table import TABLE, WITHOUT


def lines() -> list[str]:
    """A table in Markdown, an op a row."""
    out = ["| op | OpInfo | inside | outside, and why |", "|---|---|---|---|"]
    for name, row in TABLE.items():
        tried = samples(name)
        reasons = Counter(t.reason for t in tried if t.call is None)
        why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        info = row.info + (f" ({row.variant})" if row.variant else "")
        out.append(f"| {name} | {info} | {sum(t.call is not None for t in tried)} of {len(tried)} | {why} |")
    return out + [f"| {name} | none: {why} | | |" for name, why in WITHOUT.items()]


HEAD = """# PyTorch's own samples

`python -m tests.opinfo.report > docs/opinfo.md` runs through the `OpInfo` suite of
`torch.testing._internal.common_methods_invocations`, which nobody here wrote. A sample is inside where its tensors, or
views of them, are arguments of our function: an axis brought to the end, leading axes flattened, shapes broadcast, a
missing bias as zeros, a padded image. Inside samples agree with PyTorch's values and autograd in float64, and pass
`gradcheck` (tests/opinfo).
"""


if __name__ == "__main__":
    print("\n".join([HEAD, *lines()]))
