"""Axis: the bound on an update."""

from karl_fast.objective.axes.clip.bounds import Clip, DualClip, GeometricClip, NoClip, TwoSided, VariancePenalty
from karl_fast.objective.axes.clip.point import Bounds, Clipper, Drift
from karl_fast.objective.axes.clip.weights import Cap, Delight, Flip, MaskNegatives, SoftGate

__all__ = [
    "Bounds",
    "Cap",
    "Clip",
    "Clipper",
    "Delight",
    "Drift",
    "DualClip",
    "Flip",
    "GeometricClip",
    "MaskNegatives",
    "NoClip",
    "SoftGate",
    "TwoSided",
    "VariancePenalty",
]
