"""The graph core: tensors, nodes, operators and the engine. It knows no operator and no array library."""
