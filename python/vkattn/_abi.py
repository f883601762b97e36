"""The C interface (vkattn.h, estimate.h) as ctypes sees it. Nothing here decides anything: the headers are the reference."""
import ctypes
import ctypes.util
import operator
import os
import pathlib
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

import numpy

ROLES = {name: number for number, name in enumerate((
    "workspace", "query", "key", "value", "output", "log_sum_exp", "attn_mask", "key_padding_mask", "key_lengths",
    "past_lengths", "alibi_slopes", "sinks", "attn_weights", "qk_matmul_output", "past_key", "past_value", "present_key",
    "present_value", "cu_seqlens_q", "cu_seqlens_k", "block_table", "partial_output", "partial_log_sum_exp", "input", "weight",
    "bias", "multiplier", "residual", "tokens", "block_mask", "source", "cache",
    "key_indices", "indices", "captured_0", "captured_1", "captured_2", "captured_3",
    "key_scales", "value_scales", "norm_weight", "decay", "beta", "initial_state", "final_state", "state_slots", "token_states",
    "accepted"))}
KERNELS = {"auto": 0, "unfused": 1, "flash": 2, "decode": 3, "coopmat": 4, "latent_decode": 6,
           "addresses": 7}
LAYER_KINDS = {"mha": 0, "latent_mha": 1, "latent_query": 2, "mla": 3, "compressed_kv": 4, "encoder_layer": 5, "mla_block": 6,
               "encoder": 5}  # as the header calls it
ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "silu": 3, "leaky_relu": 4, "gelu_tanh": 5}
ROPE_SCALINGS = {"none": 0, "linear": 1, "llama3": 2, "yarn": 3, "longrope": 4}
EXTENSION_ROPE_FACTORS, EXTENSION_KEY_LIST, EXTENSION_ATTENTION_VARIANT, EXTENSION_LAYER_INDEXER, EXTENSION_KV_ROTATION = 1, 2, 3, 4, 5
EXTENSION_KV_SCALES, EXTENSION_CACHE_SCALES, EXTENSION_INPUT_NORM, EXTENSION_NORM_RESIDUAL = 6, 7, 8, 9
EXTENSION_CRASH_JOURNAL, EXTENSION_INTERMEDIATE_TYPE, EXTENSION_TUNE_BUDGET = 10, 11, 12
ROTATIONS = {"none": 0, "hadamard": 1}
SCALINGS = {"none": 0, "tensor": 1, "head": 2, "row": 3}
INDEX_ACTIVATIONS = {"relu": 0, "identity": 1}
INDEX_REDUCES = {"sum": 0, "max": 1, "mean": 2}
MLA_FORMS = {"naive": 0, "absorb": 1}
NORM_KINDS = {"rms": 0, "layer": 1}
LINEAR_ATTENTION_RULES = {"delta": 0, "decay": 1}
LINEAR_ATTENTION_FORMS = {"auto": 0, "recurrent": 1, "chunked": 2}
KV_HEAD_MAPPINGS = {"grouped": 0, "modulo": 1}
MASK_CAUSAL, MASK_WINDOW, MASK_KEYS_TO_LAST_QUERY, SCALE_AS_GIVEN = 1, 2, 4, 8
CACHE_PARTS = {"keys": 0, "values": 1}
MAX_CHECKS, MAX_CANDIDATES = 1024, 128  # room for results; checks: several times those of any device


_RANGES = {c_int: (-2**31, 2**31 - 1), c_uint32: (0, 2**32 - 1), c_uint64: (0, 2**64 - 1)}


def flag(name, value):
    """True or False, of Python or of NumPy: any text would count as true."""
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b" or value in (0, 1):
        return bool(value)
    raise TypeError(f"{name}: {value!r}, expected True or False")


def choose(name, choices, value):
    """The number of a name; the C interface's numbers are taken too."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in choices.values():
        return value
    raise ValueError(f"{name}: {value!r}, expected one of {', '.join(choices)}")


def real(name, value):
    """A number that is no text."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: {value!r}, expected a number") from None


def whole(kind, name, value):
    """A whole number that its C type holds: ctypes itself takes others, and cuts off their high bits."""
    least, most = _RANGES[kind]
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r}, expected a whole number") from None
    if not least <= number <= most:
        raise ValueError(f"{name}: {number}, expected a whole number from {least} to {most}")
    return number


