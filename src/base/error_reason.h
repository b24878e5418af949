// SPDX-License-Identifier: MIT
// Stable words for the reasons of errors, which callers of the C interface may compare.
#pragma once

namespace lathe::reason {

inline constexpr char kMissingFile[] = "missing_file";    // a file does not exist
inline constexpr char kNotProtobuf[] = "not_protobuf";    // bytes are not the format's
inline constexpr char kBadGraph[] = "bad_graph";          // a graph contradicts itself
inline constexpr char kMissingInput[] = "missing_input";  // a run lacks an input
inline constexpr char kInputCount[] = "input_count";      // a run has too few or too many values
inline constexpr char kRank[] = "rank";                   // a value has another rank
inline constexpr char kShape[] = "shape";                 // a value has another size
inline constexpr char kType[] = "type";                   // a value has another type
inline constexpr char kUnknownName[] = "unknown_name";    // nothing bears a name
inline constexpr char kBusy[] = "busy";                   // a session is in use
inline constexpr char kWrongDevice[] = "wrong_device";    // a value or stream of another device
inline constexpr char kCallback[] = "callback";           // the caller's callback failed

}  // namespace lathe::reason
