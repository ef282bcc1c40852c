"""The renderer alone, in headless Chromium: what stays the same element keeps focus, selection, folds and scroll."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es.page.app_script import joined_modules

pytestmark = pytest.mark.browser

MODULES = ("visible_text.js", "renderer.js")


@pytest.fixture
def alone(tab: Any, tmp_path: Path) -> Any:
    """A page with nothing but the renderer, as `h` and `draw`."""
    page = tmp_path / "renderer.html"
    script = f"{joined_modules(MODULES)}\nconst {{h}} = renderer_js;\n"
    script += "const draw = (...trees) => renderer_js.render(document.getElementById('root'), ...trees);"
    page.write_text(
        f"<!DOCTYPE html><meta charset='utf-8'><title>x</title><div id='root'></div><script>{script}</script>"
    )
    tab.open(page)
    return tab


def test_text_is_shown_and_never_parsed(alone: Any) -> None:
    alone.eval("draw(h('p', {title: '<b>'}, '<img src=x>', 5, null, false, ['a', ['b']], '\\u202e'), 'beside')")
    assert alone.eval("document.querySelector('#root').textContent") == "<img src=x>5ab\\u202ebeside"
    assert alone.eval("document.querySelector('#root p').title") == "<b>"
    assert alone.eval("document.querySelector('img')") is None


def test_keyed_children_keep_their_elements_when_they_move(alone: Any) -> None:
    """With their focus, selection, open folds and scroll."""
    alone.eval(
        "var list = keys => draw(h('ul', null, keys.map(key => h('li', {key}, h('input', {type: 'text'}), "
        "h('details', null, h('summary', null, key), 'more'), h('pre', {class: 'long'}, 'line\\n'.repeat(99))))))"
    )
    alone.eval("document.head.append(Object.assign(document.createElement('style'), "
               "{textContent: '.long {height: 40px; overflow: auto}'}))")  # fmt: skip
    alone.eval("list(['a', 'b', 'c']); var b = document.querySelectorAll('li')[1]; var i = b.querySelector('input');"
               "i.value = 'typed'; i.focus(); i.setSelectionRange(1, 3); b.querySelector('details').open = true;"
               "b.querySelector('pre').scrollTop = 60")  # fmt: skip
    for keys in (["c", "a", "b"], ["b", "x", "a"], ["x", "y", "b"], ["b"]):
        alone.eval(f"list({keys})")
        assert alone.eval("[...document.querySelectorAll('summary')].map(each => each.textContent)") == keys
        assert alone.eval(f"document.querySelectorAll('li')[{keys.index('b')}] === b")
        kept = (
            "[document.activeElement === i, i.value, i.selectionStart, i.selectionEnd, b.querySelector('details').open]"
        )
        assert alone.eval(kept) == [True, "typed", 1, 3, True]
        assert alone.eval("b.querySelector('pre').scrollTop") == 60
    assert alone.complaints() == []


def test_what_a_person_typed_or_opened_is_not_undone(alone: Any) -> None:
    alone.eval("var fold = h('summary', null, 's'), find = name => document.querySelector(name)")
    alone.eval("var form = q => draw(h('input', {type: 'search', value: q}), h('details', {open: false}, fold))")
    alone.eval("form('a'); find('input').focus(); find('input').value = 'ab'; find('details').open = true; form('a')")
    assert alone.eval("[find('input').value, find('details').open]") == ["ab", True]
    alone.eval("document.activeElement.blur(); form('c')")
    assert alone.eval("find('input').value") == "c"


def test_attributes_and_listeners_go_when_they_are_left_out(alone: Any) -> None:
    alone.eval("var n = 0; draw(h('button', {class: 'x', disabled: true, onclick: () => { n += 1 }}, 'go'))")
    alone.eval("draw(h('button', {onclick: () => { n += 10 }}, 'go')); document.querySelector('button').click()")
    assert alone.eval("[n, document.querySelector('button').hasAttribute('class')]") == [10, False]
    alone.eval("draw(h('button', null, 'go')); document.querySelector('button').click()")
    assert alone.eval("n") == 10


def test_drawings_are_svg_and_their_texts_are_not(alone: Any) -> None:
    alone.eval("draw(h('svg', {viewBox: '0 0 1 1'}, h('g', null, h('rect', {width: 1}))), h('p', null, 'x'))")
    spaces = "[...document.querySelectorAll('#root *')].map(each => each.namespaceURI.endsWith('svg'))"
    assert alone.eval(spaces) == [True, True, True, False]


def test_a_link_leads_nowhere_but_into_the_page(alone: Any) -> None:
    for address in ("javascript:alert(1)", "https://example.org", "//example.org", "x.html"):
        drawn = f"draw(h('a', {{href: {address!r}}}, 'x'))"
        assert alone.eval(f"(() => {{ try {{ {drawn}; return 'set' }} catch {{ return 'refused' }} }})()") == "refused"
        assert alone.eval("document.querySelector('a[href]')") is None