class _Structure(ctypes.Structure):
    """Whose members are known by name, and whose whole numbers are as large as they may be."""

    def __init__(self, *values, **members):
        super().__init__()
        for (name, _), value in zip(self._fields_, values):
            setattr(self, name, value)
        for name, value in members.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in self._kinds_:
            raise TypeError(f"{name}: no member of {type(self).__name__}, expected one of {', '.join(self._kinds_)}")
        kind = self._kinds_[name]
        if kind in _RANGES:
            value = whole(kind, name, value)
        elif kind in (c_float, c_double):
            value = real(name, value)
        super().__setattr__(name, value)


def structure(name, *fields):
    return type(name, (_Structure,), {"_fields_": list(fields), "_kinds_": dict(fields)})


Tensor = structure("vkattn_tensor", ("type", c_int), ("rank", c_uint32), ("shape", c_uint64 * 4), ("strides", c_uint64 * 4),
                   ("offset", c_uint64), ("next", c_void_p))
TypeInfo = structure(
    "vkattn_type_info", ("type", c_int), ("kind", c_int), ("name", c_char_p), ("block_elements", c_uint32), ("block_bytes", c_uint32),
    ("number_bits", c_uint32), ("has_minimum", c_uint32), ("key_value", c_uint32), ("cache", c_uint32), ("weight", c_uint32))
TYPE_KIND_FLOAT, TYPE_KIND_QUANTISED = 1, 4
Binding = structure("vkattn_binding", ("role", c_int), ("buffer", c_uint64), ("offset", c_uint64), ("bytes", c_uint64),
                    ("next", c_void_p))
KernelSupport = structure("vkattn_kernel_support", ("kernel", c_int), ("supported", c_uint32), ("reason", c_char_p))
MatrixShape = structure("vkattn_matrix_shape", ("m", c_uint32), ("n", c_uint32), ("k", c_uint32), ("type", c_int))
DeviceFacts = structure(
    "vkattn_device_facts", ("index", c_uint32), ("name", c_char * 256), ("driver_name", c_char * 256),
    ("driver_info", c_char * 256), ("vendor_id", c_uint32), ("device_id", c_uint32), ("driver_version", c_uint32),
    ("driver_id", c_uint32), ("api_version", c_uint32), ("device_type", c_int), ("device_uuid", c_uint8 * 16), ("driver_uuid", c_uint8 * 16),
    ("device_memory_bytes", c_uint64), ("max_buffer_bytes", c_uint64), ("max_storage_buffer_range", c_uint64),
    ("min_storage_buffer_offset_alignment", c_uint64), ("max_storage_buffers_per_stage", c_uint32),
    ("max_push_constants_bytes", c_uint32), ("max_shared_memory_bytes", c_uint32), ("max_workgroup_invocations", c_uint32),
    ("max_workgroup_count", c_uint32 * 3), ("subgroup_size", c_uint32), ("min_subgroup_size", c_uint32),
    ("max_subgroup_size", c_uint32), ("subgroup_features", c_uint32), ("shader_cores", c_uint32), ("max_subgroups_per_core", c_uint32),
    ("push_descriptors", c_uint32), ("storage_16bit", c_uint32), ("shader_float16", c_uint32), ("shader_int8", c_uint32),
    ("storage_8bit", c_uint32), ("buffer_device_address", c_uint32), ("buffers_have_addresses", c_uint32),
    ("integer_dot_product", c_uint32), ("mixed_integer_dot_product", c_uint32), ("vulkan_memory_model", c_uint32), ("subgroup_size_control", c_uint32),
    ("cooperative_matrix", c_uint32), ("cooperative_matrix_reductions", c_uint32), ("max_loop_iterations", c_uint32),
    ("pipeline_executable_properties", c_uint32), ("portability_subset", c_uint32), ("timestamps", c_uint32), ("timestamp_period_ns", c_double),
    ("matrix_shape_count", c_uint32), ("matrix_shapes", MatrixShape * 32), ("kernel_count", c_uint32),
    ("kernels", KernelSupport * 32), ("signed_integer_dot_product", c_uint32),
    ("half_workspaces", c_uint32))
