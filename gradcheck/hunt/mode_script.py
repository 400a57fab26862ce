"""The parts of a reproduction script that take a derivative in another mode than reverse and eager."""

from __future__ import annotations

from gradcheck.autodiff.mode import AROUND, FUNCTION, LOOP, PFOR, XLA, Mode

REVERSE_FIRST = """
def taken(*tensors):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = objective(function, *tensors)
    return tape.gradient(value, tensors)
"""

GRADIENT = '''
def gradient(tensors):
    """The first derivatives that are not None, and to which input each belongs."""
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = objective(function, *tensors)
    parts = enumerate(tape.gradient(value, tensors))
    return zip(*[(i, tf.convert_to_tensor(part)) for i, part in parts if part is not None])
'''

REVERSE_SECOND = """
def taken(*tensors):
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        known, parts = gradient(tensors)
    return outer.gradient(parts, tensors, output_gradients=[tf.constant(direction[i]) for i in known])
"""

FORWARD = '''
def taken(*tensors):
    """Every element from a Jacobian-vector product along its own axis."""
    derivative = []
    for i, given in enumerate(inputs):
        slopes = []
        for unit in (1.0, 1.0j) if np.iscomplexobj(given) else (1.0,):
            for element in np.ndindex(given.shape):
                tangent = np.zeros_like(given)
                tangent[element] = unit
                with tf.autodiff.ForwardAccumulator(tensors[i], tf.constant(tangent)) as accumulator:
                    value = objective(function, *tensors)
                slope = accumulator.jvp(value)
                slopes.append(tf.zeros_like(value) if slope is None else slope)
        parts = tf.reshape(tf.stack(slopes), [-1, *given.shape])
        derivative.append(tf.complex(parts[0], parts[1]) if np.iscomplexobj(given) else parts[0])
    return derivative
'''

FORWARD_OVER_REVERSE = """
def taken(*tensors):
    with tf.autodiff.ForwardAccumulator(tensors, tuple(map(tf.constant, direction))) as accumulator:
        known, parts = gradient(tensors)
    moves = dict(zip(known, map(accumulator.jvp, parts)))
    return [moves.get(i) for i in range(len(tensors))]
"""

REVERSE_OVER_FORWARD = """
def taken(*tensors):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        with tf.autodiff.ForwardAccumulator(tensors, tuple(map(tf.constant, direction))) as accumulator:
            value = objective(function, *tensors)
        slope = accumulator.jvp(value)
    return [None] * len(tensors) if slope is None else tape.gradient(slope, tensors)
"""

CONTRACTED = '''
def contracted(tape, tensors, targets, weights):
    """The sum of all weights times the Jacobian of their target, for every input."""
    products = [None] * len(tensors)
    for target, weight in zip(targets, weights):
        if np.iscomplexobj(weight):
            weight = np.stack([weight.real, weight.imag])
        rows = tape.jacobian(target, tensors, experimental_use_pfor={pfor})
        for i, row in enumerate(rows):
            if row is not None:
                term = tf.tensordot(tf.cast(weight, row.dtype), row, weight.ndim)
                products[i] = term if products[i] is None else products[i] + term
    return products


def whole(target):
    """The Jacobian of a complex target is that of its real part alone."""
    return tf.stack([target, -1j * target]) if target.dtype.is_complex else target
'''

JACOBIAN_FIRST = """
def taken(*tensors):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        targets = [whole(function(*tensors))]
    return contracted(tape, tensors, targets, [w])
"""

JACOBIAN_SECOND = """
def taken(*tensors):
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(tensors)
        known, parts = gradient(tensors)
        targets = [whole(part) for part in parts]
    return contracted(outer, tensors, targets, [direction[i] for i in known])
"""

PATHS = {
    ("reverse", 1): (REVERSE_FIRST,),
    ("reverse", 2): (GRADIENT, REVERSE_SECOND),
    ("forward", 1): (FORWARD,),
    ("forward over reverse", 2): (GRADIENT, FORWARD_OVER_REVERSE),
    ("reverse over forward", 2): (REVERSE_OVER_FORWARD,),
    (PFOR, 1): (CONTRACTED.replace("{pfor}", "True"), JACOBIAN_FIRST),
    (PFOR, 2): (GRADIENT, CONTRACTED.replace("{pfor}", "True"), JACOBIAN_SECOND),
    (LOOP, 1): (CONTRACTED.replace("{pfor}", "False"), JACOBIAN_FIRST),
    (LOOP, 2): (GRADIENT, CONTRACTED.replace("{pfor}", "False"), JACOBIAN_SECOND),
}

RUN = """
def autodiff():
    return {run}(*map(tf.constant, inputs))
"""
RUNS = {
    "eager": "taken",
    AROUND: "taken",
    FUNCTION: "tf.function(taken, autograph=False)",
    XLA: "tf.function(taken, autograph=False, jit_compile=True)",
}

TRACED = "function = tf.function(function, autograph=False)"


def derivative(mode: Mode, order: int) -> list[str]:
    """The parts that define `autodiff()` in a mode, behind the definitions of `function`, `objective` and `w`."""
    before = [TRACED] if mode.mode == AROUND else []
    return [*before, *PATHS[mode.path, order], RUN.format(run=RUNS[mode.mode])]
