"""The conversion of weights to 16-bit floats: the server's code for 4-bit ones needs AVX-VNNI, which not all have.

`python -m tests.real_models.conversion FOLDER_OF_GGUF FROM TO`; the package `gguf` lies unpacked in the folder.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_WHOLE_FLOATS = 1
"""The file's type in its head: most weights are 16-bit floats."""


def convert(given: Path, made: Path) -> None:
    """Write the weights of `given`, dequantized, to `made`, with the same head."""
    gguf: Any = import_module("gguf")
    reader = gguf.GGUFReader(given)
    architecture = "general.architecture"
    writer = gguf.GGUFWriter(made, reader.fields[architecture].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in (architecture, "general.file_type"):
            continue
        first, *_, last = field.types if len(field.types) > 1 else (field.types[0], None)
        writer.add_key_value(field.name, field.contents(), first, sub_type=last)
    writer.add_file_type(_WHOLE_FLOATS)
    for tensor in reader.tensors:
        whole = tensor.tensor_type == gguf.GGMLQuantizationType.F32
        data = tensor.data if whole else gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float16")
        writer.add_tensor(tensor.name, data)
    for write in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        write()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    convert(Path(sys.argv[2]), Path(sys.argv[3]))