Trait = structure("vkattn_trait", ("name", c_int), ("value", c_uint64))
MESSAGE_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ContextInfo = structure(
    "vkattn_context_info", ("get_instance_proc_addr", c_void_p), ("device_selector", c_char_p), ("enable_validation", c_uint32),
    ("message_callback", MESSAGE_CALLBACK), ("message_user", c_void_p), ("instance", c_void_p), ("physical_device", c_void_p),
    ("device", c_void_p), ("queue", c_void_p), ("queue_family", c_uint32), ("api_version", c_uint32),
    ("enabled_extensions", c_void_p), ("enabled_extension_count", c_uint32), ("enabled_features", c_void_p),
    ("buffers_have_addresses", c_uint32), ("pipeline_cache", c_uint64), ("lock_queue", c_void_p), ("unlock_queue", c_void_p),
    ("lock_user", c_void_p), ("traits", POINTER(Trait)), ("trait_count", c_uint32), ("saved_data", c_char_p),
    ("saved_bytes", c_uint64), ("capture_shaders", c_int), ("transfer_queue", c_void_p), ("transfer_queue_family", c_uint32),
    ("debug_labels", c_uint32), ("memory", c_void_p), ("next", c_void_p))
Check = structure("vkattn_check", ("name", c_char_p), ("passed", c_uint32), ("reason", c_char_p), ("milliseconds", c_double),
                  ("check_count", c_uint32))
Option = structure("vkattn_option", ("kernel", c_int), ("chosen", c_uint32), ("dispatches", c_uint32), ("shape", c_char_p),
                   ("obstacle", c_char_p))
Candidate = structure("vkattn_candidate", ("kernel", c_int), ("tile", c_char_p), ("milliseconds", c_double),
                      ("kept", c_uint32), ("reason", c_char_p))
Report = structure("vkattn_report", ("kernel", c_int), ("kernel_name", c_char_p), ("reason", c_char_p), ("dispatches", c_uint32))
Requirements = structure("vkattn_requirements", ("workspace_bytes", c_uint64), ("workspace_alignment", c_uint64),
                         ("descriptor_sets", c_uint32), ("storage_buffer_descriptors", c_uint32),
                         ("uniform_buffer_descriptors", c_uint32))
# Tensors of attention, in the order of the description, and the dtype of those that have one alone.
ATTENTION_TENSORS = {
    "query": None, "key": None, "value": None, "output": None, "log_sum_exp": "float32", "attn_mask": None,
    "key_padding_mask": "bool", "key_lengths": "int32", "past_lengths": "int32", "alibi_slopes": "float32", "sinks": "float32",
    "attn_weights": "float32", "qk_matmul_output": "float32", "cu_seqlens_q": "int32", "cu_seqlens_k": "int32",
    "block_table": "int32", "block_mask": "int32", "key_indices": "int32"}
AttentionDesc = structure(  # key_indices is in an extension
    "vkattn_attention_desc", *((name, Tensor) for name in ATTENTION_TENSORS if name != "key_indices"),
    ("block_q_len", c_uint32), ("block_kv_len", c_uint32), ("max_seqlen_q", c_uint32), ("max_seqlen_k", c_uint32),
    ("score_stage", c_int), ("scale", c_float), ("softcap", c_float), ("dropout_p", c_float), ("batch_invariant", c_uint32), ("dropout_seed", c_uint64), ("mask_flags", c_uint32),
    ("causal_alignment", c_int), ("window_left", c_int32), ("window_right", c_int32), ("past_len", c_uint32),
    ("kv_head_mapping", c_int), ("kernel", c_int), ("next", c_void_p))
JitInfo = structure("vkattn_jit_info", ("functions", c_char_p), ("name", c_char_p), ("next", c_void_p))
MergeDesc = structure(
    "vkattn_merge_desc", ("part_count", c_uint32), ("accumulate", c_uint32), ("partial_output", Tensor),
    ("partial_log_sum_exp", Tensor), ("output", Tensor), ("log_sum_exp", Tensor), ("partial_output_stride", c_uint64),
    ("partial_log_sum_exp_stride", c_uint64), ("next", c_void_p))
LinearDesc = structure(
    "vkattn_linear_desc", *((name, Tensor) for name in ("input", "weight", "bias", "multiplier", "residual", "output")),
    ("activation", c_int), ("next", c_void_p))
NormDesc = structure("vkattn_norm_desc", *((name, Tensor) for name in ("input", "weight", "bias", "output")), ("kind", c_int),
                     ("epsilon", c_float), ("next", c_void_p))
EmbeddingDesc = structure("vkattn_embedding_desc", *((name, Tensor) for name in ("tokens", "weight", "output")), ("next", c_void_p))
RecurrentStates = structure(
    "vkattn_recurrent_states", *((name, Tensor) for name in ("initial_state", "final_state", "state_slots", "token_states", "accepted")),
    ("draft_tokens", c_uint32), ("next", c_void_p))
