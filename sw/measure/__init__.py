"""What is measured, compared and written into docs/; the commands are in sw/cli/.

bench.py        `systola bench`: bench_store.py, bench_record.py, bench_health.py
profile/        `systola profile`; simspeed.py, goldenspeed.py: the commands of their names
compiled/       `run`, `profile`, `verify` and `bench` of `.pte` files
model_runs.py   `systola run` and `verify` of models: targets.py (names), tosa_runs.py,
                partitioned_run.py (`--fallback`), generate.py (`systola generate`)
validate.py, accuracy.py   how close a network is to PyTorch's
diff.py         `systola diff`: diff_run.py, diff_pt2e.py
divergence.py   where RTL and golden model part; onchip.py: what the chip holds
conformance/    `systola conformance`
pages/          generated pages; html/: the shell of pages that are one HTML file
"""
