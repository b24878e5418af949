// SPDX-License-Identifier: MIT
// Precompiled for the test programs.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "cmake/precompiled.h"
