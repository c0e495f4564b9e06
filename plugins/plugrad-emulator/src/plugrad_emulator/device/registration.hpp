// A kernel's entry in its image's table: the argument layout comes from its C++ type.
#pragma once

template <class Signature>
struct EmuSignature;

template <class... A>
struct EmuSignature<void(A...)> {
  static constexpr unsigned n = sizeof...(A);
  static constexpr EmuParameter parameters[n + 1] = {
      {(unsigned)sizeof(A), (unsigned)alignof(A), std::is_pointer<A>::value}..., {0, 0, 0}};

  template <void (*Kernel)(A...), size_t... I>
  __attribute__((no_sanitize("thread"))) static void call(void **arguments, std::index_sequence<I...>) {
    Kernel(*(std::remove_reference_t<A> *)arguments[I]...);
  }
  template <void (*Kernel)(A...)>
  __attribute__((no_sanitize("thread"))) static void invoke(void **arguments) {
    call<Kernel>(arguments, std::make_index_sequence<n>());
  }
};

#define EMU_KERNEL(kernel, label, max_threads)                                                     \
  {(const void *)&kernel, label, EmuSignature<decltype(kernel)>::n, (unsigned)(max_threads),       \
   EmuSignature<decltype(kernel)>::parameters, &EmuSignature<decltype(kernel)>::invoke<&kernel>}
