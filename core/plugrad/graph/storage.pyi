# Everything in it is called from Cython; there is nothing to import from Python.
