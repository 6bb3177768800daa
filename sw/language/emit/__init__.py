"""From statements to virtual instructions: `kernel.py` goes through them and copies, `products.py`
and `vectors.py` write those of the array, the depthwise and the vector engine, `issue.py` knows
where memories lie.
"""
