// The type of products' operands, as instructions name it, alone and in pairs, and a one of it: fp16, or with BF16
// bf16, whose range is that of fp32.
#pragma once
#if BF16
#define HALF_TYPE "bf16"
#define HALF_PAIR "bf16x2"
#define HALF_ONE 0x3f80
#else
#define HALF_TYPE "f16"
#define HALF_PAIR "f16x2"
#define HALF_ONE 0x3c00
#endif
