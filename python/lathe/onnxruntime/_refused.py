# SPDX-License-Identifier: MIT
"""Classes of ONNX Runtime that exist by name and refuse their use."""

from __future__ import annotations

from lathe._features import refused_class

_MODULE = "lathe.onnxruntime"

AdapterFormat = refused_class(
    "AdapterFormat", "adapters",
    "export_adapter get_adapter_version get_format_version get_model_version get_parameters "
    "read_adapter set_adapter_version set_model_version set_parameters", _MODULE)
LoraAdapter = refused_class("LoraAdapter", "adapters", "Load", _MODULE)
ModelPackage = refused_class(
    "ModelPackage", "model packages",
    "add_shared_asset close commit compute_directory_hash get_component_json get_info "
    "get_variant_json open prune remove_component remove_shared_asset remove_variant "
    "remove_variant_executor_info resolve_asset_uri resolve_string_ref "
    "set_additional_metadata_json set_component_external set_component_inline set_layout "
    "set_metadata set_variant set_variant_executor_info_external "
    "set_variant_executor_info_inline", _MODULE)
ModelPackageComponentContext = refused_class(
    "ModelPackageComponentContext", "model packages",
    "create_session get_selected_variant_folder_path get_selected_variant_name", _MODULE)
ModelPackageContext = refused_class(
    "ModelPackageContext", "model packages",
    "get_component_count get_component_names get_schema_version get_variant_count "
    "get_variant_ep_name get_variant_names resolve_string_ref select_component", _MODULE)
ModelPackageOptions = refused_class("ModelPackageOptions", "model packages", "", _MODULE)
OrtEpContextData = refused_class("OrtEpContextData", "EP contexts", "read size", _MODULE)
OrtEpContextDataBuffer = refused_class(
    "OrtEpContextDataBuffer", "EP contexts", "allocate is_allocated max_size size write", _MODULE)
