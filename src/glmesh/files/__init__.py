"""Files that glmesh reads and writes: data, trained models, and archives of plain data for checkpoints.

One reader for each format, one writer (`archive.write_atomically`); nothing in a file is ever executed. What a run or
a federation means by the contents stays out: `engine.checkpoint` and `federation` know that.
"""
