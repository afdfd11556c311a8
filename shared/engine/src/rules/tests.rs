use super::*;

fn rule(tool: &str, when: &[(&str, &str)], agent: Option<&str>, answer: Answer) -> Rule {
    Rule {
        tool: tool.to_owned(),
        when: when
            .iter()
            .map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned()))
            .collect(),
        agent: agent.map(str::to_owned),
        answer,
    }
}

fn matchers() -> Vec<Matcher> {
    let matcher = |name: &str, kind, default: Option<&str>| Matcher {
        folder: None,
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: default.map(str::to_owned),
    };
    vec![
        matcher("path", MatcherKind::Path, Some(".")),
        matcher("url", MatcherKind::Host, None),
        matcher("owner", MatcherKind::Text, None),
        matcher("amount", MatcherKind::Json, Some("1")),
    ]
}

fn value(name: &str, arguments: &str) -> Option<Value> {
    values(&matchers(), arguments).remove(name)
}

fn path_of(text: &str) -> Option<Value> {
    let arguments = serde_json::json!({ "path": text }).to_string();
    value("path", &arguments)
}

fn known(text: &str) -> Option<Value> {
    Some(Value::Known(text.to_owned()))
}

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
        "~/secret",
        "file:///etc/passwd",
    ] {
        assert_eq!(path_of(given), Some(Value::Unclear), "{given:?}");
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
        assert_eq!(host(url), Some(Value::Unclear), "{url}");
    }
}

