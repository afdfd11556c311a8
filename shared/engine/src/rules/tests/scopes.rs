//! What a call touches.

use super::*;

#[test]
fn paths_are_normalised_by_their_text() {
    let cases = [
        ("docs/a.md", "docs/a.md"),
        ("./docs//a.md", "docs/a.md"),
        ("docs/../secret/a", "secret/a"),
        ("docs/../../secret", "../secret"),
        ("../../a/..", "../.."),
        ("docs/..", "."),
        ("", "."),
        ("/docs/../etc/passwd", "/etc/passwd"),
        ("/../etc", "/etc"),
        ("//etc", "/etc"),
        ("docs/…", "docs/…"),
    ];
    for (given, expected) in cases {
        assert_eq!(path_of(given), known(expected), "{given}");
    }
    for given in [
        "docs/%2e%2e/secret",
        "docs\\..\\secret",
        "docs/a\0",
        "docs/a\n",
        "docs/a ",
        "~/secret",
        "~",
        "~root/a",
        "file:///etc/passwd",
        "/proc/self/cwd/a",
        "//proc/../proc/1",
        "../../../proc/self/cwd/a",
        "/dev/fd/3",
    ] {
        assert_eq!(path_of(given), known("unclear"), "{given:?}");
    }
}

#[test]
fn a_host_is_what_every_reader_sees() {
    let host = |url: &str| value("url", &serde_json::json!({ "url": url }).to_string());
    for (url, expected) in [
        ("https://Example.COM/a?b#c", "example.com"),
        ("http://example.com.:8080", "example.com"),
        ("https://[::1]:80/", "::1"),
        ("https://127.0.0.1", "127.0.0.1"),
        ("https://[::ffff:127.0.0.1]", "127.0.0.1"),
        ("https://[0:0::1]/", "::1"),
    ] {
        assert_eq!(host(url), known(expected), "{url}");
    }
    for url in [
        "https://good.example@evil.example/",
        "https://good.example\\@evil.example/",
        "https://good.example%2eevil.example",
        "https://good.example:80@evil.example",
        "https:/good.example",
        "good.example",
        "https:///good.example",
        "https://",
        "https://exämple.com",
        "https://[::1",
        "http://2130706433/",
        "http://127.1",
        "http://0x7f.1",
    ] {
        assert_eq!(host(url), known("unclear"), "{url}");
    }
}

