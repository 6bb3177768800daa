"""`systola profile --html`: a page of linked views on a profile.

build.py    the page's HTML: facts, table, places for the views
data.py     what its scripts draw: engines, memories, layers
graph.py    the graph of the layers, laid out by ranks
page.css; links.js (selection and zoom that the views share), timeline.js, memory.js, layers.js
"""
