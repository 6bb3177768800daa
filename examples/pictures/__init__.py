"""What the examples with photographs share.

faces.py        squares for the face detector, and boxes and points of its output
text_boxes.py   lines of text in a map of probabilities, and letters of classes
text_images.py  pictures of text that calibrate
"""
