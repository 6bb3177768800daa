"""The shell of pages that are one HTML file: no network, light and dark, safe data.

page.py     `page` puts a body, scripts and data into the shell; `escape`, `asset`, `write_page`
shell.css   colours as variables (light, dark, print), tables, buttons
shell.js    the object `systola`: data of the page, colours, the theme button, sortable tables
"""

from sw.measure.html.page import asset as asset
from sw.measure.html.page import escape as escape
from sw.measure.html.page import page as page
from sw.measure.html.page import write_page as write_page