LinearAttentionDesc = structure(
    "vkattn_linear_attention_desc", *((name, Tensor) for name in ("query", "key", "value", "decay", "beta", "output")),
    ("states", RecurrentStates), ("cu_seqlens_q", Tensor), ("max_seqlen_q", c_uint32), ("rule", c_int), ("form", c_int),
    ("scale", c_float), ("qk_l2norm", c_uint32), ("next", c_void_p))
CausalConv1dDesc = structure(
    "vkattn_causal_conv1d_desc", *((name, Tensor) for name in ("input", "weight", "bias", "output")), ("states", RecurrentStates),
    ("cu_seqlens_q", Tensor), ("max_seqlen_q", c_uint32), ("activation", c_int), ("next", c_void_p))
GatedRmsNormDesc = structure("vkattn_gated_rms_norm_desc", *((name, Tensor) for name in ("input", "gate", "weight", "output")),
                             ("epsilon", c_float), ("next", c_void_p))
ArgmaxDesc = structure("vkattn_argmax_desc", *((name, Tensor) for name in ("input", "tokens", "values")), ("next", c_void_p))
BoundPlan = structure("vkattn_bound_plan", ("plan", c_void_p), ("bindings", POINTER(Binding)), ("binding_count", c_uint32),
                      ("next", c_void_p))
ProgramInfo = structure("vkattn_program_info", ("plans", POINTER(BoundPlan)), ("plan_count", c_uint32), ("next", c_void_p))
ProgramReport = structure(
    "vkattn_program_report", ("workspace_bytes", c_uint64), ("plans", c_uint32), ("dispatches", c_uint32), ("barriers", c_uint32),
    ("submissions", c_uint32))
KvAppendDesc = structure(
    "vkattn_kv_append_desc", ("source", Tensor), ("cache", Tensor), ("offset", c_uint32), ("past_lengths", Tensor),
    ("cu_seqlens", Tensor), ("block_table", Tensor), ("max_seqlen", c_uint32), ("next", c_void_p))
RopeScaling = structure(
    "vkattn_rope_scaling", ("kind", c_int), ("factor", c_float), ("original_max_position", c_uint32),
    ("low_freq_factor", c_float), ("high_freq_factor", c_float), ("beta_fast", c_float), ("beta_slow", c_float),
    ("attention_factor", c_float), ("next", c_void_p))
Extension = structure("vkattn_extension", ("kind", c_uint32), ("next", c_void_p))
CrashJournal = structure("vkattn_crash_journal", ("extension", Extension), ("path", c_char_p))
TuneBudget = structure("vkattn_tune_budget", ("extension", Extension), ("tune_budget_ms", c_uint32), ("gpus_alone", c_uint32))
TuneBudgetReport = structure("vkattn_tune_budget_report", ("budget_ms", c_double), ("spent_ms", c_double), ("classes", c_uint32),
                             ("candidates", c_uint32), ("left_out", c_uint32))
AttentionVariant = structure("vkattn_attention_variant", ("extension", Extension), ("variant", c_void_p), ("captured", Tensor * 4))
KvRotation = structure("vkattn_kv_rotation", ("extension", Extension), ("key", c_int), ("value", c_int))
KvScales = structure("vkattn_kv_scales", ("extension", Extension), ("key_scales", Tensor), ("value_scales", Tensor),
                     ("makes_scales", c_uint32))
CacheScales = structure("vkattn_cache_scales", ("extension", Extension), ("key", c_int), ("value", c_int), ("key_scales", c_void_p),
                        ("value_scales", c_void_p))
NormResidual = structure("vkattn_norm_residual", ("extension", Extension), ("residual", Tensor))
InputNorm = structure("vkattn_input_norm", ("extension", Extension), ("weight", Tensor), ("epsilon", c_float))
IntermediateType = structure("vkattn_intermediate_type", ("extension", Extension), ("type", c_int))
KeyList = structure("vkattn_key_list", ("extension", Extension), ("key_indices", Tensor), ("key_block_len", c_uint32))
IndexDesc = structure(
    "vkattn_index_desc", *((name, Tensor) for name in ("query", "key", "weights", "indices", "key_lengths", "past_lengths",
                                                       "cu_seqlens_q", "cu_seqlens_k", "block_table")),
    ("max_seqlen_q", c_uint32), ("max_seqlen_k", c_uint32), ("scale", c_float), ("mask_flags", c_uint32), ("causal_alignment", c_int),
    ("window_left", c_int32), ("window_right", c_int32), ("past_len", c_uint32), ("key_block_len", c_uint32), ("activation", c_int),
    ("head_reduce", c_int), ("block_reduce", c_int), ("forced_first", c_uint32), ("forced_last", c_uint32), ("next", c_void_p))
