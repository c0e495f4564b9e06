// Device-only functions of a 16-bit floating type, by way of float.  Included once for each type.
#define EMU_UNARY(name, expression)                                                                      \
  EMU_INLINE EMU_HALF h##name(EMU_HALF a) { float x = EMU_TO_FLOAT(a); return EMU_FROM_FLOAT(expression); } \
  EMU_INLINE EMU_HALF2 h2##name(EMU_HALF2 a) { return EMU_PAIR(h##name(EMU_LOW(a)), h##name(EMU_HIGH(a))); }
EMU_UNARY(exp, expf(x))
EMU_UNARY(exp2, exp2f(x))
EMU_UNARY(exp10, exp10f(x))
EMU_UNARY(log, logf(x))
EMU_UNARY(log2, log2f(x))
EMU_UNARY(log10, log10f(x))
EMU_UNARY(sqrt, sqrtf(x))
EMU_UNARY(rsqrt, rsqrtf(x))
EMU_UNARY(rcp, 1.0f / x)
EMU_UNARY(sin, sinf(x))
EMU_UNARY(cos, cosf(x))
EMU_UNARY(tanh, tanhf(x))
EMU_UNARY(ceil, ceilf(x))
EMU_UNARY(floor, floorf(x))
EMU_UNARY(rint, rintf(x))
EMU_UNARY(trunc, truncf(x))
#undef EMU_UNARY

// What a device atomic on 16 bits rounds: the sum, not the running total.
static EMU_PLAIN EMU_HALF atomicAdd(EMU_HALF *address, EMU_HALF value) {
  emu.access(address, sizeof *address, EMU_ATOMIC, __builtin_return_address(0));
  EMU_HALF old = *address;
  *address = EMU_FROM_FLOAT(EMU_TO_FLOAT(old) + EMU_TO_FLOAT(value));
  return old;
}
static EMU_PLAIN EMU_HALF2 atomicAdd(EMU_HALF2 *address, EMU_HALF2 value) {
  emu.access(address, sizeof *address, EMU_ATOMIC, __builtin_return_address(0));
  EMU_HALF2 old = *address;
  *address = EMU_PAIR(EMU_FROM_FLOAT(EMU_TO_FLOAT(EMU_LOW(old)) + EMU_TO_FLOAT(EMU_LOW(value))),
                      EMU_FROM_FLOAT(EMU_TO_FLOAT(EMU_HIGH(old)) + EMU_TO_FLOAT(EMU_HIGH(value))));
  return old;
}
#undef EMU_HALF
#undef EMU_HALF2
#undef EMU_TO_FLOAT
#undef EMU_FROM_FLOAT
#undef EMU_PAIR
#undef EMU_LOW
#undef EMU_HIGH
