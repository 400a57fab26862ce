"""The parts of a reproduction script that are the same for every graph."""

from __future__ import annotations

HEAD = '''"""{title}"""

import itertools
import sys

import numpy as np
import tensorflow as tf
'''

FIRST = """
def autodiff():
    tensors = [tf.constant(value) for value in inputs]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = objective(function, *tensors)
    return tape.gradient(value, tensors)
"""

SECOND = """
def autodiff():
    tensors = [tf.constant(value) for value in inputs]
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            value = objective(function, *tensors)
        gradient = [None if g is None else tf.convert_to_tensor(g) for g in inner.gradient(value, tensors)]
    known = [i for i, part in enumerate(gradient) if part is not None]
    if not known:
        return gradient
    vectors = [tf.constant(direction[i]) for i in known]
    return outer.gradient([gradient[i] for i in known], tensors, output_gradients=vectors)
"""

MOVED_FIRST = '''
def moved(i, element, unit, s):
    """The objective with one element of one input moved by s * unit."""
    point = [value.copy() for value in inputs]
    point[i][element] += s * unit
    return float(objective({oracle}, *map(tf.constant, point)))
'''

MOVED_SECOND = '''
def moved(i, element, unit, s, t):
    """The objective at inputs + t * direction, with one element of one input moved by s * unit besides."""
    point = [np.array(value + t * vector) for value, vector in zip(inputs, direction)]
    point[i][element] += s * unit
    return float(objective({oracle}, *map(tf.constant, point)))


def mixed(h, *place):
    """The central difference of the second derivative along the element and along the direction."""
    return [a * b * moved(*place, a * h, b * h) / (4 * h * h) for a in (1, -1) for b in (1, -1)]
'''

DIFFERENCE = '''
def difference(i, element, unit):
    """Central differences, extrapolated, at the step where they agree best; and how far they may be off."""
    best, least = np.nan, np.inf
    for scale, step in itertools.product({{1.0, abs(inputs[i][element]) or 1.0}}, 10.0 ** -np.arange(1.0, {steps})):
        h = scale * step
        rows = [{row} for h in (h, h / 2, h / 4)]
        coarse, middle, fine = map(sum, rows)
        once, twice = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
        rounding = 8 * {eps} * (np.abs(rows[2]).max() + abs(inputs[i][element] * twice / h))
        if abs(twice - once) + rounding < least:
            best, least = twice, abs(twice - once) + rounding
    return best, least
'''

ROW_FIRST = "[a * moved(i, element, unit, a * h) / (2 * h) for a in (1, -1)]"
ROW_SECOND = "mixed(h, i, element, unit)"

SLOPES = '''
def slopes(i, element, unit):
    """The one-sided slopes, extrapolated, at the step where they agree best; and how far they may be off."""
    best, least = (np.nan, np.nan), np.inf
    for scale, step in itertools.product({{1.0, abs(inputs[i][element]) or 1.0}}, 10.0 ** -np.arange(1.0, 8.0)):
        h, here = scale * step, moved(i, element, unit, 0.0)
        rows = [[(moved(i, element, unit, s) - here) / s for s in (-h, -h / 2, h, h / 2)] for h in (h, h / 2)]
        once, twice = [(2 * row[1] - row[0], 2 * row[3] - row[2]) for row in rows]
        rounding = 32 * {eps} * (abs(here) / h + max(map(abs, twice)))
        error = max(abs(twice[0] - once[0]), abs(twice[1] - once[1])) + rounding
        if error < least:
            best, least = twice, error
    return *sorted(best), least
'''

COMPARE = {
    False: """
            expected, error = difference(i, element, unit)
            gap, size, shown = abs(taken - expected), abs(expected), f"{expected:.15g}"
""",
    True: """
            low, high, error = slopes(i, element, unit)
            gap, size, shown = max(low - taken, taken - high, 0.0), max(abs(low), abs(high)), f"{low:.8g} to {high:.8g}"
""",
}

VERDICT = """
objective(function, *map(tf.constant, inputs))
try:
    derivative = autodiff()
except Exception as error:
    print(f"TensorFlow {{tf.__version__}}: the function is computed, its derivative raises")
    print(f"{{type(error).__name__}}: {{error}}")
    print("WRONG")
    sys.exit(1)

wrong = unsure = 0
print(f"TensorFlow {{tf.__version__}}: {what}")
print(f"{{'element':<18}} {{'autodiff':>22}} {{'{against}':>22}} {{'error at most':>14}}")
for i, (name, value) in enumerate(zip(names, inputs)):
    given = None if derivative[i] is None else tf.convert_to_tensor(derivative[i]).numpy()
    if given is not None and given.shape != value.shape:
        print(f"{{name}}: the derivative has shape {{given.shape}}, the input {{value.shape}}")
        wrong += 1
        continue
    for element in np.ndindex(value.shape):
        for unit in (1.0, 1.0j) if np.iscomplexobj(value) else (1.0,):
            taken = 0.0 if given is None else float((given[element] / unit).real)
            {compare}
            tolerance = 10 * error + {rtol} * size
            mark = ""
            if not np.isfinite(error) or tolerance > max(0.1 * size, 1e-6):
                mark, unsure = "cannot tell", unsure + 1
            if np.isfinite(error) and not gap <= tolerance:
                mark, wrong = "<- wrong", wrong + 1
            label = name + (str(list(element)) if element else "") + (" imag" if unit == 1.0j else "")
            text = "None" if given is None else f"{{taken:.15g}}"
            print(f"{{label:<18}} {{text:>22}} {{shown:>22}} {{error:>14.1e}} {{mark}}".rstrip())

if wrong:
    print("WRONG")
    sys.exit(1)
if unsure:
    print("CANNOT TELL")
    sys.exit(2)
print("RIGHT")
"""