TopKDesc = structure("vkattn_top_k_desc", *((name, Tensor) for name in ("input", "values", "indices")), ("next", c_void_p))
RopeFactors = structure("vkattn_rope_factors", ("extension", Extension), ("factors", c_void_p), ("count", c_uint32))
LayerIndexer = structure(
    "vkattn_layer_indexer", ("extension", Extension), ("index_n_heads", c_uint32), ("index_head_dim", c_uint32),
    ("index_topk", c_uint32), ("index_rope_interleaved", c_uint32))
LayerConfig = structure(
    "vkattn_layer_config", ("kind", c_int), ("embed_dim", c_uint32), ("input_dim", c_uint32), ("num_heads", c_uint32),
    ("num_kv_heads", c_uint32), ("head_dim", c_uint32), ("kv_head_mapping", c_int), ("latent_dim", c_uint32),
    ("num_latents", c_uint32), ("qk_nope_head_dim", c_uint32), ("qk_rope_head_dim", c_uint32), ("v_head_dim", c_uint32),
    ("q_lora_rank", c_uint32), ("kv_lora_rank", c_uint32), ("mla_form", c_int), ("decompress_lora_rank", c_uint32),
    ("ffn_dim", c_uint32), ("activation", c_int), ("norm_first", c_uint32), ("mlp_ratio", c_uint32), ("rope_theta", c_float),
    ("rope_interleaved", c_uint32), ("rope_scaling", RopeScaling), ("scale", c_float), ("softcap", c_float),
    ("norm_epsilon", c_float), ("next", c_void_p))
Weight = structure("vkattn_weight", ("name", c_char_p), ("tensor", Tensor), ("data", c_void_p),
                   ("buffer", c_uint64), ("buffer_offset", c_uint64), ("next", c_void_p))
CacheInfo = structure("vkattn_cache_info", ("layer", c_void_p), ("kv_heads", c_uint32), ("head_dim", c_uint32),
                      ("v_head_dim", c_uint32), ("batch", c_uint32), ("capacity", c_uint32), ("key_type", c_int),
                      ("value_type", c_int), ("page_len", c_uint32), ("page_count", c_uint32), ("next", c_void_p))
LayerCall = structure(
    "vkattn_layer_call", *((name, Tensor) for name in (
        "query", "key", "value", "output", "past_key", "past_value", "present_key", "present_value", "attn_mask",
        "block_mask")),
    ("block_q_len", c_uint32), ("block_kv_len", c_uint32),
    *((name, Tensor) for name in ("key_padding_mask", "key_lengths", "attn_weights", "residual")),
    ("mask_flags", c_uint32), ("causal_alignment", c_int), ("window_left", c_int32), ("window_right", c_int32),
    ("past_len", c_uint32), ("kernel", c_int), ("cache", c_void_p), ("cu_seqlens", Tensor), ("max_seqlen", c_uint32),
    ("next", c_void_p))
EstimateInfo = structure(
    "vkattn_estimate_info", ("batch", c_uint32), ("prefill_len", c_uint64), ("context_len", c_uint64), ("weight_type", c_int),
    ("cache_type", c_int), ("memory_bytes", c_uint64), ("num_layers", c_uint32), ("with_biases", c_uint32), ("causal", c_uint32),
    ("next", c_void_p))
EstimateResult = structure(
    "vkattn_estimate_result", ("parameters", c_uint64), ("weight_bytes", c_uint64), ("cache_bytes_per_token", c_uint64),
    ("cache_bytes", c_uint64), ("prefill_projection_flops", c_double), ("prefill_attention_flops", c_double),
    ("decode_projection_flops", c_double), ("decode_attention_flops", c_double), ("decode_bytes", c_uint64),
    ("decode_intensity", c_double), ("max_context_len", c_uint64), ("max_sequences", c_uint64))

