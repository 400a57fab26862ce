"""Operations of the census's family `identity/debug/script`."""

from __future__ import annotations

from gradcheck.hunt.opspec import OpSpec

FAMILY = "identity/debug/script"

OPERATIONS = (
    OpSpec("identity", FAMILY, "tf.identity({0})", ("Identity",)),
    OpSpec(
        "identity_n",
        FAMILY,
        "(lambda pair: pair[0] * tf.sin(pair[1]))(tf.identity_n([{0}, {1}]))",
        ("IdentityN",),
        arity=2,
        shapes=lambda shape: [(shape, shape)],
    ),
    OpSpec("check_numerics", FAMILY, "tf.debugging.check_numerics({0}, 'not finite')", ("CheckNumerics",)),
    OpSpec("ensure_shape", FAMILY, "tf.ensure_shape({0}, {0}.shape)", ("EnsureShape",)),
    OpSpec("py_function", FAMILY, "tf.py_function(lambda x: x * tf.sin(x), [{0}], tf.float64)", ("EagerPyFunc",)),
)
