"""Products are rounded before they are subtracted where the sign of the difference is asked: compilers fuse both."""

from __future__ import annotations

from dataclasses import replace

from derive.backends.cpu.statements.monomials import values_of
from derive.backends.cpu.statements.normal import Normal
from derive.nodes.ties import told_by_sign
from derive.program import Call, Node, Read


def with_rounded_products(form: Normal) -> None:
    """Write the differences of products on whose sign something depends as `difference`, which is 0 at a tie."""
    told = told_by_sign((s.name, s.value) for s in form.loops)
    known = values_of(form)

    def is_product(node: Node) -> bool:
        if isinstance(node, Read):
            return node in known and is_product(known[node])
        return isinstance(node, Call) and (
            node.fn in ("mul", "pow") or (node.fn == "neg" and is_product(node.args[0]))
        )

    def changed(node: Node) -> Node:
        if not isinstance(node, Call):
            return node
        args = tuple(map(changed, node.args))
        if node not in told or not any(map(is_product, node.args)):
            return replace(node, args=args)
        left, right = args
        return Call("difference", (left, right if node.fn == "sub" else Call("neg", (right,))))

    for k, loop in enumerate(form.loops):
        form.loops[k] = replace(loop, value=changed(loop.value))
