//! Untrusted text in terminals and in Markdown.

use cairn_views::safe::{code, fenced, inline, one_line, paragraph, visible};

#[test]
fn what_steers_a_terminal_is_made_visible() {
    assert_eq!(
        visible("a\u{1b}[2Jb\u{7}\r\u{9b}c"),
        r"a\u{1b}[2Jb\u{7}\u{d}\u{9b}c"
    );
    assert_eq!(
        visible("a\u{202e}b\u{2066}c\u{feff}\u{e0041}"),
        r"a\u{202e}b\u{2066}c\u{feff}\u{e0041}"
    );
    assert_eq!(
        visible("tab\tand\nline, ünïcode 中文 👩\u{200d}🔧"),
        "tab\tand\nline, ünïcode 中文 👩\u{200d}🔧"
    );
    assert_eq!(one_line("  a\r\n\tb \u{2028} c\u{0}"), r"a b c\u{0}");
}

#[test]
fn inline_text_makes_no_markdown() {
    let cases = [
        ("*bold* _it_ `code`", r"\*bold\* \_it\_ \`code\`"),
        ("![x](http://e) [y](z)", r"!\[x\](http://e) \[y\](z)"),
        ("<script>&amp;</script>", r"\<script\>\&amp;\</script\>"),
        ("# heading\n- item", r"\# heading - item"),
        ("- item", r"\- item"),
        ("+ item", r"\+ item"),
        ("1. item", r"1\. item"),
        ("12) item", r"12\) item"),
        ("v1.2 is 3) not. an item", "v1.2 is 3) not. an item"),
        ("a|b ~~c~~ \\*", r"a\|b \~\~c\~\~ \\\*"),
        ("docs/my_file_name.md - fine", "docs/my_file_name.md - fine"),
        ("=== \n---", r"\=== ---"),
    ];
    for (text, expected) in cases {
        assert_eq!(inline(text), expected);
    }
}

#[test]
fn code_and_fences_cannot_be_ended_from_within() {
    assert_eq!(code("a"), "`a`");
    assert_eq!(code("a `b` c"), "``a `b` c``");
    assert_eq!(code("`"), "`` ` ``");
    assert_eq!(code("a\n```\nb"), "````a ``` b````");
    assert_eq!(code(""), "`  `");
    assert_eq!(fenced("a\nb\n"), "```text\na\nb\n```");
    assert_eq!(fenced("a\n`````\n# b"), "``````text\na\n`````\n# b\n``````");
    assert_eq!(fenced("~~~\n\u{1b}"), "```text\n~~~\n\\u{1b}\n```");
}

#[test]
fn a_paragraph_of_several_lines_is_fenced() {
    assert_eq!(paragraph(" one *line* \n"), r"one \*line\*");
    assert_eq!(paragraph("two\n# lines"), "```text\ntwo\n# lines\n```");
}