STRUCTURES = (Tensor, TypeInfo, Binding, KernelSupport, MatrixShape, DeviceFacts, Trait, ContextInfo, Check, Option, Candidate, Report,
              Requirements, AttentionDesc, MergeDesc, LinearDesc, NormDesc, EmbeddingDesc, RopeScaling, LayerConfig, Weight, CacheInfo,
              LayerCall, EstimateInfo, EstimateResult, KvAppendDesc, ArgmaxDesc, KeyList, AttentionVariant, IndexDesc, TopKDesc,
              BoundPlan, ProgramInfo, ProgramReport, KvRotation, KvScales, CacheScales, InputNorm, NormResidual,
               CrashJournal, IntermediateType, RecurrentStates, LinearAttentionDesc, CausalConv1dDesc, GatedRmsNormDesc)


def extend(desc, extension):
    """Puts an extension at the head of a description's chain; it lives as long."""
    extension.extension.next = desc.next
    desc.next = ctypes.addressof(extension)
    desc.__dict__.setdefault("extensions", []).append(extension)


def rotations(name, rotation):
    """The numbers of how keys and values are stored. rotation: a name for both, two names, or None."""
    both = ("none" if rotation is None else rotation,) * 2 if rotation is None or isinstance(rotation, (str, int)) else rotation
    if not isinstance(both, (tuple, list)) or len(both) != 2:
        raise ValueError(f"{name}: {rotation!r}, expected one of {', '.join(ROTATIONS)}, or two of them, for keys and for values")
    return tuple(choose(name, ROTATIONS, each) for each in both)


def add_rotation(desc, name, rotation):
    """Extends a description by how keys and values are stored, where that is not as they are."""
    both = rotations(name, rotation)
    if any(both):
        extend(desc, KvRotation(Extension(EXTENSION_KV_ROTATION), *both))


def add_scales(desc, key_scales=Tensor(), value_scales=Tensor(), makes_scales=False):
    """Extends a description by scales of K and V, where there are any."""
    if key_scales.type or value_scales.type:
        extend(desc, KvScales(Extension(EXTENSION_KV_SCALES), key_scales, value_scales, makes_scales))


def cache_heads(config):
    """KV heads of the cache that a layer of this LayerConfig has: one of latents, where it caches those."""
    of_heads = config.kind in (LAYER_KINDS["mha"], LAYER_KINDS["encoder_layer"])
    return config.num_kv_heads or config.num_heads if of_heads else 1


def add_cache_scales(info, heads, key_scales, value_scales):
    """Extends the description of a cache of so many heads. Each: None, "row", a number for all of the part, or a sequence of
    one for each head."""
    numbers = [None if each is None or isinstance(each, str) else numpy.atleast_1d(numpy.asarray(each, "f4"))
               for each in (key_scales, value_scales)]
    kinds = []
    for name, given, array in (("key_scales", key_scales, numbers[0]), ("value_scales", value_scales, numbers[1])):
        if given not in (None, "row") if array is None else array.ndim != 1:
            raise ValueError(f"{name}: {given!r}, expected None, 'row', a number or one for each head")
        if numpy.ndim(given) > 0 and len(array) != heads:  # the library is given no lengths
            raise ValueError(f"{name}: {len(array)} numbers, expected {heads}, one of each head")
        kinds.append(given if isinstance(given, str) else "none" if array is None else "tensor" if numpy.ndim(given) == 0 else "head")
    if kinds == ["none", "none"]:
        return
    scales = CacheScales(Extension(EXTENSION_CACHE_SCALES), *(SCALINGS[kind] for kind in kinds),
                         *(None if array is None else array.ctypes.data for array in numbers))
    scales.__dict__["arrays"] = numbers  # which it points to
    extend(info, scales)


def contents(desc):
    """What tells a description from others: its bytes and those of its extensions, without the addresses."""
    extensions = [type(each).from_buffer_copy(each) for each in desc.__dict__.get("extensions", ())]
    if not extensions:
        return bytes(desc)
    plain = type(desc).from_buffer_copy(desc)
    plain.next = None
    for each in extensions:
        each.extension.next = None
    return b"".join(bytes(each) for each in (plain, *extensions))


