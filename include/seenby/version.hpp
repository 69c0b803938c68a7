#pragma once
// SPDX-License-Identifier: MIT
// The library's version, for the preprocessor and for people.

#define SEENBY_VERSION_MAJOR 0
#define SEENBY_VERSION_MINOR 2
#define SEENBY_VERSION_PATCH 0
#define SEENBY_VERSION "0.2.0"
