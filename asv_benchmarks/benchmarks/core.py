"""The graph core: what a node costs to make, to run backward and to free, in graphs of extreme shapes.

Tensors hold four float32 numbers, so that arithmetic is next to nothing. Every body does a fixed amount of work and the
time shown is that of the whole body; `Control` does the same arithmetic with nothing recorded, and should not move when
the core changes.
"""

import operator

import numpy as np

import plugrad

ELEMENTS = 4
WIDTH = 10_000
LENGTHS = [1_000, 100_000]


def leaf(requires_grad=True):
    return plugrad.tensor(np.full(ELEMENTS, 1.0001, np.float32), requires_grad=requires_grad)


def chain(x, factor, length):
    for _ in range(length):
        x = x * factor
    return x


class LongChain:
    """x = x * factor, over and over: as deep as it is long, so recursion anywhere would overflow the stack."""

    params = LENGTHS
    param_names = ("length",)

    def setup(self, length):
        self.x, self.factor, self.seed = leaf(), leaf(False), leaf(False)
        self.repeats = LENGTHS[-1] // length

    def time_build_free(self, length):
        for _ in range(self.repeats):
            chain(self.x, self.factor, length)

    def time_build_backward_free(self, length):
        for _ in range(self.repeats):
            chain(self.x, self.factor, length).backward(self.seed)
            self.x.grad = None

    def peakmem_build_backward(self, length):
        # Ten times as long as what is timed: the graph is then several times the interpreter's 60 MB.
        chain(self.x, self.factor, 10 * length).backward(self.seed)


class FanOut:
    """One tensor used by 10⁴ operators: 10⁴ gradients are added up before its own node may run."""

    def setup(self):
        self.x, self.factor, self.seed = leaf(), leaf(False), leaf(False)
        self.seeds = plugrad.tensor(np.ones((WIDTH, ELEMENTS), np.float32))

    def _fan(self, shared):
        # One stack reads them all, so that the graph is two nodes deep whatever its width.
        return plugrad.ops.stack([shared * self.factor for _ in range(WIDTH)])

    def time_leaf(self):
        self._fan(self.x).backward(self.seeds)
        self.x.grad = None

    def time_interior(self):
        self._fan(self.x * self.factor).backward(self.seeds)
        self.x.grad = None


class FanIn:
    """10⁴ tensors read by one operator: one node with 10⁴ edges."""

    def setup(self):
        self.leaves = [leaf() for _ in range(WIDTH)]
        self.seed = plugrad.tensor(np.ones((WIDTH, ELEMENTS), np.float32))

    def time_stack(self):
        plugrad.ops.stack(self.leaves).backward(self.seed)
        for tensor in self.leaves:
            tensor.grad = None

    def time_sum(self):
        # The same leaves, added one after the other: 10⁴ nodes with two edges each.
        total = self.leaves[0]
        for tensor in self.leaves[1:]:
            total = total + tensor
        total.backward(self.seed[0])
        for tensor in self.leaves:
            tensor.grad = None


class NodeConstruction:
    """Recorded calls whose result is dropped at once: dispatch, a Tensor, a Node, and both freed."""

    def setup(self):
        self.array = np.full(ELEMENTS, 1.0001, np.float32)
        self.x, self.y = leaf(), leaf()

    def time_leaf(self):
        tensor, array = plugrad.Tensor, self.array
        for _ in range(WIDTH):
            tensor(array, requires_grad=True)

    def time_unary(self):
        x = self.x
        for _ in range(WIDTH):
            operator.neg(x)

    def time_binary(self):
        x, y = self.x, self.y
        for _ in range(WIDTH):
            x * y

    def time_number(self):
        x = self.x
        for _ in range(WIDTH):
            x * 1.0001

    def time_view(self):
        x = self.x
        for _ in range(WIDTH):
            x.reshape(2, 2)

    def time_method(self):
        x = self.x
        for _ in range(WIDTH):
            x.exp()


class Control:
    """No graph: what moves here is the machine or NumPy, or the way to a kernel, but not recording or the engine."""

    params = LENGTHS
    param_names = ("length",)

    def setup(self, length):
        self.x, self.factor = leaf(), leaf(False)
        self.repeats = LENGTHS[-1] // length

    def time_numpy(self, length):
        for _ in range(self.repeats):
            chain(self.x.array, self.factor.array, length)

    def time_no_grad(self, length):
        with plugrad.no_grad():
            for _ in range(self.repeats):
                chain(self.x, self.factor, length)

    def time_nothing_requires_grad(self, length):
        x = self.x.detach()
        for _ in range(self.repeats):
            chain(x, self.factor, length)


class PythonOperator:
    """An operator whose function and rule are Python: a plugin's, and a private `autograd.Function`."""

    CALLS = 5_000

    def setup(self):
        if not hasattr(self, "product"):
            self.product, self.function = python_product()
        self.x, self.factor, self.seed = leaf(), leaf(False), leaf(False)

    def _run(self, product):
        x, factor = self.x, self.factor
        for _ in range(self.CALLS):
            x = product(x, factor)
        x.backward(self.seed)
        self.x.grad = None

    def time_plugin(self):
        self._run(self.product)

    def time_function(self):
        self._run(self.function.apply)


def python_product():
    """The product written twice in Python: as an operator that has passed its battery, and as a Function."""

    @plugrad.operator("bench::product", elementwise=True)
    def product(x, y):
        """The product."""
        return np.multiply(x, y)

    @product.backward
    def _(grad, x, y, needs):
        return grad * y, grad * x if needs.y else None

    @product.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.normal(3, 4))
        yield make.call(make.normal(2, 3), make.normal(3))
        yield make.call(make.normal(5), make.normal(1))

    class Product(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x if ctx.needs_input_grad[1] else None

    return plugrad.register(product), Product


class Import:
    """A fresh interpreter imports plugrad; NumPy is there already."""

    def timeraw_plugrad(self):
        return "import plugrad", "import numpy"
