// SPDX-License-Identifier: MIT
// The two functions that ONNX Runtime looks up in the library.
#include <algorithm>

#include "ort_plugin/factory.h"

#define LATHE_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

using lathe::ort_plugin::Factory;
using lathe::ort_plugin::Host;

LATHE_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name,
                                                 const OrtApiBase* base,
                                                 const OrtLogger* /*logger*/,
                                                 OrtEpFactory** factories, size_t most,
                                                 size_t* count) {
  *count = 0;
  try {
    const auto host = std::make_shared<const Host>(*base);
    return host->guarded([&] {
      for (const std::string& name : lathe::ort_plugin::ep_names(registered_name)) {
        if (*count == most) break;
        factories[*count] = new Factory(host, name);
        ++*count;
      }
    });
  } catch (const std::exception& error) {
    // The first version of the interface has status objects.
    return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED, error.what());
  }
}

LATHE_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  static_cast<Factory*>(factory)->release();
  return nullptr;
}
