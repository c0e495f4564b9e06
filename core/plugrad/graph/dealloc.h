/* A function that runs before a type's tp_dealloc.

   What Cython puts around a __dealloc__ (saving the exception that is being raised) costs more than what is done in
   it for most tensors and nodes. The function must leave a raised exception alone and the reference count, which is 0,
   as it is. The collector must not come across the object meanwhile. Every module that includes this file can do it
   for one type. */

#ifndef PLUGRAD_DEALLOC_H
#define PLUGRAD_DEALLOC_H

#include <Python.h>

static destructor plugrad_rest_of_dealloc;
static void (*plugrad_before_dealloc)(PyObject *);

static void plugrad_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    plugrad_before_dealloc(self);
    plugrad_rest_of_dealloc(self);
}

static void plugrad_before_each_dealloc(PyTypeObject *type, void (*function)(PyObject *))
{
    plugrad_before_dealloc = function;
    plugrad_rest_of_dealloc = type->tp_dealloc;
    type->tp_dealloc = plugrad_dealloc;
}

#endif
