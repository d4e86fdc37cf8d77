"""Maximum likelihood on totals: families of distributions, softmax and Cox, with a proof in standard errors.

A model is a `Likelihood` of one node's rows; the method asks nothing else of it. What is summed over all nodes at the
end of a fit, for standard errors and tests, is here too. Tests and tables made of it are in `glmesh.inference` and may
not enter, nor may scikit-learn's names.
"""