#[test]
fn a_value_that_is_no_text_is_unclear_and_one_left_out_is_absent() {
    assert_eq!(value("owner", "{}"), None);
    assert_eq!(value("owner", r#"{"owner": null}"#), None);
    assert_eq!(value("owner", r#"{"owner": ["a"]}"#), Some(Value::Unclear));
    for text in ["docs/../a", "..", "a\\..\\b"] {
        let arguments = serde_json::json!({ "owner": text }).to_string();
        assert_eq!(value("owner", &arguments), Some(Value::Unclear), "{text}");
    }
    assert_eq!(value("owner", r#"{"owner": "a..b"}"#), known("a..b"));
    assert_eq!(value("path", ""), known("."));
    assert_eq!(value("path", "[]"), Some(Value::Unclear));
    assert_eq!(value("path", "{"), Some(Value::Unclear));
}

#[test]
fn an_absolute_path_below_the_folder_is_relative() {
    let of = |folder: &str, path: &str| {
        let matcher = Matcher {
            name: "path".to_owned(),
            kind: MatcherKind::Path,
            argument: "path".to_owned(),
            default: None,
            folder: Some(folder.to_owned()),
        };
        let arguments = serde_json::json!({ "path": path }).to_string();
        values(&[matcher], &arguments).remove("path")
    };
    for (path, expected) in [
        ("/ws/a.md", "a.md"),
        ("/ws/../ws//docs/a.md", "docs/a.md"),
        ("/ws", "."),
        ("/ws/../etc", "/etc"),
        ("/wsx/a", "/wsx/a"),
        ("a.md", "a.md"),
        ("../ws/a.md", "../ws/a.md"),
    ] {
        assert_eq!(of("/ws", path), known(expected), "{path}");
    }
    assert_eq!(of("/", "/etc"), known("etc"));
    let long = format!("/ws/{}", "a".repeat(5000));
    assert_eq!(of("/ws", &long), Some(Value::Unclear));
}

#[test]
fn the_pattern_of_a_value_matches_it_and_no_other() {
    for value in [
        "a\\b", "end\\", "*", "[a]", "{a,b}", "a/**", "?", "!", "plain", "",
    ] {
        let pattern = exactly(value);
        assert!(pattern_matches(&pattern, value), "{value}: {pattern}");
        assert!(!pattern_matches(&pattern, &format!("{value}x")), "{value}");
    }
}

#[test]
fn a_value_of_json_is_compared_in_one_form() {
    for (arguments, expected) in [
        ("{}", "1"),
        (r#"{"amount": 100}"#, "100"),
        (
            r#"{"amount": {"b": [1], "a": true}}"#,
            r#"{"a":true,"b":[1]}"#,
        ),
    ] {
        assert_eq!(value("amount", arguments), known(expected), "{arguments}");
    }
}

#[test]
fn two_arguments_of_one_name_that_differ_are_unclear() {
    let mut both = matchers();
    both.push(Matcher {
        folder: None,
        name: "path".to_owned(),
        kind: MatcherKind::Path,
        argument: "target".to_owned(),
        default: None,
    });
    let of = |arguments: &str| values(&both, arguments).remove("path");
    assert_eq!(of(r#"{"path": "a", "target": "b"}"#), Some(Value::Unclear));
    assert_eq!(of(r#"{"path": "a", "target": "./a"}"#), known("a"));
}

/// Each cell by hand: rows are rules, columns are the calls.
#[test]
fn the_strictest_matching_rule_answers_and_the_default_only_without_one() {
    use Answer::{Allow, Ask, Deny};
    let docs = r#"{"path": "docs/a.md"}"#;
    let out = r#"{"path": "docs/../secret"}"#;
    let odd = r#"{"path": "docs/%2e%2e/secret"}"#;
    let when = [("path", "docs/**")];
    type Row<'a> = (Vec<Rule>, Answer, &'a str, [Answer; 3]);
    let table: Vec<Row<'_>> = vec![
        // rules, default, agent, [docs/a.md, docs/../secret, docs/%2e%2e/secret]
        (vec![], Allow, "default", [Allow, Allow, Allow]),
        (vec![], Ask, "default", [Ask, Ask, Ask]),
        (
            vec![rule("fs__*", &[], None, Allow)],
            Ask,
            "default",
            [Allow, Allow, Allow],
        ),
        (
            vec![rule("fs__*", &[], None, Deny)],
            Allow,
            "default",
            [Deny, Deny, Deny],
        ),
        (
            vec![rule("other__*", &[], None, Deny)],
            Allow,
            "default",
            [Allow, Allow, Allow],
        ),
        (
            vec![rule("fs__*", &when, None, Allow)],
            Ask,
            "default",
            [Allow, Ask, Ask],
        ),
        (
            vec![rule("fs__*", &when, None, Deny)],
            Allow,
            "default",
            [Deny, Allow, Deny],
        ),
        (
            vec![rule("fs__*", &when, None, Ask)],
            Allow,
            "default",
            [Ask, Allow, Ask],
        ),
        (
            vec![
                rule("*", &[], None, Allow),
                rule("fs__*", &when, None, Deny),
            ],
            Ask,
            "default",
            [Deny, Allow, Deny],
        ),
        (
            vec![
                rule("*", &[], None, Ask),
                rule("fs__write", &when, None, Allow),
            ],
            Allow,
            "default",
            [Ask, Ask, Ask],
        ),
        (
            vec![rule("*", &[], Some("writer"), Deny)],
            Allow,
            "default",
            [Allow, Allow, Allow],
        ),
        (
            vec![rule("*", &[], Some("writer"), Deny)],
            Allow,
            "writer",
            [Deny, Deny, Deny],
        ),
        (
            vec![rule("*", &[], Some("writer"), Allow)],
            Ask,
            "stranger",
            [Ask, Ask, Ask],
        ),
        (
            vec![rule("*", &[("host", "*")], None, Deny)],
            Allow,
            "default",
            [Allow, Allow, Allow],
        ),
    ];
    for (rules, default, agent, expected) in table {
        let shown: Vec<_> = rules.iter().map(Rule::to_line).collect();
        let rules = Rules::new(rules).expect("patterns");
        let judge = |arguments: &str| {
            let values = values(&matchers(), arguments);
            rules.judge("fs__write", &values, agent, default).answer
        };
        let answers = [docs, out, odd].map(judge);
        assert_eq!(
            answers, expected,
            "{shown:?}, default {default:?}, agent {agent}"
        );
    }
}

#[test]
fn a_tool_begins_early_only_if_no_rule_could_answer_otherwise() {
    use Answer::{Allow, Ask, Deny};
    let when = [("path", "docs/**")];
    let early = |rules: Vec<Rule>, default| {
        let rules = Rules::new(rules).expect("patterns");
        rules.always_allow("fs__read", DEFAULT_AGENT, default)
    };
    assert!(early(vec![], Allow));
    assert!(!early(vec![], Ask));
    assert!(early(vec![rule("fs__*", &[], None, Allow)], Ask));
    assert!(!early(vec![rule("fs__*", &when, None, Allow)], Ask));
    assert!(!early(vec![rule("fs__*", &when, None, Deny)], Allow));
    assert!(!early(vec![rule("*", &[], None, Deny)], Allow));
    assert!(early(vec![rule("*", &[], Some("writer"), Deny)], Allow));
    assert!(early(vec![rule("other", &[], None, Deny)], Allow));
}

#[test]
fn a_pattern_that_is_none_is_refused_with_its_place() {
    let bad = rule("fs__*", &[("path", "docs/{a")], None, Answer::Allow);
    let Err((at, field, problem)) = Rules::new(vec![rule("*", &[], None, Answer::Ask), bad]) else {
        panic!("'{{' is not closed");
    };
    assert_eq!((at, field.as_str()), (1, "when.path"));
    assert!(problem.contains("no pattern"), "{problem}");
}
