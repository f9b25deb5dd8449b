"""From scores to chosen rows: the target, and the draw."""

from karl_fast.sample.draw import draw, reservoir, weighted_reservoir
from karl_fast.target import Target, boltzmann

__all__ = ["Target", "boltzmann", "draw", "reservoir", "weighted_reservoir"]
