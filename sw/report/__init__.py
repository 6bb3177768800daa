"""The results of campaigns as one page, from which an architect decides.

data.py         what the page shows, as records; objectives.py: the figures that points compete in
adapter.py      those records from rows of campaigns; source.py: the rows from a database
history.py      cycles of each network over commits; payload.py: the data as the page reads them
advice.py       three answers with thresholds, as the page gives them; numbers.py: figures as text
page.py         the HTML file, with style and scripts of assets/; write.py: all of it in one call
files.py        links to what the campaign wrote beside the page; errors.py: what can be wrong
server.py       the same page while a campaign runs; live.py: what it asks the database
"""
