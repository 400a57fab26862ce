"""The floating and complex dtypes of TensorFlow: their unit roundoff, and the wider form of the low ones."""

ROUNDOFF = {
    "float64": 2.0**-53,
    "complex128": 2.0**-53,
    "float32": 2.0**-24,
    "complex64": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
WIDE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
