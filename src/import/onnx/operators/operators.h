// SPDX-License-Identifier: MIT
// Imports of operators that need more than one instruction of their name; operator_table.cpp maps
// operators to them.
#pragma once

#include "import/onnx/node_import.h"

namespace lathe::onnx {

// attributes_as_inputs.cpp: attributes in old opsets that are operands of the op.
void import_axes_attribute(NodeImport& c);
void import_dft_17(NodeImport& c);
void import_roi_align_10(NodeImport& c);
void import_squeeze(NodeImport& c);
void import_clip_1(NodeImport& c);
void import_pad_1(NodeImport& c);
void import_reshape_1(NodeImport& c);
void import_slice_1(NodeImport& c);
void import_split_1(NodeImport& c);
void import_tile_1(NodeImport& c);
void import_top_k_1(NodeImport& c);

// elementwise.cpp
void import_legacy_broadcast(NodeImport& c);
void import_legacy_gemm(NodeImport& c);
void import_legacy_prelu(NodeImport& c);
void import_cast_1(NodeImport& c);
void import_cast_like(NodeImport& c);
void import_where(NodeImport& c);
void import_equal(NodeImport& c);  // also of strings

void import_affine(NodeImport& c);
void import_image_scaler(NodeImport& c);
void import_scaled(NodeImport& c);

// constants.cpp
void import_constant(NodeImport& c);
void import_constant_of_shape(NodeImport& c);
void import_identity(NodeImport& c);

// convolution.cpp
void check_kernel_shape(NodeImport& c, int weights);
void import_conv(NodeImport& c);
void import_max_pool_1(NodeImport& c);
void import_qlinear_conv(NodeImport& c);

// flatten.cpp
void import_flatten(NodeImport& c);
void import_flattened(NodeImport& c);  // softmax, log_softmax and hardmax before opset 13
// Applies the op to the axes of x from `axis` on, as one axis.
Value* normalize_from(NodeImport& c, std::string_view op, Value* x, int64_t axis);

// normalization.cpp
void import_batch_normalization_1(NodeImport& c);
void import_batch_normalization(NodeImport& c);
void import_layer_normalization_1(NodeImport& c);
void import_mean_variance_normalization(NodeImport& c);
void import_dropout(NodeImport& c);
void import_group_normalization_18(NodeImport& c);

// resize.cpp
void import_resize(NodeImport& c);
void import_resize_10(NodeImport& c);

// control_flow.cpp
void import_if(NodeImport& c);
void import_loop(NodeImport& c);
void import_scan(NodeImport& c);
void import_scan_8(NodeImport& c);
void import_sequence_map(NodeImport& c);

// random.cpp
void import_bernoulli(NodeImport& c);
void import_multinomial(NodeImport& c);
void import_random(NodeImport& c);

// losses.cpp
void import_negative_log_likelihood_loss(NodeImport& c);
void import_softmax_cross_entropy_loss(NodeImport& c);

// contrib.cpp: domain com.microsoft
void import_bias_add(NodeImport& c);
void import_bias_gelu(NodeImport& c);
void import_bias_split_gelu(NodeImport& c);
void import_embed_layer_normalization(NodeImport& c);
void import_gemm_fast_gelu(NodeImport& c);
void import_fast_gelu(NodeImport& c);
void import_quick_gelu(NodeImport& c);
void import_fused_conv(NodeImport& c);
void import_nhwc_conv(NodeImport& c);
void import_nhwc_max_pool(NodeImport& c);
void import_fused_gemm(NodeImport& c);
void import_fused_matmul(NodeImport& c);
void import_fused_matmul_activation(NodeImport& c);
void import_matmul_n_bits(NodeImport& c);
void import_qembed_layer_normalization(NodeImport& c);
void import_microsoft_rotary_embedding(NodeImport& c);

// attention.cpp: domain com.microsoft
void import_microsoft_attention(NodeImport& c);
void import_qattention(NodeImport& c);
void import_decoder_masked_self_attention(NodeImport& c);
void import_decoder_masked_multi_head_attention(NodeImport& c);
void import_group_query_attention(NodeImport& c);
void import_paged_attention(NodeImport& c);

// preview.cpp: domains ai.onnx.preview and ai.onnx.preview.training
void import_flex_attention(NodeImport& c);
void import_adagrad(NodeImport& c);
void import_adam(NodeImport& c);
void import_momentum(NodeImport& c);

// biases.cpp: domain com.microsoft
void import_bias_softmax(NodeImport& c);
void import_gated_relative_position_bias(NodeImport& c);
void import_branchwise_rms_norm(NodeImport& c);
void import_engram_gate(NodeImport& c);
void import_hyper_connection_post_mix(NodeImport& c);
void import_hyper_connection_pre_mix(NodeImport& c);
void import_gemma_rotary_embedding(NodeImport& c);
void import_group_norm(NodeImport& c);
void import_relative_position_bias(NodeImport& c);
void import_skip_group_norm(NodeImport& c);

// quantized_weights.cpp: domain com.microsoft
void import_dynamic_quantize_lstm(NodeImport& c);
void import_matmul_block_quantized_fp4_weight(NodeImport& c);
void import_matmul_block_quantized_fp8_weight(NodeImport& c);
void import_matmul_bnb4(NodeImport& c);
void import_matmul_n_bits_mlp(NodeImport& c);
void import_matmul_n_bits_qkv(NodeImport& c);

// tensors.cpp: domain com.microsoft
void import_bias_dropout(NodeImport& c);
void import_cdist(NodeImport& c);
void import_complex_mul(NodeImport& c);
void import_complex_mul_conj(NodeImport& c);
void import_conv_transpose_with_dynamic_pads(NodeImport& c);
void import_expand_dims(NodeImport& c);
void import_irfft(NodeImport& c);
void import_is_all_finite(NodeImport& c);
void import_max_pool_with_mask(NodeImport& c);
void import_microsoft_pad(NodeImport& c);
void import_microsoft_range(NodeImport& c);
void import_microsoft_unique(NodeImport& c);
void import_n_gram_repeat_block(NodeImport& c);
// Scores [batch, words] with -inf for each word that would repeat an n-gram of the ids
// [batch, tokens].
Value* block_repeated_ngrams(Builder& b, Value* ids, Value* scores, int64_t n);
void import_rfft(NodeImport& c);
void import_scaled_silu(NodeImport& c);
void import_tokenizer(NodeImport& c);
void import_torch_embedding(NodeImport& c);
void import_unfold_tensor(NodeImport& c);

// beam_search.cpp: domain com.microsoft
void import_beam_search(NodeImport& c);
void import_greedy_search(NodeImport& c);

// packing.cpp: domain com.microsoft
void import_packed_attention(NodeImport& c);
void import_packed_multi_head_attention(NodeImport& c);
void import_remove_padding(NodeImport& c);
void import_restore_padding(NodeImport& c);

// decoders.cpp: domain com.microsoft, and some of ONNX
void import_causal_conv_with_state(NodeImport& c);
void import_gated_add(NodeImport& c);
void import_linear_attention(NodeImport& c);
void import_mrotary_embedding(NodeImport& c);
void import_qmoe(NodeImport& c);

// quantized.cpp: domain com.microsoft
void import_qlinear_add(NodeImport& c);
void import_qlinear_mul(NodeImport& c);
void import_qlinear_sigmoid(NodeImport& c);
void import_qlinear_leaky_relu(NodeImport& c);
void import_qlinear_softmax(NodeImport& c);
void import_qlinear_reduce_mean(NodeImport& c);
void import_qlinear_average_pool(NodeImport& c);
void import_qlinear_global_average_pool(NodeImport& c);
void import_qlinear_concat(NodeImport& c);
void import_qlinear_where(NodeImport& c);
void import_dynamic_quantize_matmul(NodeImport& c);
void import_matmul_integer_to_float(NodeImport& c);
void import_matmul_integer_16(NodeImport& c);
void import_microsoft_qlinear_conv(NodeImport& c);
void import_mul_integer(NodeImport& c);
void import_qgemm(NodeImport& c);
void import_reduce_sum_integer(NodeImport& c);

// ml_features.cpp: domain ai.onnx.ml
void import_array_feature_extractor(NodeImport& c);
void import_binarizer(NodeImport& c);
void import_feature_vectorizer(NodeImport& c);
void import_imputer(NodeImport& c);
void import_normalizer(NodeImport& c);
void import_one_hot_encoder(NodeImport& c);
void import_scaler(NodeImport& c);

// ml_maps.cpp: domain ai.onnx.ml
void import_cast_map(NodeImport& c);
void import_category_mapper(NodeImport& c);
void import_dict_vectorizer(NodeImport& c);
void import_label_encoder_1(NodeImport& c);
void import_label_encoder(NodeImport& c);
void import_zip_map(NodeImport& c);

// ml_linear.cpp: domain ai.onnx.ml
void import_linear_classifier(NodeImport& c);
void import_linear_regressor(NodeImport& c);
void import_svm_classifier(NodeImport& c);
void import_svm_regressor(NodeImport& c);

// ml_trees.cpp: domain ai.onnx.ml
void import_tree_ensemble(NodeImport& c);
void import_tree_ensemble_classifier(NodeImport& c);
void import_tree_ensemble_regressor(NodeImport& c);

}  // namespace lathe::onnx
