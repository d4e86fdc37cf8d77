"""CoLA (He, Bian and Jaggi, NeurIPS 2018): its round, its options as strategies, its accelerators.

| modules | hold |
|---|---|
| `cola` | the public classes `Cola` and `Cocoa`: options, and what an engine may ask of a run |
| `iterate`, `state` | what a block of nodes carries from round to round |
| `round` | Algorithm 1 of the paper: gossip, gradient, local solve, update |
| `gossip_steps`, `passes`, `curvature`, `relaxation` | a strategy for each option of a round |
| `momentum`, `monitor`, `restarts` | accelerator: Nesterov's method with function-value restarts |
| `exact_sums`, `plane` | accelerator: exact sums of A_k p_k with a plane search |
| `choice` | what options and the fault plan leave open, and the acceleration that is taken (`methods/choice`) |

Nothing in here does I/O, knows who hosts which node, or reads a clock.
"""

from glmesh.methods.cola.cola import Cocoa, Cola

__all__ = ["Cocoa", "Cola"]
