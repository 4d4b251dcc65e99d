# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, one for each kind of cache: a config.json is all there is."""

import json
import os

BASE = {"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "torch_dtype": "bfloat16", "max_position_embeddings": 4096, "bos_token_id": 1,
        "eos_token_id": 2}
CONFIGS = {
    "full": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rms_norm_eps": 1e-5,
             "hidden_act": "silu", "num_hidden_layers": 2, "tie_word_embeddings": False},
    "window": {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
               "sliding_window": 64, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
               "layer_types": ["sliding_attention", "full_attention"] * 2,
               "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 64,
               "rope_local_base_freq": 1e4, "attn_logit_softcapping": None,
               "final_logit_softcapping": None},
    "conv": {"architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "norm_eps": 1e-5,
             "conv_L_cache": 3, "conv_dim": 256, "conv_dim_out": 256, "conv_bias": False,
             "block_dim": 256, "block_ff_dim": 512, "block_multiple_of": 256,
             "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False,
             "rope_theta": 1e6, "layer_types": ["conv", "full_attention"] * 2},
}
LONGEST = 1024  # tokens of a request
# The pool is so small that blocks are evicted and requests preempted.
OPTIONS = {"load_format": "dummy", "skip_tokenizer_init": True, "max_model_len": LONGEST,
           "num_gpu_blocks_override": 48, "max_num_seqs": 16,
           "enforce_eager": True, "dtype": "bfloat16", "seed": 1, "max_num_batched_tokens": 512,
           "enable_prefix_caching": True}
OF_MODEL = {"window": {"num_gpu_blocks_override": 96},
            "conv": {"num_gpu_blocks_override": 96, "mamba_cache_mode": "align"}}
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3,
          "prompt_lookup_min": 2}
OF_MODE = {"sync": {}, "async": {"async_scheduling": True},
           "drafts": {"speculative_config": DRAFTS}}


def options(model, mode, folder, block_size):
    """Writes the model to a folder.

    @return what vLLM's LLM is given
    """
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(BASE | CONFIGS[model], file)
    own = {"model": folder, "block_size": block_size}
    return OPTIONS | own | OF_MODEL.get(model, {}) | OF_MODE[mode]
