use super::*;

fn edit<'a>(old: &'a str, new: &'a str) -> Edit<'a> {
    Edit {
        old,
        new,
        all: false,
        may_be_repeat: false,
    }
}

fn changed(text: &str, edit: &Edit<'_>) -> String {
    match replace(text, edit, "f") {
        Ok(Edited::Changed(text)) => text,
        other => panic!("{text:?} {edit:?}: {other:?}"),
    }
}

fn refused(text: &str, edit: &Edit<'_>) -> String {
    match replace(text, edit, "f") {
        Err(why) => why,
        other => panic!("{text:?} {edit:?}: {other:?}"),
    }
}

#[test]
fn the_only_occurrence_is_replaced() {
    for (text, old, new, expected) in [
        ("a b c", "b", "x", "a x c"),
        ("a", "a", "", ""),
        ("one\ntwo\n", "two\n", "", "one\n"),
        ("one\ntwo", "two", "two\nthree", "one\ntwo\nthree"),
        ("ä€🦀", "€", "e", "äe🦀"),
        ("\u{feff}one\n", "one", "two", "\u{feff}two\n"),
        ("a.b", ".", "*", "a*b"),
        ("x\ry", "\r", "\n", "x\ny"),
    ] {
        assert_eq!(changed(text, &edit(old, new)), expected, "{text:?}");
    }
}

#[test]
fn line_ends_are_those_of_the_place() {
    for (text, old, new, expected) in [
        ("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "c\r\nd", "c\r\nd\r\n"),
        ("a\r\nb\r\n", "a", "1\n2", "1\r\n2\r\nb\r\n"),
        ("a\r\nb\r\n", "a\n", "", "b\r\n"),
        ("a\r\nb\r\n", "\nb", "", "a\r\n"),
        ("a\nb\n", "a\r\nb", "c\r\nd", "c\nd\n"),
        // A file with both.
        ("a\r\nb\nc\n", "a", "1\n2", "1\r\n2\r\nb\nc\n"),
        ("a\r\nb\nc\n", "c", "1\n2", "a\r\nb\n1\n2\n"),
        ("a\nb\r\nc", "c", "1\n2", "a\nb\r\n1\r\n2"),
        ("a\r\nb\nc", "b", "1\n2", "a\r\n1\n2\nc"),
    ] {
        assert_eq!(changed(text, &edit(old, new)), expected, "{text:?} {old:?}");
    }
}

#[test]
fn every_occurrence_is_replaced_on_request() {
    for (text, old, new, expected) in [
        ("aaa", "a", "b", "bbb"),
        ("aaa", "aa", "b", "ba"),
        ("x\r\nx\nx", "x", "y\nz", "y\r\nz\r\ny\nz\ny\nz"),
        ("one", "one", "two", "two"),
    ] {
        let all = Edit {
            all: true,
            ..edit(old, new)
        };
        assert_eq!(changed(text, &all), expected, "{text:?}");
    }
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_do() {
    let all = Edit {
        all: true,
        ..edit("zebra", "x")
    };
    for (text, edit, words) in [
        ("a", edit("", "x"), "'old' is empty"),
        ("a", edit("a", "a"), "nothing would change"),
        ("a\r\nb", edit("a\nb", "a\r\nb"), "nothing would change"),
        (
            "a",
            edit("zebra", "x"),
            "'old' does not occur in 'f'. Read the file",
        ),
        ("a", all, "'old' does not occur in 'f'. Read the file"),
        (
            "  a\n",
            edit("a\nb", "x"),
            "line 1 is `  a`, where 'old' has `a`",
        ),
        (
            "color = 1\n",
            edit("colour", "color"),
            "'new' does, at line 1: was it edited already?",
        ),
        (
            "b\na\nb",
            edit("b", "x"),
            "'old' occurs 2 times in 'f', at lines 1, 3; take more",
        ),
        (
            "b b",
            edit("b", "x"),
            "'old' occurs 2 times in 'f', at line 1; take more",
        ),
        ("aaa", edit("aa", "x"), "'old' occurs 2 times"),
        (
            "a\n".repeat(40).as_str(),
            edit("a", "x"),
            "occurs 40 times in 'f', at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;",
        ),
    ] {
        let why = refused(text, &edit);
        assert!(why.contains(words), "{text:?} {edit:?}: {why}");
    }
}

/// Without a preview, an edit is sent again if its result is lost.
#[test]
fn a_repeat_is_not_made_a_second_time() {
    for (text, old, new, all) in [
        ("a b c", "b", "x", false),
        ("one\ntwo", "two", "two\nthree", false),
        ("one\r\ntwo", "two", "zero\ntwo\nthree", false),
        ("use a;\n", "use a;\n", "use a;\nuse b;\n", false),
        ("b\nb\n", "b", "bb", true),
        ("b\nb\n", "b", "x", true),
    ] {
        let once = Edit {
            all,
            may_be_repeat: true,
            ..edit(old, new)
        };
        let after = changed(text, &once);
        let again = replace(&after, &once, "f");
        assert!(
            matches!(again, Ok(Edited::Already(_))),
            "{after:?} {once:?}: {again:?}"
        );
    }
    // With a preview, the digests say what was done.
    let insert = edit("use a;\n", "use a;\nuse b;\n");
    let after = changed("use a;\nuse b;\n", &insert);
    assert_eq!(after, "use a;\nuse b;\nuse b;\n");
    // What was deleted is gone, and the second time says so.
    let delete = Edit {
        may_be_repeat: true,
        ..edit("zebra\n", "")
    };
    let after = changed("zebra\na\n", &delete);
    assert!(refused(&after, &delete).contains("does not occur"));
}

#[test]
fn a_huge_file_is_edited_in_no_time_to_speak_of() {
    let began = std::time::Instant::now();
    let text = "a".repeat(4 << 20);
    let all = Edit {
        all: true,
        ..edit("a", "b")
    };
    assert_eq!(changed(&text, &all), "b".repeat(4 << 20));
    let mixed = "a\r\n".repeat(1 << 20) + &"a".repeat(1 << 20) + "\n";
    assert_eq!(changed(&mixed, &all), mixed.replace('a', "b"));
    assert!(began.elapsed().as_secs() < 60);
}
