"""Algorithms, one file each."""

from glmesh.methods.cola import Cocoa, Cola

__all__ = ["Cocoa", "Cola"]