_PROTOTYPES = {  # name: (result, arguments)
    "vkattn_last_error": (c_char_p, ()),
    "vkattn_version": (c_char_p, ()),
    "vkattn_trait_text": (c_char_p, (c_int,)),
    "vkattn_tensor_bytes": (c_uint64, (POINTER(Tensor),)),
    "vkattn_enumerate_types": (c_int, (POINTER(c_uint32), POINTER(TypeInfo), c_size_t)),
    "vkattn_enumerate_devices": (c_int, (c_void_p, POINTER(c_uint32), POINTER(DeviceFacts), c_size_t)),
    "vkattn_context_create": (c_int, (POINTER(ContextInfo), POINTER(c_void_p))),
    "vkattn_context_destroy": (None, (c_void_p,)),
    "vkattn_withdraw_trials": (None, ()),
    "vkattn_context_facts": (c_int, (c_void_p, POINTER(DeviceFacts), c_size_t)),
    "vkattn_context_tune_budget": (c_int, (c_void_p, POINTER(TuneBudgetReport), c_size_t)),
    "vkattn_context_save": (c_int, (c_void_p, POINTER(c_uint64), c_void_p)),
    "vkattn_self_test": (c_int, (c_void_p, POINTER(c_uint32), POINTER(Check), c_size_t)),
    "vkattn_tune": (c_int, (c_void_p, POINTER(AttentionDesc), POINTER(c_uint32), POINTER(Candidate), c_size_t)),
    "vkattn_tune_linear": (c_int, (c_void_p, POINTER(LinearDesc), POINTER(c_uint32), POINTER(Candidate), c_size_t)),
    "vkattn_buffer_create": (c_int, (c_void_p, c_uint64, POINTER(c_void_p))),
    "vkattn_buffer_destroy": (None, (c_void_p,)),
    "vkattn_buffer_handle": (c_uint64, (c_void_p,)),
    "vkattn_buffer_write": (c_int, (c_void_p, c_uint64, c_void_p, c_uint64)),
    "vkattn_buffer_read": (c_int, (c_void_p, c_uint64, c_void_p, c_uint64)),
    "vkattn_attention_plan": (c_int, (c_void_p, POINTER(AttentionDesc), POINTER(c_void_p))),
    "vkattn_merge_plan": (c_int, (c_void_p, POINTER(MergeDesc), POINTER(c_void_p))),
    "vkattn_linear_plan": (c_int, (c_void_p, POINTER(LinearDesc), POINTER(c_void_p))),
    "vkattn_norm_plan": (c_int, (c_void_p, POINTER(NormDesc), POINTER(c_void_p))),
    "vkattn_embedding_plan": (c_int, (c_void_p, POINTER(EmbeddingDesc), POINTER(c_void_p))),
    "vkattn_top_k_plan": (c_int, (c_void_p, POINTER(TopKDesc), POINTER(c_void_p))),
    "vkattn_index_plan": (c_int, (c_void_p, POINTER(IndexDesc), POINTER(c_void_p))),
    "vkattn_linear_attention_plan": (c_int, (c_void_p, POINTER(LinearAttentionDesc), POINTER(c_void_p))),
    "vkattn_causal_conv1d_plan": (c_int, (c_void_p, POINTER(CausalConv1dDesc), POINTER(c_void_p))),
    "vkattn_gated_rms_norm_plan": (c_int, (c_void_p, POINTER(GatedRmsNormDesc), POINTER(c_void_p))),
    "vkattn_argmax_plan": (c_int, (c_void_p, POINTER(ArgmaxDesc), POINTER(c_void_p))),
    "vkattn_plan_report": (None, (c_void_p, POINTER(Report), c_size_t)),
    "vkattn_plan_requirements": (None, (c_void_p, POINTER(Requirements), c_size_t)),
    "vkattn_run": (c_int, (c_void_p, POINTER(Binding), c_uint32, POINTER(c_double))),
    "vkattn_plan_destroy": (None, (c_void_p,)),
    "vkattn_program_create": (c_int, (c_void_p, POINTER(ProgramInfo), POINTER(c_void_p))),
    "vkattn_program_get_report": (None, (c_void_p, POINTER(ProgramReport), c_size_t)),
    "vkattn_program_run": (c_int, (c_void_p, POINTER(c_double))),
    "vkattn_program_destroy": (None, (c_void_p,)),
    "vkattn_layer_create": (c_int, (c_void_p, POINTER(LayerConfig), POINTER(Weight), c_uint32, POINTER(c_void_p))),
    "vkattn_layer_destroy": (None, (c_void_p,)),
    "vkattn_layer_plan": (c_int, (c_void_p, POINTER(LayerCall), POINTER(c_void_p))),
    "vkattn_layer_config_from_name": (c_int, (c_char_p, c_uint32, c_uint32, POINTER(LayerConfig))),
    "vkattn_cache_create": (c_int, (c_void_p, POINTER(CacheInfo), POINTER(c_void_p))),
    "vkattn_cache_destroy": (None, (c_void_p,)),
    "vkattn_cache_bytes": (c_uint64, (c_void_p,)),
    "vkattn_cache_lengths": (c_int, (c_void_p, POINTER(c_uint32), POINTER(c_uint32))),
    "vkattn_cache_rewind": (c_int, (c_void_p, c_uint32, c_uint32)),
    "vkattn_cache_copy_sequence": (c_int, (c_void_p, c_uint32, c_void_p, c_uint32)),
    "vkattn_cache_free_pages": (c_uint32, (c_void_p,)),
    "vkattn_cache_reserve": (c_int, (c_void_p, c_uint32, POINTER(c_uint32))),
    "vkattn_cache_share_prefix": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32)),
    "vkattn_cache_read": (c_int, (c_void_p, c_int, c_uint32, POINTER(c_float), c_uint64)),
    "vkattn_estimate": (c_int, (POINTER(LayerConfig), POINTER(EstimateInfo), POINTER(EstimateResult), c_size_t)),
    "vkattn_kv_append_plan": (c_int, (c_void_p, POINTER(KvAppendDesc), POINTER(c_void_p))),
    "vkattn_variant_destroy": (None, (c_void_p,)),
    "vkattn_block_mask_plan": (c_int, (c_void_p, POINTER(AttentionDesc), POINTER(c_void_p))),
    "vkattn_prewarm": (c_int, (c_void_p, POINTER(AttentionDesc), c_uint32, c_uint32)),
}


