"""Parts of the engine that only a GPU needs: kernels, staging, graphs, memory, copies aside.

Importing them needs no GPU; all but what records graphs and uses streams is tested on a CPU.
"""
