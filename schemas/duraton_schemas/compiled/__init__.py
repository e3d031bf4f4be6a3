"""Encoders and decoders made for one schema each, at first use.

A general Avro library walks the schema at every record: about 20 µs for a fact
of 20 fields, where the whole budget of a run is some hundred. Here the walk is
done once and written down as Python source, one straight function for each
record type, which is compiled by Python itself. The bytes are the same; the
tests hold them against fastavro.

- `varint`: Avro's whole numbers, by tables
- `shape`: the schema and the record type, read together
- `encoder`, `decoder`: the source that is generated
"""

from duraton_schemas.compiled.decoder import DecodeFunction, compile_decoder
from duraton_schemas.compiled.encoder import EncodeFunction, compile_encoder

__all__ = ["DecodeFunction", "EncodeFunction", "compile_decoder", "compile_encoder"]
