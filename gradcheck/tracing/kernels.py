"""Facts about TensorFlow's kernels, by name: the only place in the library that lists them.

The operations of the hunt's catalogue have their facts beside them; `float64_kernels` has the float64 forms of kernels
in single precision, `diagnosis.not_finite_value` the replacements of kernels that give NaN or infinity.
"""

from __future__ import annotations

# Values

CONSTANTS = frozenset(("Const", "_EagerConst"))
SHAPES = frozenset(("Rank", "Shape", "ShapeN", "Size"))
"""Kernels that depend only on the shapes of their inputs, which are the same at all points."""
OF_SHAPES = SHAPES | {"VariableShape", "ZerosLike", "OnesLike", "TensorListLength"}
"""Kernels whose outputs do not depend on the values of their inputs."""

ROUNDING = frozenset(("Floor", "Ceil", "Round", "Rint"))
"""Kernels with integral results, which are piecewise constant."""
STEPS = ROUNDING | {"Sign"}
"""Piecewise constant kernels, among those that have a derivative or look as if they had one."""

SELECTING = frozenset(
    (
        *("Max", "Min", "NthElement", "SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin"),
        *("TensorScatterMax", "TensorScatterMin"),
    )
)
"""Kernels whose gradient looks up the output among the inputs, and would be 0 or NaN for a perturbed output. The
elements that they select have lost no digits."""
WHERE = frozenset(("Select", "SelectV2"))
"""Kernels that take each element from one of two tensors."""
MOVING = frozenset(
    ("StridedSlice", "Slice", "GatherV2", "GatherNd", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Identity")
)
"""Kernels that select and move elements."""

DIFFERENCES = frozenset(("Sub", "SquaredDifference"))
QUOTIENTS = frozenset(("RealDiv",))
EVEN = frozenset(("Square", "Abs", "Pow"))
"""Kernels that losses take of the difference between a target and a prediction."""
DENSITIES = frozenset(
    (
        *("Log", "Log1p", "LogSoftmax", "Softplus", "Lgamma", "Exp", "Square", "Pow", "SquaredDifference"),
        *("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"),
    )
)
"""Kernels by one of which a log-probability, or a ratio of probabilities, is computed."""

# Rounding

EXACT = frozenset().union(
    SELECTING,
    STEPS,
    MOVING,
    WHERE,
    ("IdentityN", "StopGradient", "ReadVariableOp", "ResourceGather", "ZerosLike"),
    ("Tile", "BroadcastTo", "ConcatV2", "Pack", "Unpack", "Split", "SplitV", "Pad", "PadV2"),
    ("Maximum", "Minimum", "MaxPool", "Relu", "Abs", "Neg"),
)
"""Kernels without rounding: perturbing them would break ties that no rounding breaks."""
OF_ROWS = frozenset(("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits"))
"""Kernels whose gradient subtracts a row's sum from each element: accurate relative to the row, not the element."""
DECOMPOSING = frozenset(("Svd", "SelfAdjointEigV2", "Eig", "Qr"))
"""Decompositions whose factors are discontinuous where eigenvalues or singular values coincide: a perturbed matrix has
other factors. Their gradients solve with the factors; an error caused by a singular factor is no rounding error."""
NORMWISE = DECOMPOSING.union(
    ("MatrixInverse", "MatrixSolve", "MatrixSquareRoot"),
    ("MatrixDeterminant", "LogMatrixDeterminant", "Cholesky"),
)
"""Kernels that return the exact result for a matrix within units of its largest element of the given one.

This is backward stability (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.5).
"""
POLAR = frozenset(("Pow",))
"""Kernels whose complex result is made of magnitude and angle: the smaller part is right to units of the larger one."""
ONE_TRIANGLE = frozenset(("Cholesky",))
"""Kernels of self-adjoint matrices that read one triangle, and return a gradient for both."""
BITWISE = frozenset(("Bitcast", "NextAfter", "DecodeRaw", "AsString"))
"""Kernels whose result depends on the representation of a number."""
OF_INTEGERS = frozenset(("Cast",))
"""Kernels that may make a floating value that is not finite from values that are not floating."""

# Gradients

STOPPING = frozenset(("StopGradient", "PreventGradient"))
"""Kernels that stop the gradient, but pass values on."""
STRAIGHT_THROUGH = frozenset(
    (
        *("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"),
        *("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"),
    )
)
"""Kernels that round, and whose gradient is meant to pass as if they did not."""
GRADIENT_NONE = ROUNDING.union(("FloorDiv", "TruncateDiv"), ("ArgMax", "ArgMin"))
"""Kernels whose registered gradient is None."""
RECTIFYING = frozenset(("Relu", "Relu6"))
"""Kernels that give 0 for negative values."""
CLIPPING = frozenset(("Maximum", "Minimum", "ClipByValue"))
"""Kernels that hold values beyond a bound at it."""
INSTEAD = {
    **dict.fromkeys(
        ("ReduceDataset", "ScanDataset"),
        (
            "loops over a tf.data.Dataset in a tf.function run it, and so do reduce and scan",
            "loop over a Python list of the dataset's elements, made outside of the tf.function, or with tf.scan or "
            "tf.while_loop over a tensor of them",
        ),
    ),
    **dict.fromkeys(
        ("Bincount", "DenseBincount", "SparseBincount", "RaggedBincount"),
        (
            "tf.math.bincount with weights",
            "sum the weights with tf.math.unsorted_segment_sum(weights, values, the number of bins)",
        ),
    ),
}
"""Kernels without a gradient on differentiable paths: how code comes to run them, and the remedy."""
GRADIENT_ZERO = ROUNDING.union(STOPPING, CONSTANTS, ("FloorDiv", "TruncateDiv"), ("ZerosLike", "OnesLike"))
"""Kernels that have no gradient because it is zero, or meant to be stopped."""
RIGHT_GRADIENT = frozenset(
    (
        *("Const", "Identity", "IdentityN", "Cast", "Reshape", "ExpandDims", "Squeeze", "Transpose", "StridedSlice"),
        *("Pack", "Unpack", "ConcatV2", "Split", "SplitV", "Shape", "Size", "Rank", "Range", "Fill", "ZerosLike"),
        *("OnesLike", "Real", "Imag", "Conj", "Complex", "AddV2", "Sub", "Mul", "RealDiv", "Neg", "Square", "Exp"),
        *("Sum", "Max", "Softmax", "Equal", "NotEqual", "LogicalAnd", "FloorMod", "BroadcastTo", "Sin"),
    )
)
"""Kernels with a correct gradient, where an operation runs them together with the one of a known defect."""

# Control flow and state

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
LOOPS = frozenset(("While", "StatelessWhile"))
CONDITIONALS = frozenset(("If", "StatelessIf"))
BRANCHES = {
    **dict.fromkeys(CONDITIONALS, ("then_branch", "else_branch")),
    **dict.fromkeys(("Case", "StatelessCase"), ("branches",)),
}
"""Kernels that run one of several functions, and the attributes that hold these."""
CALLING = {**dict.fromkeys(CALLS, ("f",)), **dict.fromkeys(LOOPS, ("cond", "body")), **BRANCHES}
"""Kernels of control flow, and the attributes that hold the functions that they call."""
GIVEN = frozenset(("Placeholder", "NoOp"))
"""Nodes of a graph that compute nothing."""
HARMLESS_STATE = frozenset(("StatefulPartitionedCall", "While", "If", "Case", "ReadVariableOp"))
"""Kernels that TensorFlow calls stateful but that change nothing, except through the functions that they call."""
READING_VALUES = frozenset(("ReadVariableOp", "ResourceGather"))
"""Kernels that return a variable's value, or rows of it."""
READING = READING_VALUES.union(("ResourceGatherNd", "VariableShape"))
"""Kernels that take a variable's handle, alone or with other inputs, and do not change its value."""
ADDING = frozenset(("AddV2", "Add", "AddN", "AssignAddVariableOp"))
"""Kernels that add one tensor to another, or to a variable."""
ASSIGNING = frozenset(("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"))
UPDATES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStridedSliceAssign")
"""Prefixes of the names of kernels that give variables another value."""
REFERENCE_UPDATES = frozenset(
    ("Assign", "AssignAdd", "AssignSub", "ScatterUpdate", "ScatterAdd", "ScatterSub", "ScatterNdUpdate", "ScatterNdAdd")
)
"""Kernels that give reference variables of TensorFlow 1 another value, which they return."""
HOLDERS = ("Iterator", "Queue", "Stack", "Barrier", "LookupTable", "TensorArray", "Dataset")
"""Prefixes of the names of kernels that store their inputs."""

# Python, files and tables

PYTHON = frozenset(("EagerPyFunc", "PyFunc", "PyFuncStateless"))
"""Kernels that call a Python function."""
WRITING_FILES = frozenset(
    (
        *("WriteFile", "Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints"),
        *("SaveDataset", "SaveDatasetV2", "DatasetToTFRecord"),
    )
)
CHANGING_TABLES = frozenset(("LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2"))
"""Kernels that change a table, which is no variable."""
