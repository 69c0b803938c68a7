#pragma once
// SPDX-License-Identifier: MIT
// What each of the two units answers: how many of 10,000 absent items its filter calls present, by single and batch
// look-ups, with every present item checked on the way (-1 when one is missing).

int plain_unit();
int avx2_unit();
