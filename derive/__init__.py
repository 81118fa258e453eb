"""Handgrad: the backward pass you would have derived by hand, derived by machine."""

from derive.live import build as build
from derive.notation import *  # noqa: F403
from derive.notation import __all__ as __all__
