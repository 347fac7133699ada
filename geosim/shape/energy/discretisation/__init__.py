"""The finite-element discretisation: elements, quadrature, sparsity, assembly, dead loads, symmetry."""
