class CublasError(RuntimeError): ...

class Cublas:
    path: str

    def __init__(self, path: str) -> None: ...
    @property
    def version(self) -> int: ...
    def multiply(
        self,
        stream: int,
        dtype: str,
        m: int,
        n: int,
        k: int,
        a: int,
        a_transposed: bool,
        a_leading: int,
        a_step: int,
        b: int,
        b_transposed: bool,
        b_leading: int,
        b_step: int,
        c: int,
        c_leading: int,
        c_step: int,
        count: int,
        add: bool = False,
        tf32: bool = False,
    ) -> None: ...

def find() -> Cublas | None: ...
