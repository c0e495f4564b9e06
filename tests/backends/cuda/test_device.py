"""Finding a device: what is said where there is none, names, threads, forks and the end of the process."""

import gc
import importlib.metadata
import importlib.util
import os
import sys
import threading
import types

import numpy as np
import pytest

import plugrad
from plugrad.backends.cuda import device
from plugrad.graph.backend import backend_named

# ---- where there is none ---------------------------------------------------------------------------


class Error(Exception):
    """What the driver of PyCUDA raises."""


def fake_driver(init=None, count=1):
    """A module like pycuda.driver on a machine with `count` devices."""

    def start():
        if init is not None:
            raise init

    return types.SimpleNamespace(
        Error=Error, init=start, Device=types.SimpleNamespace(count=lambda: count)
    )


@pytest.fixture
def look(monkeypatch):
    """What is found with a given module in the place of pycuda.driver."""

    def with_driver(driver):
        spec = importlib.util.spec_from_loader("pycuda", None)
        monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: spec)
        package = types.ModuleType("pycuda")
        package.__path__ = []
        if driver is not None:
            package.driver = driver
        monkeypatch.setitem(sys.modules, "pycuda", package)
        monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
        monkeypatch.setattr(device._state, "driver", None)
        return device._look()

    return with_driver


def test_no_pycuda(monkeypatch):
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    reason = device._look()
    assert "PyCUDA is not installed" in reason
    assert "pip install 'plugrad[cuda]'" in reason
    assert "cuda-emulated" in reason


@pytest.mark.parametrize("installed", [True, False])
def test_without_a_driver_the_emulator_is_named(look, monkeypatch, installed):
    monkeypatch.setattr(device, "_offering", lambda name: [object()] * installed)
    reason = look(None)
    assert ("use device='cuda-emulated'" in reason) == installed
    assert ("pip install ./plugins/plugrad-emulator" in reason) != installed


def test_no_driver(look):
    reason = look(None)  # None in sys.modules makes the import fail
    assert "the CUDA driver is not" in reason
    assert "install NVIDIA's driver" in reason


def test_a_driver_that_does_not_start(look):
    reason = look(fake_driver(init=Error("cuInit failed: no CUDA-capable device is detected")))
    assert "no CUDA-capable device is detected" in reason
    assert "nvidia-smi" in reason


def test_no_device(look):
    assert "CUDA_VISIBLE_DEVICES" in look(fake_driver(count=0))


def test_a_device(look):
    assert look(fake_driver()) is None


def test_unavailable_is_said_by_everything_that_needs_a_device(monkeypatch):
    monkeypatch.setattr(device, "_look", lambda: "no driver here")
    monkeypatch.setattr(device._state, "driver", None)
    monkeypatch.setattr(device._state, "closed", "")
    assert not plugrad.cuda.is_available()
    assert plugrad.cuda.why_unavailable() == "no driver here"
    assert plugrad.cuda.device_count() == 0
    assert not plugrad.cuda.is_emulated()
    for use in (plugrad.cuda.get_device_name, plugrad.cuda.synchronize, device.require):
        with pytest.raises(plugrad.cuda.NotAvailableError, match="no CUDA device: no driver here"):
            use()


def test_plugrad_is_imported_without_pycuda():
    code = (
        "import sys, plugrad; assert not [m for m in sys.modules if 'pycuda' in m or 'backends.cuda' in m]; "
        "plugrad.cuda; assert 'pycuda' not in sys.modules"
    )
    import subprocess

    subprocess.run([sys.executable, "-c", code], check=True)


# ---- names -----------------------------------------------------------------------------------------


def test_names(cuda):
    assert backend_named("cuda") is backend_named("cuda:0")
    assert plugrad.zeros(2, device="cuda:0").device == "cuda"
    with pytest.raises(ValueError, match="'cuda:1': plugrad works on one CUDA device"):
        plugrad.zeros(2, device="cuda:1")
    with pytest.raises(ValueError, match="no backend is named 'tpu'"):
        plugrad.zeros(2, device="tpu")


def test_what_the_device_is(cuda):
    assert cuda.is_available()
    assert cuda.is_emulated()
    assert cuda.device_count() == 1
    assert cuda.current_device() == 0
    assert cuda.get_device_name("cuda").startswith("Emulated")
    major, minor = cuda.get_device_capability()
    assert device.architecture() == f"sm_{major}{minor}"
    with pytest.raises(ValueError, match="one CUDA device"):
        cuda.get_device_name(1)


