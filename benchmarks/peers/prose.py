"""The sentences of the report; numbers are filled in from the measurements."""

HEAD = """# Benchmarks

Seconds of a sweep, memory and time to a target, beside other libraries. Made by

    python -m benchmarks.peers measure --problems … --libraries … --repeats …
    python -m benchmarks.peers report

which measure, and write this page with its plots; every number below is computed from the measurements. `both --target
--scaling` does everything in one command, which takes most of a day.

A sweep updates all rows and all columns once. Sweeps of different models do different work and bring the model on by
different amounts: a line says what a sweep costs, not which model to use. Data are prepared outside the clock. Each
measurement is a process of its own; repeats go round all libraries in turn. Given is the median of the repeats, with
the smallest and the largest in brackets and the number of repeats after them. Everything runs in float32. Peak memory
is the largest resident set of the process, data and preparation included.
"""

LIBRARIES = """Libraries of the kind *pattern* model which cells are observed. They are given ones, and a missing cell
is a 0 to them. Those of the kind *values* model the observed values. K is the number of factors. Where a library tells
the time of each sweep, the median without the first is taken; elsewhere a fit of one sweep is subtracted from a longer
one.
"""

PROBLEMS = """*× nmar* is the time over that of nmar's model of the same kind with as many threads. *Share of the
limit* is the time that gathering alone would take ([limits](#limits)) over the time of the sweep; the two are measured
one after the other on a machine that others use, so that it may come out a little over 100 %. Simulated problems have
distinct cells with gamma-distributed popularity of rows and columns.
"""

LIMITS = """A gather-only sweep reads, for every cell, the line of its column and then the line of its row at the
problem's own indices, with prefetches, and adds them up; nothing is written. The last column is the time of the
multiply-adds alone, {multiply_adds} for each cell and factor, at the measured rate.
"""

TARGET = """Seconds of fitting until the root mean square error of held-out cells reaches a target, in fits with growing
numbers of sweeps from the same start; scoring is outside the clock. The target is one that was given, or else the
error that all libraries reach, plus {slack:g} %. Settings that a library leaves to the user are chosen on validation
cells, outside the clock. A log likelihood counts as reached within {nats:g} nats of its best.
"""

SCALING = """Seconds of a sweep, {about}. The slope is that of the logarithms: 1 where time is
proportional. A sweep also has a part that goes by lines and not by cells, and one that goes by cells and not by
factors; the straight line a + bx, x in {unit}, has them in a. Beside it stands its largest relative error.
"""
