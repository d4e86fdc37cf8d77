"""Federations: nodes as processes of their own on machines of their own, over gRPC with mutual TLS, no coordinator.

| package   | holds                                                                          | imports  |
|-----------|--------------------------------------------------------------------------------|----------|
| `config`  | the files that say who takes part, and certificates                            |          |
| `wire`    | what crosses a link, links, and waiting for neighbours                         | `config` |
| `totals`  | masked totals as state machines without I/O                                    | `config` |
| `node`    | the process of a site, a type per phase                                        | `wire`   |
| `monitor` | what people and programs see of a node                                         | `node`   |
| `predict` | predictions that sites make together, split by features                        | `wire`   |

Methods, certificates and gossip come from below and run here as in the simulator; nothing of their mathematics may
enter. Needs the extra `peers`; nothing below this package may import it.
"""