def test_a_device_offered_by_a_distribution(cuda, monkeypatch):
    called = []
    point = types.SimpleNamespace(name="cuda-other", load=lambda: lambda: called.append(True))
    monkeypatch.setattr(device.importlib.metadata, "entry_points", lambda group: [point])
    assert plugrad.zeros(2, device="cuda-other").device == "cuda"  # an emulated device is in use
    assert not called
    monkeypatch.setattr(device, "emulated", lambda: False)
    with pytest.raises(
        plugrad.cuda.NotAvailableError, match="'cuda-other' must be asked for before"
    ):
        plugrad.zeros(2, device="cuda-other")


def test_without_the_emulator_its_device_says_what_brings_it(monkeypatch):
    monkeypatch.setattr(device.importlib.metadata, "entry_points", lambda group: [])
    with pytest.raises(
        plugrad.cuda.NotAvailableError,
        match="'cuda-emulated'.*pip install ./plugins/plugrad-emulator",
    ):
        plugrad.zeros(2, device="cuda-emulated")


def test_the_emulated_device_by_its_name(script):
    if not [
        p for p in importlib.metadata.entry_points(group=device.GROUP) if p.name == "cuda-emulated"
    ]:
        pytest.skip("plugrad-emulator is importable, but not installed")
    done = script(
        """
        import plugrad
        x = plugrad.ones(3, device="cuda-emulated")
        print(x.device, plugrad.cuda.is_emulated(), plugrad.ones(2).to("cuda-emulated").tolist())
        """,
        before="",
    )
    assert (done.returncode, done.stdout) == (0, "cuda True [1.0, 1.0]\n"), done.stderr


# ---- threads, forks, the end -----------------------------------------------------------------------


