// SPDX-License-Identifier: MIT
// Encoders of texts: BERT and models with its tensors.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

const RegisterArchitecture kBert{{.type = "bert",
                                  .class_name = "BertModel",
                                  .gguf = "bert",
                                  .renames = {{"bert.", ""},
                                              {"LayerNorm.gamma", "LayerNorm.weight"},
                                              {"LayerNorm.beta", "LayerNorm.bias"}},
                                  .encoder = true}};
const RegisterArchitecture kRoberta{{.type = "roberta",
                                     .class_name = "RobertaModel",
                                     .renames = {{"roberta.", ""}},
                                     .encoder = true}};
const RegisterArchitecture kXlmRoberta{{.type = "xlm-roberta",
                                        .class_name = "XLMRobertaModel",
                                        .renames = {{"roberta.", ""}},
                                        .encoder = true}};
const RegisterArchitecture kDistilBert{
    {.type = "distilbert",
     .class_name = "DistilBertModel",
     .renames = {{"distilbert.", ""},
                 {"transformer.layer.", "encoder.layer."},
                 {"attention.q_lin.", "attention.self.query."},
                 {"attention.k_lin.", "attention.self.key."},
                 {"attention.v_lin.", "attention.self.value."},
                 {"attention.out_lin.", "attention.output.dense."},
                 {"sa_layer_norm.", "attention.output.LayerNorm."},
                 {"ffn.lin1.", "intermediate.dense."},
                 {"ffn.lin2.", "output.dense."},
                 {"output_layer_norm.", "output.LayerNorm."}},
     .encoder = true}};

}  // namespace
}  // namespace lathe::checkpoint
