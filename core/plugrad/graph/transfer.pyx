"""Moving a tensor to another device: an edge like any other, whose gradient goes back to where the tensor was.

It is the graph's own operator, since it has no kernel on either device: values go through the host, which every backend
reads from and writes to. Moving is linear, so tangents move the same way.
"""
from plugrad.graph.backend cimport Backend
from plugrad.graph.grad_mode cimport recording
from plugrad.graph.inplace cimport refresh
from plugrad.graph.instruments cimport DUAL, RESULTS, Tangents, instruments, notify_results, push_forward
from plugrad.graph.node cimport Node
from plugrad.graph.op cimport READY_STATE, Op
from plugrad.graph.recording cimport record as record_call
from plugrad.graph.tensor cimport Tensor, make

from plugrad.graph.backend import backend_named


cdef class Transfer(Op):
    """The producer of a tensor that came from another device; a node's state is the backend it came from."""

    def __init__(self):
        Op.__init__(self, "to_device")
        self.state = READY_STATE
        self.differentiable = True
        self.conjugates = True

    cdef object needs_of(self, Node node, set wanted):
        return None

    cdef object gradients(self, Node node, object grad, object needs, bint record):
        return (moved(<Tensor>grad, <Backend>node.state),)

    def pushforward(self, inputs, constants, outputs, tangents):
        if tangents[0] is None:
            return (None,)
        return (moved(<Tensor?>tangents[0], (<Tensor?>outputs[0]).meta.backend),)


cdef Transfer TRANSFER = Transfer()


cdef Tensor moved(Tensor tensor, Backend target):
    """The same values on the device of `target`; recorded."""
    cdef Backend source = tensor.meta.backend
    cdef Tensor out
    cdef bint dual
    if source is target:
        return tensor
    if tensor.base is not None:
        refresh(tensor)
    array = target.adopt(target.from_numpy(source.to_numpy(tensor._array)))
    out = make(array, target.meta(array))
    dual = instruments & DUAL and tensor.tangent is not None
    if dual:
        out.tangent = Tangents()
    if tensor.needs_grad and recording():
        record_call(TRANSFER, [tensor], (), [out])
        out.fn.state = source
    if dual:
        push_forward(TRANSFER, [tensor], (), [out])
    if instruments & RESULTS:
        notify_results(TRANSFER, [tensor], (), [out])
    return out


def transfer(Tensor tensor not None, str device not None):
    """The tensor on a device; itself if it is there.

    Raises
    ------
    ValueError
        There is no such device.
    """
    return moved(tensor, <Backend?>backend_named(device))