#[test]
fn a_value_that_is_no_text_is_unclear_and_one_left_out_is_absent() {
    assert_eq!(value("owner", "{}"), None);
    assert_eq!(value("owner", r#"{"owner": null}"#), None);
    assert_eq!(value("owner", r#"{"owner": ["a"]}"#), known("unclear"));
    for text in ["docs/../a", "..", "a\\..\\b"] {
        let arguments = serde_json::json!({ "owner": text }).to_string();
        assert_eq!(value("owner", &arguments), known("unclear"), "{text}");
    }
    assert_eq!(value("owner", r#"{"owner": "a..b"}"#), known("a..b"));
    assert_eq!(value("path", ""), known("."));
}

/// An argument that is not declared, a name in another case, and what is no object.
#[test]
fn what_servers_differ_about_is_denied_and_asked_and_never_allowed() {
    let names = [matchers(), vec![matcher("Owner", MatcherKind::Text, None)]].concat();
    for arguments in [
        r#"{"path": "docs/a", "Path": "secret/a"}"#,
        r#"{"path": "docs/a", "PATH": "docs/a"}"#,
        r#"{"path": "docs/a", "further": 1}"#,
        r#"{"owner": "a", "Owner": "a"}"#,
        "[]",
        "{",
    ] {
        let scope = scope(&names, arguments, &[]);
        let judge = |answer, default| {
            let when = [("path", "secret/**")];
            let rules = Rules::new(vec![rule("fs__*", &when, None, answer)]).expect("patterns");
            rules.judge("fs__read", &scope, "default", default).answer
        };
        assert_eq!(
            judge(Answer::Deny, Answer::Allow),
            Answer::Deny,
            "{arguments}"
        );
        assert_eq!(
            judge(Answer::Ask, Answer::Allow),
            Answer::Ask,
            "{arguments}"
        );
        assert_eq!(
            judge(Answer::Allow, Answer::Ask),
            Answer::Ask,
            "{arguments}"
        );
        let always = Condition {
            name: "path".to_owned(),
            pattern: "**".to_owned(),
        };
        assert!(
            !Conditions::from(vec![always]).covers(&scope),
            "{arguments}"
        );
        assert!(!Conditions::from(Vec::new()).covers(&scope), "{arguments}");
    }
}

#[test]
fn an_absolute_path_below_the_folder_is_relative() {
    let of = |folder: &str, path: &str| {
        let matcher = Matcher {
            folder: Some(folder.to_owned()),
            ..matcher("path", MatcherKind::Path, None)
        };
        let arguments = serde_json::json!({ "path": path }).to_string();
        value_of(&scope(&[matcher], &arguments, &[]), "path")
    };
    for (path, expected) in [
        ("/ws/a.md", "a.md"),
        ("/ws/../ws//docs/a.md", "docs/a.md"),
        ("/ws", "."),
        ("/ws/../etc", "/etc"),
        ("/wsx/a", "/wsx/a"),
        ("a.md", "a.md"),
        ("../ws/a.md", "a.md"),
        ("../etc/a", "/etc/a"),
    ] {
        assert_eq!(of("/ws", path), known(expected), "{path}");
    }
    assert_eq!(of("/", "/etc"), known("etc"));
    let long = format!("/ws/{}", "a".repeat(5000));
    assert_eq!(of("/ws", &long), known("unclear"));
    let dots = format!("{}a.md", "./".repeat(5000));
    assert_eq!(of("/ws", &dots), known("a.md"));
}

#[test]
fn a_link_leads_to_where_the_tools_service_found() {
    let of = |leads: &str| {
        let link = Condition {
            name: "docs/link".to_owned(),
            pattern: leads.to_owned(),
        };
        scope(&matchers(), r#"{"path": "docs/link"}"#, &[link])
    };
    assert_eq!(value_of(&of("secret/a"), "path"), known("secret/a"));
    assert_eq!(value_of(&of(""), "path"), known("unclear"));
    let judge = |leads: &str, pattern: &str, answer| {
        let when = [("path", pattern)];
        let rules = Rules::new(vec![rule("*", &when, None, answer)]).expect("patterns");
        let default = match answer {
            Answer::Allow => Answer::Ask,
            Answer::Ask | Answer::Deny => Answer::Allow,
        };
        rules.judge("a", &of(leads), "default", default).answer
    };
    assert_eq!(judge("secret/a", "secret/**", Answer::Deny), Answer::Deny);
    assert_eq!(judge("secret/a", "docs/**", Answer::Allow), Answer::Ask);
    assert_eq!(judge("docs/b", "docs/**", Answer::Allow), Answer::Allow);
    assert_eq!(judge("", "docs/**", Answer::Allow), Answer::Ask);
    assert_eq!(judge("", "other/**", Answer::Deny), Answer::Deny);
}

/// Rules of a path are for every path of a call, and for every text that may be one.
#[test]
fn path_means_every_path_that_a_rule_does_not_name() {
    let tool = [
        matcher("path", MatcherKind::Path, None),
        matcher("destination", MatcherKind::Path, None),
        matcher("whither", MatcherKind::Text, None),
        matcher("message", MatcherKind::Prose, None),
        matcher("files", MatcherKind::Json, None),
        matcher("free", MatcherKind::Free, None),
    ];
    let may_be = |when: &[(&str, &str)], arguments: &str| {
        let is = |answer, default| {
            let rules = Rules::new(vec![rule("*", when, None, answer)]).expect("patterns");
            let scope = scope(&tool, arguments, &[]);
            rules.judge("a", &scope, "default", default).answer == answer
        };
        (
            is(Answer::Allow, Answer::Ask),
            is(Answer::Deny, Answer::Allow),
        )
    };
    let docs = [("path", "docs/**")];
    // Whether a rule with the pattern allows, and whether it denies.
    for (arguments, expected) in [
        (r#"{"path": "docs/a"}"#, (true, true)),
        (
            r#"{"path": "docs/a", "destination": "docs/b"}"#,
            (true, true),
        ),
        (
            r#"{"path": "docs/a", "destination": "out/b"}"#,
            (false, true),
        ),
        (r#"{"destination": "docs/a"}"#, (true, true)),
        (r#"{"path": ["docs/a", "docs/b"]}"#, (true, true)),
        (r#"{"path": ["docs/a", "out/b"]}"#, (false, true)),
        (r#"{"path": []}"#, (false, false)),
        (r#"{"path": 5}"#, (false, true)),
        (r#"{"path": [5]}"#, (false, true)),
        (r#"{"path": "out/a", "message": "docs/a"}"#, (false, true)),
        (r#"{"path": "docs/a", "message": "out/b"}"#, (true, true)),
        (r#"{"path": "docs/a", "whither": "a word"}"#, (true, true)),
        (r#"{"path": "docs/a", "whither": "word"}"#, (true, true)),
        (r#"{"path": "docs/a", "whither": "out/b"}"#, (false, true)),
        (
            r#"{"path": "docs/a", "whither": "/etc/a b"}"#,
            (false, true),
        ),
        (r#"{"path": "docs/a", "whither": "b.md"}"#, (false, true)),
        (
            r#"{"path": "docs/a", "whither": "https://a.b/c"}"#,
            (true, true),
        ),
        (r#"{"path": "out/a", "whither": "docs/b"}"#, (false, true)),
        (
            r#"{"path": "docs/a", "files": [{"path": "out/a"}]}"#,
            (false, true),
        ),
        (
            r#"{"path": "docs/a", "files": [{"content": "out/a"}]}"#,
            (true, true),
        ),
        (
            r#"{"path": "docs/a", "files": {"out/a": "x"}}"#,
            (false, true),
        ),
        (
            r#"{"path": "out/a", "files": {"docs/a": "x"}}"#,
            (false, true),
        ),
        (r#"{"path": "out/a", "free": "docs/a"}"#, (false, false)),
        (
            r#"{"path": "out/a", "message": "see docs/a"}"#,
            (false, false),
        ),
        (r#"{"message": "a"}"#, (false, false)),
        ("{}", (false, false)),
    ] {
        assert_eq!(may_be(&docs, arguments), expected, "{arguments}");
    }
    let both = [("path", "docs/**"), ("destination", "out/**")];
    let moved = r#"{"path": "docs/a", "destination": "out/b"}"#;
    assert_eq!(may_be(&both, moved), (true, true));
    let back = r#"{"path": "docs/a", "destination": "docs/b"}"#;
    assert_eq!(may_be(&both, back), (false, false));
}

/// A pattern on an argument of text is meant for where the text leads, if it is a path.
#[test]
fn a_pattern_with_a_separator_holds_for_a_text_as_a_path() {
    let tool = [Matcher {
        folder: Some("/ws".to_owned()),
        ..matcher("whither", MatcherKind::Text, None)
    }];
    for text in [
        "private/k",
        "./private/k",
        "/ws/private/k",
        "private%2fk",
        "private\\k",
    ] {
        let arguments = serde_json::json!({ "whither": text }).to_string();
        let scope = scope(&tool, &arguments, &[]);
        let when = [("whither", "private/**")];
        let deny = Rules::new(vec![rule("*", &when, None, Answer::Deny)]).expect("patterns");
        let verdict = deny.judge("a", &scope, "default", Answer::Allow);
        assert_eq!(verdict.answer, Answer::Deny, "{text}");
    }
}

/// A server elsewhere has folders that are not known here.
#[test]
fn a_path_from_an_unknown_root_is_not_compared_with_a_relative_pattern() {
    for text in [
        "/secret/k",
        "../secret/k",
        "/srv/ws/secret/k",
        "C:/ws/secret/k",
        "c:\\ws\\secret\\k",
    ] {
        let arguments = serde_json::json!({ "path": text }).to_string();
        let scope = scope(&matchers(), &arguments, &[]);
        let when = [("path", "secret/**")];
        let deny = Rules::new(vec![rule("*", &when, None, Answer::Deny)]).expect("patterns");
        let verdict = deny.judge("a", &scope, "default", Answer::Allow);
        assert_eq!(verdict.answer, Answer::Deny, "{text}");
    }
}

/// What one rule of the paths of a call makes of it, in a program with the folder `/ws`.
fn judged(answer: Answer, pattern: &str, kind: MatcherKind, text: &str) -> Answer {
    let tool = [Matcher {
        folder: Some("/ws".to_owned()),
        ..matcher("at", kind, None)
    }];
    let arguments = serde_json::json!({ "at": text }).to_string();
    let default = match answer {
        Answer::Allow => Answer::Ask,
        Answer::Ask | Answer::Deny => Answer::Allow,
    };
    let when = [("path", pattern)];
    let rules = Rules::new(vec![rule("*", &when, None, answer)]).expect("patterns");
    let scope = scope(&tool, &arguments, &[]);
    rules.judge("a", &scope, "default", default).answer
}

/// A rule that denies `private/**` denies it.
fn is_private(kind: MatcherKind, text: &str) -> bool {
    judged(Answer::Deny, "private/**", kind, text) == Answer::Deny
}

/// A rule that allows `docs/**` allows it.
fn is_of_docs(kind: MatcherKind, text: &str) -> bool {
    judged(Answer::Allow, "docs/**", kind, text) == Answer::Allow
}

#[test]
fn a_pattern_from_the_root_means_paths_in_the_folder_too() {
    use MatcherKind::Path;
    for text in ["private/k", "/ws/private/k", "../ws/private/k", "private"] {
        let denied = judged(Answer::Deny, "/ws/private/**", Path, text);
        assert_eq!(denied, Answer::Deny, "{text}");
        let allowed = judged(Answer::Allow, "/ws/private/**", Path, text);
        assert_eq!(allowed, Answer::Allow, "{text}");
    }
    for text in ["docs/a", "/private/k", "private2"] {
        let denied = judged(Answer::Deny, "/ws/private/**", Path, text);
        assert_eq!(denied, Answer::Allow, "{text}");
    }
    // The folder's own name is no part of a path in it.
    let allowed = judged(Answer::Allow, "**/ws/**", Path, "docs/a");
    assert_eq!(allowed, Answer::Ask);
}

/// Servers strip quotes and marks of the byte order, and readers of addresses take line ends out of them.
#[test]
fn a_path_in_a_form_that_a_program_undoes_passes_no_rule() {
    use MatcherKind::{Path, Text};
    for text in [
        "\"private/k\"",
        "'private/k'",
        "\"private/k",
        " 'private/k' ",
        "\u{feff}private/k",
        "file:///ws/pri\nvate/k",
        "fi\tle:///ws/private/k",
        "FILE://LOCALHOST/ws/private/k",
        "file:///ws/%70rivate/k",
        "$HOME/private/k",
        "${PWD}/private/k",
        "%2570rivate/k",
        "PRIVATE/k",
        "Private",
        "/ws/Private/k",
        "/WS/private/k",
    ] {
        for kind in [Path, Text] {
            assert!(is_private(kind, text), "{kind:?} {text:?}");
        }
        assert!(!is_of_docs(Path, text), "{text:?}");
    }
    for text in [
        "docs/$id.tsx",
        "docs/it's.md",
        "docs/'a'/b",
        "docs/[id]/a.md",
        "docs/Smith & Co.md",
        "docs/100%.md",
        "docs/5%/a.md",
        "docs/%zz.md",
        "docs/%d%s",
    ] {
        assert!(!is_private(Path, text), "{text:?}");
        assert!(is_of_docs(Path, text), "{text:?}");
    }
    // Some programs read them as another path, and others do not.
    for text in [
        "docs/a%20b.md",
        "docs/%u002e.md",
        "%TEMP%/k",
        "file:///ws/docs/a.md",
    ] {
        assert!(is_private(Path, text), "{text:?}");
        assert!(!is_of_docs(Path, text), "{text:?}");
    }
}

/// A tool that declares no arguments takes whatever a call has, also files by their names.
#[test]
fn arguments_that_are_not_declared_are_read_in_the_folder_of_the_program() {
    let tool = [Matcher::of_undeclared("/ws".to_owned())];
    let link = Condition {
        name: "klink".to_owned(),
        pattern: "private/k".to_owned(),
    };
    let when = [("path", "private/**")];
    let deny = Rules::new(vec![rule("*", &when, None, Answer::Deny)]).expect("patterns");
    let docs = [("path", "docs/**")];
    let allow = Rules::new(vec![rule("*", &docs, None, Answer::Allow)]).expect("patterns");
    // Whether the one denies, and whether the other allows.
    for (arguments, expected) in [
        (r#"{"path": "docs/a"}"#, (false, true)),
        (r#"{"path": "/ws/docs/a"}"#, (false, true)),
        (r#"{"path": "klink"}"#, (true, false)),
        (r#"{"target": "klink"}"#, (true, false)),
        (r#"{"path": "docs/a", "private/k": 1}"#, (true, false)),
        (r#"{"path": "docs/a", "private/k": null}"#, (true, false)),
        (r#"{"/ws/private/k": "x"}"#, (true, false)),
        (r#"{"klink": "x"}"#, (true, false)),
        (r#"{"docs/a": "x"}"#, (false, true)),
        (r#"{"count": 3}"#, (false, false)),
    ] {
        let scope = scope(&tool, arguments, std::slice::from_ref(&link));
        assert!(!scope.is_unclear, "{arguments}");
        let denied = deny.judge("a", &scope, "default", Answer::Allow).answer;
        let allowed = allow.judge("a", &scope, "default", Answer::Ask).answer;
        let found = (denied == Answer::Deny, allowed == Answer::Allow);
        assert_eq!(found, expected, "{arguments}");
    }
}

/// An approval names all that the call has, and the folder is no argument.
#[test]
fn an_approval_of_a_tool_that_declares_nothing_covers_only_named_arguments() {
    let tool = [Matcher::of_undeclared("/ws".to_owned())];
    let always = Condition {
        name: "path".to_owned(),
        pattern: "docs/**".to_owned(),
    };
    let always = Conditions::from(vec![always]);
    let covers = |arguments: &str| always.covers(&scope(&tool, arguments, &[]));
    assert!(covers(r#"{"path": "docs/a"}"#));
    assert!(!covers(r#"{"path": "docs/a", "further": 1}"#));
    assert!(!covers(r#"{"path": "private/k"}"#));
}

/// Some systems and servers take `PRIVATE` for `private`, and others do not.
#[test]
fn case_is_ignored_by_rules_that_deny_and_kept_by_rules_that_allow() {
    let owner = |answer, default, name: &str| {
        let rules =
            Rules::new(vec![rule("*", &[("owner", "Ann-É*")], None, answer)]).expect("patterns");
        let arguments = serde_json::json!({ "owner": name }).to_string();
        let scope = scope(&matchers(), &arguments, &[]);
        rules.judge("a", &scope, "default", default).answer
    };
    for name in ["Ann-É1", "ann-é1", "ANN-É1"] {
        assert_eq!(
            owner(Answer::Deny, Answer::Allow, name),
            Answer::Deny,
            "{name}"
        );
        assert_eq!(
            owner(Answer::Ask, Answer::Allow, name),
            Answer::Ask,
            "{name}"
        );
    }
    assert_eq!(owner(Answer::Allow, Answer::Ask, "Ann-É1"), Answer::Allow);
    assert_eq!(owner(Answer::Allow, Answer::Ask, "ann-é1"), Answer::Ask);
}

/// Rules of a host are for every address of a call, also beside an argument that is named `host`.
#[test]
fn host_means_every_address_of_a_call() {
    let judge = |answer, default, arguments: &str| {
        let when = [("host", "good.example")];
        let rules = Rules::new(vec![rule("*", &when, None, answer)]).expect("patterns");
        // The tool declares no arguments.
        let scope = scope(&[], arguments, &[]);
        rules.judge("a", &scope, "default", default).answer
    };
    for (arguments, is_allowed, is_denied) in [
        (r#"{"url": "https://good.example/a"}"#, true, true),
        (r#"{"url": "https://evil.example/a"}"#, false, false),
        (r#"{"host": "good.example"}"#, true, true),
        (
            r#"{"host": "good.example", "url": "https://good.example/a"}"#,
            true,
            true,
        ),
        (
            r#"{"host": "good.example", "url": "https://evil.example/a"}"#,
            false,
            true,
        ),
        (
            r#"{"host": "evil.example", "url": "https://good.example/a"}"#,
            false,
            true,
        ),
        (
            r#"{"url": "https://good.example/a", "target": "https://evil.example/a"}"#,
            false,
            true,
        ),
        (
            r#"{"url": "https://good.example/a", "target": "word"}"#,
            true,
            true,
        ),
        (
            r#"{"url": "https://good.example/a", "message": "https://evil.example/a"}"#,
            true,
            true,
        ),
        (
            r#"{"url": "https://evil.example/a", "target": "https://good.example/a"}"#,
            false,
            true,
        ),
        (r#"{"target": "https://good.example/a"}"#, false, true),
        (r#"{"target": " https://GOOD.example./"}"#, false, true),
        (r#"{"target": "https://a@good.example/"}"#, false, true),
        (r#"{"target": "https://a@b.example/"}"#, false, true),
        (r#"{"target": ["https://a:b@good.example/"]}"#, false, true),
        (r#"{"target": "file:///docs/a"}"#, false, false),
        (r#"{"message": "see https://a@b.example/"}"#, false, false),
    ] {
        let allowed = judge(Answer::Allow, Answer::Ask, arguments);
        assert_eq!(allowed == Answer::Allow, is_allowed, "{arguments}");
        let denied = judge(Answer::Deny, Answer::Allow, arguments);
        assert_eq!(denied == Answer::Deny, is_denied, "{arguments}");
    }
}

/// A list, an assignment, JSON or a command in one text.
#[test]
fn a_path_in_a_longer_text_passes_no_rule_that_denies() {
    use MatcherKind::{Path, Text};
    for text in ["docs/a,private/k", "docs/a, private/k", "docs/a;private/k"] {
        for kind in [Path, Text] {
            assert!(is_private(kind, text), "{kind:?} {text:?}");
            assert!(!is_of_docs(kind, text), "{kind:?} {text:?}");
        }
    }
    for text in [
        "docs/a:private/k",
        "/ws/docs/a:/ws/private/k",
        "docs/a\nprivate/k",
        "@private/k",
        "key=private/k",
        "--file=./private/k",
        r#"{"path": "private/k"}"#,
        "cat docs/a private/k",
        "cat </ws/private/k",
        "docs/a|../ws/private/k",
        "PRIVATE/k docs/a",
    ] {
        assert!(is_private(Text, text), "{text:?}");
    }
    for text in ["docs/a,docs/b", "docs/log-12:30.txt"] {
        assert!(is_of_docs(Path, text), "{text:?}");
    }
    for text in [
        "keep it private",
        "bug, private",
        "docs/a,docs/b",
        "https://a.example/x?y=docs/z",
        "see ~/x or $HOME/a, 50% of it",
        "12:30, a/b",
    ] {
        assert!(!is_private(Text, text), "{text:?}");
    }
    assert!(!is_private(MatcherKind::Prose, "see private/k"));
}

/// Patterns of files are from the folder that the call names, unless they leave it.
#[test]
fn a_pattern_of_files_is_no_path_unless_it_leaves() {
    let tool = [
        matcher("path", MatcherKind::Path, None),
        matcher("pattern", MatcherKind::Text, None),
        matcher("title", MatcherKind::Prose, None),
    ];
    let allows = |name: &str, text: &str| {
        let arguments = serde_json::json!({ "path": "docs", name: text }).to_string();
        let scope = scope(&tool, &arguments, &[]);
        let when = [("path", "docs/**")];
        let rules = Rules::new(vec![rule("*", &when, None, Answer::Allow)]).expect("patterns");
        let verdict = rules.judge("a", &scope, "default", Answer::Ask);
        verdict.answer == Answer::Allow
    };
    for text in [
        "*.md",
        "**/*.rs",
        "node_modules/**",
        "a?.txt",
        "https://a.example/b",
    ] {
        assert!(allows("pattern", text), "{text}");
    }
    for text in [
        "/etc/*",
        "../*",
        "~/*",
        "a/../../*",
        ".*/k",
        "a.md",
        "https://../../etc/k",
    ] {
        assert!(!allows("pattern", text), "{text}");
    }
    // A tool may make a name of a file of it.
    for text in ["../../k", "a/../../k", "..\\k"] {
        assert!(!allows("title", text), "{text}");
    }
    for text in ["a/b", "one .. two", "see ../k, please", "/help"] {
        assert!(allows("title", text), "{text}");
    }
}

/// A schema takes 3.0 for an integer, and so do programs.
#[test]
fn a_rule_that_denies_a_number_denies_it_in_every_form() {
    let judge = |answer, default, number: &str| {
        let when = [("amount", "3")];
        let rules = Rules::new(vec![rule("*", &when, None, answer)]).expect("patterns");
        let arguments = format!(r#"{{"amount": {number}}}"#);
        let scope = scope(&matchers(), &arguments, &[]);
        rules.judge("a", &scope, "default", default).answer
    };
    for number in ["3", "3.0", "3e0", "30e-1", "0.3E1"] {
        assert_eq!(
            judge(Answer::Deny, Answer::Allow, number),
            Answer::Deny,
            "{number}"
        );
    }
    for number in ["4", "3.1", "33", "[3]"] {
        assert_eq!(
            judge(Answer::Deny, Answer::Allow, number),
            Answer::Allow,
            "{number}"
        );
    }
    assert_eq!(judge(Answer::Allow, Answer::Ask, "3"), Answer::Allow);
}

/// A model can mend its call.
#[test]
fn a_denial_says_that_arguments_are_unclear() {
    let denial = |when: &[(&str, &str)], arguments: &str| {
        let rules = Rules::new(vec![rule("*", when, None, Answer::Deny)]).expect("patterns");
        let scope = scope(&matchers(), arguments, &[]);
        let verdict = rules.judge("a", &scope, "default", Answer::Allow);
        verdict.denial("a").expect("a denial")
    };
    let when = [("path", "secret/**")];
    let further = r#"{"path": "docs/a", "further": 1}"#;
    assert!(denial(&when, further).contains("unclear"));
    assert!(!denial(&when, r#"{"path": "secret/a"}"#).contains("unclear"));
    assert!(!denial(&[], further).contains("unclear"));
}

/// An address is no path, so its two slashes stay.
#[test]
fn a_pattern_of_addresses_holds_for_a_text_as_it_is() {
    let judge = |text: &str| {
        let when = [("owner", "https://a.example/v1/**")];
        let rules = Rules::new(vec![rule("*", &when, None, Answer::Allow)]).expect("patterns");
        let arguments = serde_json::json!({ "owner": text }).to_string();
        let scope = scope(&matchers(), &arguments, &[]);
        rules.judge("a", &scope, "default", Answer::Ask).answer
    };
    assert_eq!(judge("https://a.example/v1/x"), Answer::Allow);
    for text in [
        "https://a.example/v2/x",
        "https://a.example/v1/../x",
        "https://a.example/v1/%2e%2e/x",
        "https://a.example/v1/x\n",
        "https:/a.example/v1/x",
    ] {
        assert_eq!(judge(text), Answer::Ask, "{text:?}");
    }
}
