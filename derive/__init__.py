"""Handgrad: the backward pass you would have derived by hand, derived by machine."""

from derive.notation import *  # noqa: F403
from derive.notation import __all__ as __all__
from derive.output.live import build as build