_loaded = []  # the name of the library vkattn in use


def _candidates():
    """Where the shared library may be: VKATTN_LIBRARY, beside this package, installed."""
    if os.environ.get("VKATTN_LIBRARY"):
        yield os.environ["VKATTN_LIBRARY"]
        return
    here = pathlib.Path(__file__).parent
    for pattern in ("libvkattn.so*", "libvkattn*.dylib", "vkattn.dll"):
        yield from sorted(str(path) for path in here.glob(pattern))
    found = ctypes.util.find_library("vkattn")
    if found:
        yield found


def _jit_names():
    """Where vkattn_jit may be: VKATTN_JIT_LIBRARY, else where vkattn was found. Of another place it would be of another version."""
    if os.environ.get("VKATTN_JIT_LIBRARY"):
        return [os.environ["VKATTN_JIT_LIBRARY"]]
    if not os.path.dirname(_loaded[0]):  # installed
        return [ctypes.util.find_library("vkattn_jit")]
    return [str(path) for pattern in ("libvkattn_jit.so*", "libvkattn_jit*.dylib", "vkattn_jit.dll")
            for path in sorted(pathlib.Path(_loaded[0]).parent.glob(pattern))]


def load_jit():
    """The library vkattn_jit; an ImportError that says what to install where there is none, or that it brings another vkattn, which
    knows nothing of this one's contexts."""
    library, tried = load(), []
    for name in filter(None, _jit_names()):
        try:
            jit = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        if not hasattr(jit, "vkattn_jit_variant_create"):
            tried.append(f"{name} has no vkattn_jit_variant_create")
            continue
        # What it needs is looked through, too, but on Windows, which loads a library of a name once.
        version = getattr(jit, "vkattn_version", library.vkattn_version)
        if ctypes.cast(version, c_void_p).value != ctypes.cast(library.vkattn_version, c_void_p).value:
            tried.append(f"{name} brings another vkattn than {library._name}, expected the vkattn_jit that was built with it")
            continue
        jit.vkattn_jit_variant_create.restype = c_int
        jit.vkattn_jit_variant_create.argtypes = (c_void_p, POINTER(JitInfo), POINTER(c_void_p))
        jit.vkattn_jit_last_error.restype = c_char_p
        return jit
    return ImportError("functions: the shared library vkattn_jit, which compiles them, cannot be loaded (" +
                       ("; ".join(tried) or "none found") + "), expected it beside vkattn, or named by VKATTN_JIT_LIBRARY. It is built "
                       "where glslang's headers are: Debian: apt install glslang-dev, then pip install again")


def load():
    tried = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        lacking = [function for function in _PROTOTYPES if not hasattr(library, function)]
        if lacking:
            tried.append(f"{name} has no {lacking[0]}, expected the vkattn of this package")
            continue
        for function, (result, arguments) in _PROTOTYPES.items():
            getattr(library, function).restype = result
            getattr(library, function).argtypes = arguments
        _loaded[:] = [name]
        return library
    raise ImportError("the shared library vkattn cannot be loaded (" + ("; ".join(tried) or "none found") +
                      "), expected it installed, beside this package, or named by VKATTN_LIBRARY")
