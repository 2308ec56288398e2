#!/usr/bin/env python3
"""Reads a checkpoint of a tiny Llama with nothing but struct, json and zlib, from the formats' descriptions.

Usage: check_llama_checkpoint.py CHECKPOINT. Prints one line and exits with 0, or what is wrong and exits with 1.

Checked are the manifest (its own checksum, sizes and checksums of the files), the safetensors files (header, alignment,
offsets without gaps, types), the names and shapes that Hugging Face transformers gives the parameters of the model in
config.json, two moments for each parameter, and every value: element e of a tensor is e + the CRC-32 of its name mod 1000.
"""
import json
import pathlib
import struct
import sys
import zlib


def check(condition, what):
    if not condition:
        sys.exit(what)


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    check(length % 8 == 0, f"{path.name}: the tensors are not aligned")
    header = json.loads(data[8:8 + length])
    check(header.pop("__metadata__") == {"format": "pt"}, f"{path.name}: metadata")
    end, tensors = 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, begins = end, entry["data_offsets"][0]
        end = entry["data_offsets"][1]
        check(begins == begin, f"{path.name}: {name}: a gap")
        check(entry["dtype"] == "F32", f"{path.name}: {name}: type")
        elements = 1
        for size in entry["shape"]:
            elements *= size
        check(end - begin == 4 * elements, f"{path.name}: {name}: size")
        tensors[name] = (entry["shape"], struct.unpack_from(f"<{elements}f", data, 8 + length + begin))
    check(8 + length + end == len(data), f"{path.name}: length")
    return tensors


def llama_shapes(config):
    """Names and shapes of LlamaForCausalLM's state_dict(): a linear layer is [outputs, inputs]."""
    hidden, heads, ffn = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"]
    head_dim = hidden // heads
    kv = config["num_key_value_heads"] * head_dim
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden],
              "lm_head.weight": [config["vocab_size"], hidden]}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, shape in {"input_layernorm": [hidden], "post_attention_layernorm": [hidden],
                            "self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [kv, hidden],
                            "self_attn.v_proj": [kv, hidden], "self_attn.o_proj": [hidden, hidden],
                            "mlp.gate_proj": [ffn, hidden], "mlp.up_proj": [ffn, hidden],
                            "mlp.down_proj": [hidden, ffn]}.items():
            shapes[f"{prefix}{name}.weight"] = shape
    return shapes


def check_values(tensors, shapes):
    check(sorted(tensors) == sorted(shapes), f"names: {sorted(set(tensors) ^ set(shapes))}")
    for name, (shape, values) in tensors.items():
        check(shape == shapes[name], f"{name}: shape {shape}, expected {shapes[name]}")
        first = zlib.crc32(name.encode()) % 1000
        check(all(value == first + e for e, value in enumerate(values)), f"{name}: values")


def check_manifest(folder):
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    check(zlib.crc32(text.split(b"\n", 1)[1]) == int(manifest["crc32"], 16), "manifest: checksum")
    check((manifest["format"], manifest["version"]) == ("sluice-checkpoint", 1), "manifest: version")
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        check((len(data), zlib.crc32(data)) == (file["bytes"], int(file["crc32"], 16)), f"{file['name']}: checksum")
    names = {file["name"] for file in manifest["files"]} | {"manifest.json"}
    check(names == {path.name for path in folder.iterdir()}, "manifest: files")


def main(folder):
    check_manifest(folder)
    shapes = llama_shapes(json.loads((folder / "config.json").read_text()))
    model = read_safetensors(folder / "model.safetensors")
    check_values(model, shapes)
    optimizer = {}
    for path in sorted(folder.glob("optimizer-*-of-*.safetensors")):
        optimizer.update(read_safetensors(path))
    check_values(optimizer, {f"{name}.{moment}": shape for name, shape in shapes.items()
                             for moment in ("exp_avg", "exp_avg_sq")})
    print(f"{len(model)} parameters and {len(optimizer)} moments")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
