use super::*;

mod scopes;

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

fn matcher(name: &str, kind: MatcherKind, default: Option<&str>) -> Matcher {
    Matcher {
        folder: None,
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: default.map(str::to_owned),
    }
}

fn matchers() -> Vec<Matcher> {
    vec![
        matcher("path", MatcherKind::Path, Some(".")),
        matcher("url", MatcherKind::Host, None),
        matcher("owner", MatcherKind::Text, None),
        matcher("amount", MatcherKind::Json, Some("1")),
    ]
}

/// The value of an argument, `unclear`, or nothing for one that is left out.
fn value_of(scope: &Scope, name: &str) -> Option<String> {
    let value = scope.value(name)?;
    Some(value.map_or("unclear".to_owned(), str::to_owned))
}

fn value(name: &str, arguments: &str) -> Option<String> {
    value_of(&scope(&matchers(), arguments, &[]), name)
}

fn path_of(text: &str) -> Option<String> {
    let arguments = serde_json::json!({ "path": text }).to_string();
    value("path", &arguments)
}

fn known(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn the_pattern_of_a_value_matches_it_and_no_other() {
    for value in [
        "a\\b", "end\\", "*", "[a]", "{a,b}", "a/**", "?", "!", "plain", "",
    ] {
        let pattern = exactly(value);
        let matcher = Pattern::new(&pattern).expect("a pattern");
        assert!(matcher.is_match(value), "{value}: {pattern}");
        assert!(!matcher.is_match(&format!("{value}x")), "{value}");
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
fn names_say_how_texts_are_read() {
    use MatcherKind::{Host, Path, Prose, Text};
    for (name, kind) in [
        ("path", Path),
        ("filePath", Path),
        ("repo_path", Path),
        ("filepath", Path),
        ("file_name", Path),
        ("file-name", Path),
        ("fileName", Path),
        ("src", Path),
        ("source", Path),
        ("outputDir", Path),
        ("baseUrl", Host),
        ("endpoint", Host),
        ("message", Prose),
        ("oldText", Prose),
        ("branch_name", Prose),
        ("file_content", Prose),
        ("target", Text),
        ("name", Text),
        ("to", Text),
        ("pathology", Text),
        ("", Text),
    ] {
        assert_eq!(kind_of_text(name), kind, "{name}");
    }
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
            let scope = scope(&matchers(), arguments, &[]);
            rules.judge("fs__write", &scope, agent, default).answer
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

/// Such a rule would deny nothing, unseen.
#[test]
fn a_pattern_of_paths_that_no_path_matches_is_refused() {
    for pattern in [
        "",
        "./private/**",
        "private/",
        "/private/",
        "private//k",
        "private/../k",
        "../k",
        "..",
        "~/.ssh/**",
        "~",
        "/./k",
    ] {
        let rule = rule("*", &[("path", pattern)], None, Answer::Deny);
        assert!(rule.check().is_err(), "{pattern:?}");
        assert!(Rules::new(vec![rule]).is_err(), "{pattern:?}");
    }
    for pattern in [
        ".",
        "/",
        "/private/**",
        "private",
        "**",
        ".ssh/*",
        "a~",
        "...",
        "*/..k",
    ] {
        let rule = rule("*", &[("path", pattern)], None, Answer::Deny);
        assert_eq!(rule.check(), Ok(()), "{pattern:?}");
    }
    let text = rule("*", &[("label", "../")], None, Answer::Deny);
    assert_eq!(text.check(), Ok(()));
}
