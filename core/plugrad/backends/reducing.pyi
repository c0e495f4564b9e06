# Nothing here is for Python; see reducing.pxd.
