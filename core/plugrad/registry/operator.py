"""An operator as it was declared: its reference function, its rule, its samples, its promises.

The graph's `Op` calls it; this class holds what the registry, the battery and people ask about it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from plugrad.graph.op import Kernel
from plugrad.graph.tensor import Tensor
from plugrad.registry.cuda import caller
from plugrad.registry.device_backward import FormulaBackward, read_backward
from plugrad.registry.errors import DeclarationError
from plugrad.registry.on_device import OnDevice
from plugrad.registry.parameters import read_parameters
from plugrad.registry.schema import Schema, check_name, did_you_mean, one_of

__all__ = ["Operator"]

F = TypeVar("F", bound=Callable[..., Any])


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an operator by its name."""
    from plugrad import registry

    return registry.get(name)(*args, **kwargs)


class Operator(OnDevice):
    """A differentiable function of Tensors, made by `plugrad.operator` or `plugrad.elementwise`.

    Calling it takes the tensors by position or name, then the constants by name or position.

    Attributes
    ----------
    name : str
        ``"namespace::name"``.
    schema : Schema
        Inputs, constants and outputs.
    function : callable
        The reference: arrays to arrays.
    rule : callable or None
        Given to `backward`: Tensors to Tensors.
    rule_kernel : callable or None
        Given to `backward_kernel`: the same on arrays.
    jvp_rule : callable or None
        Given to `jvp`: how tangents go forward.
    sampler : callable or None
        Given to `samples`.
    surrogate : callable or None
        The function of arrays whose derivative the rule is, where that is not `function`.
    kinks : dict or callable or None
        Where the derivative does not exist.
    nondifferentiable : bool
        Whether no output has a gradient.
    exempt : frozenset of str
        The checks that do not apply, by name.
    once_differentiable : bool
        Whether differentiating its gradient is an error.
    order : "any" or 1
        How often it can be differentiated.
    dtypes : str or dict
        As declared; ``schema.dtypes`` has one class per input.
    cuda : object
        An expression, the name of a kernel, a callable or `via_host`; None: a view's own, or no CUDA.
    cuda_backward : object
        What `backward_kernel` was given for CUDA.
    expression : str or None
        What it was made from by `plugrad.elementwise`.
    random, method : bool
    module, owner, replaces : str or None
    fingerprint : bytes
    variants : dict
        Keywords that other operators serve, and their defaults.
    """

    rule_arguments: tuple[tuple[str, int], ...] = ()
    _kernel_plan: tuple[tuple[str, int], ...] = ()
    _follows_cpu: bool = False
    rule_kernel: Callable[..., Any] | None = None
    jvp_rule: Callable[..., Any] | None = None
    jvp_plan: tuple[tuple[str, int], ...] = ()
    surrogate: Callable[..., Any] | None = None
    dtypes: Any = "floating"
    variants: Mapping[str, Any] = {}

    def __init__(
        self,
        name: str,
        schema: Schema,
        function: Callable[..., Any],
        *,
        module: str,
        cpu: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name)
        self.schema = schema
        self.nondifferentiable = all(schema.nondifferentiable)
        self._describe(function, module)
        self._define(schema)
        self._set_kernel("cpu", function if cpu is None else cpu)

    @property
    def order(self) -> str | int:
        return 1 if self.once_differentiable else "any"

    # ------------------------------------------------------------------------------------- the rule

    def backward(
        self, rule: F | None = None, *, when: Mapping[str, str | tuple[str, ...]] | None = None
    ) -> Any:
        """Declare the rule that gives the gradients; use as a decorator.

        Parameters
        ----------
        rule : callable
            ``rule(grad, …)`` takes Tensors and returns Tensors: a gradient or None for each input
            in order (a single input: the gradient itself). After ``grad`` it names what it needs:
            inputs, outputs, constants, ``needs`` (``needs.x``: whether x wants a gradient) and
            ``like`` (``like.x``: shape, dtype and device of x). Exactly the tensors that it names
            are saved. With several outputs ``grad`` is a tuple.
        when : mapping, optional
            ``{"x": "y"}`` saves x only if y wants a gradient (several names: any of them), as in a
            product, where each factor matters to the other's gradient alone. The rule then gets None.

        Returns
        -------
        callable
            `rule` itself.

        Raises
        ------
        DeclarationError
            It names something unknown, or there is a rule already, or nothing to differentiate.
        """
        if rule is None:
            return partial(self.backward, when=when)
        self._check_rule("a rule", "backward", self.rule)
        self.rule_arguments = self._plan("the rule", rule)
        self._set_rule(rule, self.rule_arguments)
        if when:
            self._save_when(self._conditions(when))
        self.rule = rule
        return rule

    def _conditions(self, when: Mapping[str, str | tuple[str, ...]]) -> dict[int, tuple[int, ...]]:
        """``when=`` by index; outputs count down from -1, as in the graph."""
        schema = self.schema
        codes = {name: i for i, name in enumerate(schema.inputs)}
        codes |= {name: -1 - i for i, name in enumerate(schema.outputs)}
        found = {}
        for name, inputs in when.items():
            wanted = (inputs,) if isinstance(inputs, str) else tuple(inputs)
            for each in (name, *wanted):
                if each not in codes or (each != name and codes[each] < 0):
                    raise DeclarationError(
                        f"{self.name}: when= names {each!r}, which is no input ({one_of(schema.inputs)})"
                        f"{did_you_mean(each, codes)}"
                    )
            found[codes[name]] = tuple(codes[each] for each in wanted)
        return found

    def backward_kernel(self, kernel: F | None = None, *, cuda: Any = None) -> Any:
        """Declare the rule on arrays, used when nothing is recorded; use as a decorator.

        It names what the rule may name and returns what the rule returns, as arrays. The battery
        compares the two.

        Parameters
        ----------
        kernel : callable
            For the CPU.
        cuda : str, dict or callable, optional
            For CUDA: a C expression of the gradient (one input), ``{input: expression}``, the name of a
            kernel (``"module:attribute"``, a leading dot relative to the operator's package), or a callable.
            Expressions are for elementwise operators. They use ``grad``, inputs, outputs and constants by name;
            with several outputs, ``grad_<output>`` for each that has a gradient. What they name is saved.
            Only gradients that are needed are computed. A kernel takes arrays as the CPU's backward kernel does,
            which is declared before it or under it or, where there is none, as the rule, declared before it.
            Without any, the rule runs on the device.

        Returns
        -------
        callable
            `kernel` itself; without it, a decorator for it, which need not be used.

        Raises
        ------
        DeclarationError
            As for `backward`; or `cuda` is none of these, or its text names something unknown.

        Examples
        --------
        >>> sigmoid.backward_kernel(cuda="grad * out * (1.0 - out)")
        >>> mul.backward_kernel(cuda={"input": "grad * other", "other": "grad * input"})
        """
        if cuda is not None:
            self._cuda_backward_kernel(cuda)
        if kernel is None:
            return self.backward_kernel
        self._check_rule("a backward kernel", "backward_kernel", self.rule_kernel)
        plan = self._plan("the backward kernel", kernel)
        self._set_backward_kernel(kernel, plan)
        self.rule_kernel, self._kernel_plan = kernel, plan
        if self._follows_cpu and self.cuda_backward is not None:
            self._set_backward_kernel(self.cuda_backward, plan, "cuda")
        return kernel

    def _cuda_backward_kernel(self, given: Any) -> None:
        self._check_rule("a backward kernel for CUDA", "backward_kernel", self.cuda_backward)
        if isinstance(given, FormulaBackward):
            found, plan = given, None
        else:
            found, plan = read_backward(self, given, caller(3))
        self.cuda_backward, self._follows_cpu = found, plan is None
        if plan is None:
            plan = self._kernel_plan or self.rule_arguments
            if not plan:
                raise DeclarationError(
                    f"{self.name}: a CUDA backward kernel takes what the CPU's, or the rule, takes; "
                    f"declare @{self.__name__}.backward before it"
                )
        self._set_backward_kernel(found, plan, "cuda")

    def variant(self, keyword: str, name: str, default: Any) -> None:
        """Let another operator, by its name, serve the calls that give a keyword which this one does not have.

        So an operator keeps its shortest way for the calls that give none. `default` is the keyword's value that
        makes the two the same.

        Raises
        ------
        DeclarationError
            The operator has a parameter of that name.
        """
        self._check_open("a variant")
        if keyword in (*self.schema.inputs, *self.schema.constants):
            raise DeclarationError(f"{self.name}: {keyword!r} is a parameter of its own")
        self._set_variant(keyword, partial(_call, check_name(name)))
        self.variants = {**self.variants, keyword: default}

    def jvp(self, rule: F) -> F:
        """Declare how tangents go forward; use as a decorator.

        Forward mode works without: the tangents then follow from the backward rule. A rule of its own
        is worth writing where it saves work, and needed by an operator that is once differentiable.

        Parameters
        ----------
        rule : callable
            ``rule(tangents, …)`` takes Tensors and returns the tangent of the output (None: zero), with
            several outputs a tuple of them. ``tangents.x`` is the tangent of the input x, or None where
            x has none; that of a list input is a tuple. After ``tangents`` it names what it needs:
            inputs, outputs, constants and ``like``. The battery compares it with numerical derivatives.

        Returns
        -------
        callable
            `rule` itself.

        Raises
        ------
        DeclarationError
            As for `backward`.
        """
        self._check_rule("a rule for tangents", "jvp", self.jvp_rule)
        self.jvp_plan = self._plan("the rule for tangents", rule, "tangents")
        self.jvp_rule = rule
        return rule

    def pushforward(
        self,
        inputs: list[Any],
        constants: tuple[Any, ...],
        outputs: list[Tensor],
        tangents: list[Tensor | None],
    ) -> list[Tensor | None]:
        """The tangents of the outputs of a call: see `plugrad.registry.pushforward`."""
        from plugrad.registry.pushforward import pushforward  # only forward mode needs it

        return pushforward(self, inputs, constants, outputs, tangents)

    def _check_rule(self, what: str, decorator: str, present: object) -> None:
        self._check_open(what)
        if self.nondifferentiable:
            raise DeclarationError(
                f"{self.name}: declared nondifferentiable=True, and yet {what} is given; one of them is wrong"
            )
        if not self.schema.inputs:
            raise DeclarationError(
                f"{self.name}: {what} has nothing to differentiate, the operator takes no tensor; "
                "declare nondifferentiable=True"
            )
        if present is not None:
            raise DeclarationError(
                f"{self.name}: {what} is given twice; the other is "
                f"{getattr(present, '__module__', '?')}.{getattr(present, '__qualname__', present)}. "
                f"Is this @{self.__name__}.{decorator} meant for another operator?"
            )

    def _plan(
        self, what: str, rule: Callable[..., Any], first: str = "grad"
    ) -> tuple[tuple[str, int], ...]:
        """Where each of the rule's arguments comes from: (kind, index) per parameter."""
        written = rule.function if isinstance(rule, Kernel) else rule
        parameters = read_parameters(self.name, written)
        if parameters.variadic or parameters.any_keyword or parameters.keywords:
            starred = (
                f"*{parameters.variadic}" if parameters.variadic
                else f"**{parameters.any_keyword}" if parameters.any_keyword
                else f"the keyword-only {parameters.keywords[0]!r}"
            )  # fmt: skip
            raise DeclarationError(
                f"{self.name}: {what} names exactly what it needs, all positional, got {starred}; "
                "a list input is named without its star"
            )
        if parameters.positional[:1] != (first,):
            raise DeclarationError(
                f"{self.name}: {what} takes {first!r} first, got ({', '.join(parameters.positional)})"
            )
        schema = self.schema
        known = {"like": ("like", 0)}
        if first == "grad":
            known["needs"] = ("needs", 0)
        for kind, names in (
            ("input", schema.inputs),
            ("output", schema.outputs),
            ("constant", schema.constants),
        ):
            for i, each in enumerate(names):
                known[each] = (kind, i)
        known[first] = (first, 0)
        for each in parameters.positional:
            if each not in known:
                raise DeclarationError(
                    f"{self.name}: {what} names {each!r}, which is no input ({one_of(schema.inputs)}), output "
                    f"({one_of(schema.outputs)}) or constant ({one_of(schema.constants)}), nor "
                    f"{'needs or ' if 'needs' in known else ''}like{did_you_mean(each, known)}"
                )
        plan = tuple(known[each] for each in parameters.positional)
        for kind, i in plan:
            if kind == "input" and i in schema.mutates:
                raise DeclarationError(
                    f"{self.name}: {what} needs {schema.inputs[i]!r}, which the operator overwrites; "
                    "its value is gone when the rule runs"
                )
        return plan

    # ---------------------------------------------------------------------- what the registry asks

    def problems(self) -> list[str]:
        """What keeps it from being registered, a sentence each; empty when nothing does."""
        found = super().problems()
        if self.rule is None and not self.nondifferentiable:
            found.insert(
                0,
                f"The operator {self.name} has no rule for its gradient; write one under "
                f"@{self.__name__}.backward, or declare nondifferentiable=True.",
            )
        return found

    def output_dtypes(
        self, metas: Sequence[Any], constants: Sequence[Any]
    ) -> list[np.dtype[Any]] | None:
        """The dtype of each output for inputs like these, by ``infer=``; None if there is none.

        Parameters
        ----------
        metas : sequence
            A Meta per tensor, a list spread out; numbers and None as they were passed.
        constants : sequence
            All of them, in order.
        """
        infer = self.schema.infer
        if infer is None:
            return None
        found = infer(*metas, **dict(zip(self.schema.constants, constants)))
        return [np.dtype(dtype) for _, dtype in (found if isinstance(found, list) else [found])]

    def _signature(self) -> inspect.Signature:
        """Tensors, then constants, which callers may also pass by position."""
        schema = self.schema
        empty = inspect.Parameter.empty
        either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = []
        kind: inspect._ParameterKind = either
        for i, each in enumerate(schema.inputs):
            if schema.variadic and i == len(schema.inputs) - 1:
                parameters.append(inspect.Parameter(each, inspect.Parameter.VAR_POSITIONAL))
                kind = by_name
            else:
                default = None if schema.optional[i] else empty
                parameters.append(inspect.Parameter(each, either, default=default))
        defaulted = any(schema.optional)
        for each in schema.constants:
            default = schema.defaults.get(each, empty)
            if default is empty and defaulted:
                kind = by_name  # Python has no required parameter after one with a default
            defaulted = defaulted or default is not empty
            parameters.append(inspect.Parameter(each, kind, default=default))
        for each, default in self.variants.items():
            parameters.append(inspect.Parameter(each, by_name, default=default))
        return inspect.Signature(parameters)
