"""What CuPy offers, as its modules say, for the fake that offers nothing else (`elsewhere`). Importing CuPy needs no device.

python tests/support/cupy_api.py > tests/support/cupy_api.json        # wherever CuPy 14 is installed
"""

import inspect
import json
import re
from typing import Any


def kind_of(thing: Any) -> str | None:
    """`ufunc`, `type`, `constant`, or what a function takes, separated by blanks; None for what is no part of it."""
    if inspect.ismodule(thing) or type(thing).__name__ in ("_LazyModule", "_Feature"):
        return None
    if type(thing).__name__ in ("ufunc", "_GUFunc"):
        return "ufunc"
    if isinstance(thing, type):
        return "type"
    return "takes " + " ".join(parameters(thing)) if callable(thing) else "constant"


def parameters(function: Any) -> list[str]:
    """The names that a function takes; what is compiled says so in its first line. `**` where it takes any."""
    try:
        known = inspect.signature(function).parameters.values()
        return ["**" if each.kind == each.VAR_KEYWORD else each.name for each in known]
    except (TypeError, ValueError):
        said = re.search(r"\((.*?)\)", (function.__doc__ or "").partition("\n")[0])
        return re.findall(r"(\w+)(?==|,|$)", re.sub(r"=[^,]*", "", said[1])) if said else ["**"]


def names(module: Any) -> dict[str, str]:
    """By name, sorted."""
    every = {name: kind_of(getattr(module, name)) for name in sorted(dir(module)) if not name.startswith("_")}
    return {name: kind for name, kind in every.items() if kind is not None}


if __name__ == "__main__":
    import cupy
    import cupyx.scipy.special

    at = [name for name, kind in names(cupy).items() if kind == "ufunc" and name != "matmul"]
    found = {
        "version": cupy.__version__,
        "names": names(cupy),
        "fft": names(cupy.fft),
        "special": names(cupyx.scipy.special),
        "methods": names(cupy.ndarray),
        "at": [name for name in at if getattr(cupy, name)._scatter_op],
    }
    print(json.dumps(found, indent=1))