def test_every_thread_has_the_context(cuda):
    found, errors = [], []

    def work(value):
        try:
            found.append(float((plugrad.full((3,), value, device="cuda").cpu()).sum().item()))
        except BaseException as error:
            errors.append(error)

    for round in range(3):  # a context left on an ended thread would abort the process
        threads = [threading.Thread(target=work, args=(float(i + round),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert sorted(found) == sorted(3.0 * (i + round) for round in range(3) for i in range(4))


def test_an_array_may_die_on_another_thread(cuda):
    gc.collect()  # what batteries left
    before = cuda.memory_allocated()
    box = [plugrad.zeros(100, device="cuda")]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert cuda.memory_allocated() == before


def test_a_result_of_pycuda_may_die_on_another_thread(script):
    done = script(
        """
        import gc, threading, plugrad
        from plugrad.backends.cuda import array as arrays
        x = plugrad.ones(100, device="cuda")
        gc.collect()  # what batteries left
        before = plugrad.cuda.memory_allocated()
        box = [x.array.copy()]
        assert plugrad.cuda.memory_allocated() == before + 400
        assert arrays.to_host(box[0])[:2].tolist() == [1.0, 1.0]
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
        print(plugrad.cuda.memory_allocated() - before)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_modules_that_nothing_holds_any_more_at_the_end(script):
    done = script(
        """
        import plugrad
        from plugrad.backends.cuda.module import Module
        SOURCE = 'extern "C" __global__ void f(float *x) { *x = 1; }'
        Module(SOURCE, name="at once").load("f")
        x = plugrad.ones(3, device="cuda")
        kept = Module(SOURCE, name="kept")
        kept.function("f")(1, 1, x.array)
        late = Module(SOURCE, name="late")
        late.function("f")(1, 1, x.array)
        del late
        print("done")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_arrays_that_end_with_their_thread(script):
    done = script(
        """
        import threading, plugrad
        before, after = threading.local(), threading.local()
        def work():
            before.x = None
            after.x = plugrad.ones(100, device="cuda")
            before.x = plugrad.ones(100, device="cuda")
        for _ in range(5):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        print(plugrad.cuda.memory_allocated(), plugrad.cuda.memory_stats()["active.all.current"])
        """
    )
    assert (done.returncode, done.stdout) == (0, "0 0\n"), done.stderr
    assert not done.stderr


def test_a_process_whose_main_thread_never_used_the_device(script):
    done = script(
        """
        import threading, numpy as np, plugrad
        from plugrad.backends.cuda import array as arrays
        from plugrad.backends.cuda.module import Module
        module = Module('extern "C" __global__ void f(float *x) { *x = 1; }', name="f")
        kept = []
        def work():
            array = arrays.from_host(np.arange(6.0).reshape(2, 3))
            kept.extend([array, arrays.copied(arrays.view_by(np.transpose, array))])
            kept.extend([plugrad.cuda.Stream(), plugrad.cuda.Event()])
            module.function("f")(1, 1, array)
            plugrad.cuda.synchronize()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print("done")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_told(script):
    done = script(
        """
        import os, plugrad
        x = plugrad.ones(3, device="cuda")
        child = os.fork()
        if child == 0:
            try:
                x + 1, plugrad.ones(3, device="cuda")
                os._exit(2)
            except RuntimeError as error:
                text = str(error)
            assert not plugrad.cuda.is_available()
            del x
            os._exit(0 if "forked" in text and "spawn" in text else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert x.tolist() == [1.0, 1.0, 1.0]
        """
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_only_asked_for_the_device_is_told_too(script):
    done = script(
        """
        import os, plugrad
        assert plugrad.cuda.is_available()  # which starts the driver
        child = os.fork()
        if child == 0:
            try:
                plugrad.ones(3, device="cuda")
                os._exit(2)
            except RuntimeError as error:
                text = str(error)
            os._exit(0 if "forked" in text and "spawn" in text else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert plugrad.ones(3, device="cuda").tolist() == [1.0, 1.0, 1.0]
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_ends_without_a_crash(script):
    done = script(
        """
        import os, sys, plugrad
        x = plugrad.ones(3, device="cuda")
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_process_forked_before_the_first_use_may_use_it(script):
    done = script(
        """
        import os, plugrad
        child = os.fork()
        if child == 0:
            os._exit(0 if plugrad.ones(2, device="cuda").tolist() == [1.0, 1.0] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    assert done.returncode == 0, done.stderr


def test_the_process_ends_with_arrays_threads_and_streams_alive(script):
    done = script(
        """
        import threading, time, plugrad
        kept = [plugrad.ones(1000, device="cuda")]
        stream = plugrad.cuda.Stream()
        with plugrad.cuda.stream(stream):
            kept.append(plugrad.ones(1000, device="cuda"))
        def forever():
            mine = plugrad.ones(10, device="cuda")
            ready.set()
            time.sleep(1000)
        ready = threading.Event()
        threading.Thread(target=forever, daemon=True).start()
        ready.wait()
        class Late:
            def __del__(self):
                kept.clear()
        late = Late()
        print("done")
        """
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert not done.stderr


def test_nothing_starts_while_the_process_ends(script):
    done = script(
        """
        import atexit
        def late():
            try:
                plugrad.ones(3, device="cuda")
            except RuntimeError as error:
                print(error)
        atexit.register(late)
        import plugrad
        plugrad.ones(3, device="cuda")
        """
    )
    assert done.returncode == 0, done.stderr
    assert "the interpreter is shutting down" in done.stdout


def test_float_arrays_are_pycudas(cuda):
    from pycuda.gpuarray import GPUArray

    array = plugrad.tensor(np.arange(6.0).reshape(2, 3), device="cuda").array
    assert isinstance(array, GPUArray)
    assert (array.nbytes, array.itemsize, array.mem_size) == (48, 8, 6)
    assert array.flags.c_contiguous
    np.testing.assert_array_equal((array + array).get(), 2 * np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(array.get(), np.arange(6.0).reshape(2, 3))


def test_a_device_that_comes_later_is_found(cuda):
    """Somebody asked whether there is one before the emulator was installed."""
    import os
    import subprocess

    if os.environ.get("PLUGRAD_TEST_DEVICE") == "cuda":
        pytest.skip("there is a real device from the beginning")
    code = (
        "import plugrad, plugrad_emulator\n"
        "assert plugrad.cuda.why_unavailable()\n"
        "plugrad_emulator.install()\n"
        "assert plugrad.cuda.is_available()\n"
        "assert plugrad.ones(3, device='cuda').device == 'cuda'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
