"""The machine as the compiler's cost model sees it."""
