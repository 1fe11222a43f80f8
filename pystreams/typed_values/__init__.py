"""Values of the user's classes, from JSON's and Avro's plain ones and back.

`model_reader` compiles a class once into a function that makes its values of dicts, lists and
scalars, `model_writer` into one for the way back, and `json_functions` puts JSON's bytes around
them. Reading order: `misfit`, `model_fields`, `scalar_readers`, `class_unions`, `model_reader`,
`model_writer`, `json_functions`.
"""
