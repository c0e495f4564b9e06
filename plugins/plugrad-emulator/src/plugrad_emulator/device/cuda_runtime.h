// The emulator's own header already provides what a kernel needs of this one.
#pragma once
#include "cuda_emulated.hpp"
