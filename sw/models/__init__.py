"""Models and kernels by name: their data, their weights, and the cache of their quantized forms.

catalog.py      a model by name; table.py, transformer_table.py: the built-in ones, without PyTorch
vision.py, tiny.py, digits.py, transformers.py, detectors.py, gpt2.py   the modules
photographs.py, sounds.py, sentences.py   data; weights.py: random weights fitted to data
build.py        a module becomes a quantized model: prepared.py; store.py: kept; versions.py
user.py         a user's own model: saved_programs.py, sources.py, samples.py, supplied.py
wide/           networks of more families
kernels.py      kernels of `systola sim`; random_kernels.py
"""
