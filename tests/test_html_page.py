"""The shell of HTML pages: one file, data that cannot leave their block, themes, tables."""

import json
import re

import pytest
from browser_helpers import opened

from sw.measure.html import escape, page, write_page
from sw.runtime.report import ReportError

NASTY = '</script><script>alert("x")</script><!-- & \u2028 \' é'


def test_data_come_back_as_they_were_and_do_not_end_their_block():
    text = page("t", "", data={"rows": {"name": NASTY, "n": [1, 2.5, None]}})
    assert "alert" in text and "<script>alert" not in text
    (block,) = re.findall(r'<script type="application/json" id="data-rows">(.*?)</script>', text)
    assert not set("<>&\u2028") & set(block)
    assert json.loads(block) == {"name": NASTY, "n": [1, 2.5, None]}


def test_a_title_is_text():
    text = page("<b>&", "<p>body</p>")
    assert text.count("&lt;b&gt;&amp;") == 2 and "<p>body</p>" in text
    assert escape("\"'<") == "&quot;&#x27;&lt;"


def test_numbers_that_json_lacks_and_sources_that_end_their_element_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        page("t", "", data={"x": float("nan")})
    with pytest.raises(ValueError, match="must not have '</script'"):
        page("t", "", ["x = '</SCRIPT>'"])
    with pytest.raises(ValueError, match="must not have '</style'"):
        page("t", "", styles=["</style>"])


def test_a_page_names_nothing_outside_of_itself():
    text = page("t", "", ["systola.data('a')"], {"a": 1}, styles=["p{color:red}"])
    assert "p{color:red}" in text and "systola.data('a')" in text
    assert not re.search(r"""(?:src|href)\s*=|https?:|@import|url\(""", text)
    assert "default-src 'none'" in text and "connect-src" not in text and "eval" not in text
    assert len(text) < 20_000
    assert "connect-src 'self'" in page("t", "", connect=True)


def test_plotly_is_in_the_page_where_it_is_asked_for():
    text = page("t", "", plotly=True)
    assert "plotly.js v" in text and 4_000_000 < len(text) < 6_000_000


def test_a_page_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"^--html .*/file/p\.html: cannot write: "):
        write_page("x", tmp_path / "file" / "p.html")
    assert write_page("é", tmp_path / "new" / "p.html") == 2


TABLE = """
<table class="sortable"><thead><tr><th>name</th><th class="number">n</th></tr></thead>
<tbody><tr><td>b</td><td data-value="2">2 %</td></tr><tr><td>c</td><td></td></tr>
<tr><td>a</td><td data-value="10">10 %</td></tr></tbody></table>
"""


def test_themes_and_tables_work_by_keyboard(tmp_path):
    path = tmp_path / "p.html"
    script = "document.body.append(systola.data('d').text, systola.escape('<'))"
    write_page(page("t", TABLE, [script], {"d": {"text": NASTY}}), path)
    with opened(path, "dark") as tab:
        assert NASTY.replace("\u2028", "") in tab.inner_text("body").replace("\u2028", "")
        names = "[...document.querySelectorAll('td:first-child')].map(d => d.innerText).join('')"
        colour = "systola.colour('page')"
        assert tab.evaluate(colour) == "rgb(20, 23, 28)"
        tab.focus("#theme")
        tab.keyboard.press("Enter")
        assert tab.get_attribute("#theme", "aria-label") == "Theme: light. Change it"
        assert tab.evaluate(colour) == "rgb(255, 255, 255)"
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.focus("th:nth-child(2) button")
        tab.keyboard.press("Enter")
        assert tab.get_attribute("th:nth-child(2)", "aria-sort") == "descending"
        assert tab.evaluate(names) == "abc"
        tab.keyboard.press("Enter")
        assert tab.evaluate(names) == "bac"
        tab.click("th:nth-child(1) button")
        assert tab.evaluate(names) == "abc"


def test_plotly_draws_under_the_policy(tmp_path):
    path = tmp_path / "p.html"
    script = "Plotly.newPlot('plot', [{x: [1, 2], y: [3, 4]}], {}, {displaylogo: false})"
    write_page(page("t", '<div id="plot"></div>', [script], plotly=True), path)
    with opened(path) as tab:
        tab.wait_for_selector("#plot .scatterlayer path")
