"""The atoms of every expression: axes, tensor elements, sums over an axis, deltas, choices.

All of them are SymPy expressions, so scalar calculus, printing and ordering are SymPy's. The rules about
*indices* are ours and live in `algebra.py`. Bound axes are numbered copies (`d'`, `d''`) of the axis they
run over; free axes are copy 0; so substituting a free axis can never capture a bound one.
"""
