// SPDX-License-Identifier: MIT
#include "binding.h"
#include "core.h"
#include "element_types.h"

NB_MODULE(_core, module) {
  using namespace lathe_python;
  nb::set_leak_warnings(false);
  api = lathe_get_api(LATHE_API_VERSION);
  if (api == nullptr) throw nb::import_error("liblathe is older than this package");
  import_numpy();
  module.attr("version") = to_str(api->version_text());
  add_arrays(module);
  add_programs(module);
  add_sessions(module);
  add_bindings(module);
  add_tokenizers(module);
  add_models(module);
  add_generators(module);
  add_commands(module);
  add_modules(module);
  add_custom_ops(module);
  add_dlpack(module);
  add_device_tensors(module);
}
