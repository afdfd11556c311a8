use super::*;
use crate::rules::{Answer, Conditions, scope};
use crate::session::Grant;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

const AGENT: &str = "default";
const DIGEST: &str = "digest";

fn matcher(name: &str, kind: MatcherKind) -> Matcher {
    Matcher {
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: None,
        folder: Some("/work".to_owned()),
    }
}

fn facts(matchers: Vec<Matcher>, server: Option<ToolServer>) -> ToolFacts {
    ToolFacts {
        digest: DIGEST.to_owned(),
        default: Answer::Ask,
        matchers,
        server,
        ..ToolFacts::default()
    }
}

/// A tool with one path and content, as those that write files.
fn edit() -> ToolFacts {
    let content = matcher("content", MatcherKind::Free);
    facts(vec![matcher("path", MatcherKind::Path), content], None)
}

fn shell() -> ToolFacts {
    let cwd = matcher("cwd", MatcherKind::Path);
    let timeout = matcher("timeout", MatcherKind::Json);
    facts(
        vec![matcher("command", MatcherKind::Text), cwd, timeout],
        None,
    )
}

fn server(name: &str, digest: &str) -> ToolServer {
    ToolServer {
        name: name.to_owned(),
        digest: digest.to_owned(),
    }
}

fn offered(tool: &str, facts: &ToolFacts, arguments: &Json) -> Vec<ApprovalScope> {
    let arguments = arguments.to_string();
    let scope = scope(&facts.matchers, &arguments, &[]);
    scopes(tool, facts, &scope, &arguments, false)
}

/// The offered scope whose name begins so.
fn named(offered: &[ApprovalScope], name: &str) -> Option<GrantScope> {
    let mut offered = offered.iter();
    let found = offered.find(|it| it.id.to_string().starts_with(name))?;
    found.scope.clone()
}

fn names(offered: &[ApprovalScope]) -> Vec<String> {
    offered.iter().map(|it| it.id.to_string()).collect()
}

/// An approval in force of that scope, given for a call of `tool`.
fn grant(tool: &str, scope: GrantScope) -> Grant {
    Grant {
        number: 1,
        tool: tool.to_owned(),
        tool_digest: DIGEST.to_owned(),
        when: Conditions::from(Vec::new()),
        scope: Some(scope),
        agent: AGENT.to_owned(),
        at: 0,
        principal: None,
    }
}

fn is_covered_by(grant: &Grant, tool: &str, facts: &ToolFacts, arguments: &Json) -> bool {
    let arguments = arguments.to_string();
    let scope = scope(&facts.matchers, &arguments, &[]);
    let call = Called {
        tool,
        server: facts.server.as_ref(),
        scope: &scope,
        arguments: &arguments,
    };
    grant.covers(&call, &facts.digest, AGENT)
}

fn part() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_]{0,7}"
}

/// A path with a folder, and the folder.
fn path() -> impl Strategy<Value = (String, String)> {
    (vec(part(), 0..4), part()).prop_map(|(folders, name)| match folders.is_empty() {
        true => (name, HERE.to_owned()),
        false => {
            let folder = folders.join("/");
            (format!("{folder}/{name}"), folder)
        }
    })
}

/// A text that an argument may have, of all kinds.
fn text() -> impl Strategy<Value = String> {
    let odd = select(vec![
        "",
        ".",
        "..",
        "/",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a/%2e%2e/b",
        "a\\b",
        "~/x",
        "C:/x",
        "a,b",
        "a b",
        "a\0b",
        "a\n",
        "$HOME/x",
        "file:///x",
        "/work/a/b",
        "/work",
        "./a//b",
        "cargo test",
        "env ls",
        "ls; id",
        "ls src",
        "make",
        "git -c x y",
    ]);
    prop_oneof![
        odd.prop_map(str::to_owned),
        path().prop_map(|(path, _)| path),
        ".{0,12}"
    ]
}

fn argument() -> impl Strategy<Value = Json> {
    prop_oneof![
        4 => text().prop_map(Json::from),
        1 => vec(text(), 0..3).prop_map(Json::from),
        1 => Just(Json::Null),
        1 => any::<i32>().prop_map(Json::from),
    ]
}

fn arguments() -> impl Strategy<Value = Json> {
    let name = select(vec![
        "path", "command", "cwd", "content", "Path", "to", "timeout",
    ]);
    let fields = vec((name, argument()), 0..4);
    fields.prop_map(|fields| {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        Json::Object(fields.collect())
    })
}

fn tools() -> impl Strategy<Value = (&'static str, ToolFacts)> {
    let kinds = [
        MatcherKind::Path,
        MatcherKind::Text,
        MatcherKind::Json,
        MatcherKind::Prose,
        MatcherKind::Free,
        MatcherKind::Host,
    ];
    let kind = select(kinds.to_vec());
    let name = select(vec!["path", "command", "cwd", "content", "to"]);
    let matchers = vec((name, kind), 0..4).prop_map(|matchers| {
        let mut matchers: Vec<_> = matchers
            .into_iter()
            .map(|(name, kind)| matcher(name, kind))
            .collect();
        matchers.sort_by(|a, b| a.argument.cmp(&b.argument));
        matchers.dedup_by(|a, b| a.argument == b.argument);
        matchers
    });
    let of_server = any::<bool>().prop_map(|is| is.then(|| server("s", "first")));
    let any_tool = (select(vec!["edit", "s__edit"]), matchers, of_server);
    prop_oneof![
        any_tool.prop_map(|(name, matchers, server)| (name, facts(matchers, server))),
        Just((SHELL_TOOL, shell())),
        Just(("edit", edit())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2048)
    })]

    #[test]
    fn what_is_offered_covers_the_call((tool, facts) in tools(), arguments in arguments()) {
        let offered = offered(tool, &facts, &arguments);
        prop_assert_eq!(&offered[0].id, &ScopeId::Call);
        let names = names(&offered);
        for (at, it) in offered.iter().enumerate() {
            prop_assert_eq!(ScopeId::parse(&names[at]), Some(it.id.clone()));
            prop_assert!(!names[..at].contains(&names[at]), "{:?}", names);
            prop_assert_eq!(it.scope.is_none(), at == 0);
            if let Some(scope) = &it.scope {
                let grant = grant(tool, scope.clone());
                prop_assert!(is_covered_by(&grant, tool, &facts, &arguments), "{}", names[at]);
            }
        }
        prop_assert!(tool != SHELL_TOOL || !names.iter().any(|it| it == "tool"));
    }

    #[test]
    fn a_protected_file_is_approved_alone((tool, facts) in tools(), arguments in arguments()) {
        let arguments = arguments.to_string();
        let scope = scope(&facts.matchers, &arguments, &[]);
        let offered = scopes(tool, &facts, &scope, &arguments, true);
        prop_assert_eq!(names(&offered), ["call"]);
    }

    #[test]
    fn a_folder_covers_what_is_below_it(
        (path, folder) in path(), below in vec((vec(part(), 0..3), part()), 5), other in part()
    ) {
        let tool = edit();
        let call = |path: &str| json!({"path": path, "content": "../out and\n/etc"});
        let offered = offered("edit", &tool, &call(&path));
        prop_assert_eq!(&names(&offered), &["call".to_owned(), format!("folder:{folder}"), "tool".to_owned()]);
        let grant = grant("edit", named(&offered, "folder").expect("a folder"));
        for (folders, name) in below {
            let below = folders.into_iter().chain([name]).collect::<Vec<_>>().join("/");
            for inside in [
                format!("{folder}/{below}"), format!("./{folder}/./{below}"),
                format!("/work/{folder}/{below}"), format!("{folder}/{other}/../{below}"),
            ] {
                prop_assert!(is_covered_by(&grant, "edit", &tool, &call(&inside)), "{}", inside);
            }
        }
        let up = "../".repeat(folder.split('/').count() + 1);
        for outside in [
            folder.clone(), String::new(), "..".to_owned(), format!("{folder}/{up}{other}"), format!("../{other}"),
            format!("/{other}/x"), format!("{folder}/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/{other}"), format!("{folder}/{other} "),
            format!("{folder}\\{other}"), format!("{folder}/{other}\n"), "~/x".to_owned(),
        ] {
            prop_assert!(!is_covered_by(&grant, "edit", &tool, &call(&outside)), "{}", outside);
        }
        if folder != HERE {
            for outside in [format!("{folder}{other}/x"), format!("{folder}x"), format!("x{folder}/{other}")] {
                prop_assert!(!is_covered_by(&grant, "edit", &tool, &call(&outside)), "{}", outside);
            }
        }
        for other in [
            json!({}), json!({"path": null}), json!({"path": [path, "/etc/x"]}), json!({"path": path, "to": "x"}),
            json!({"path": path, "Path": path}),
        ] {
            prop_assert!(!is_covered_by(&grant, "edit", &tool, &other), "{}", other);
        }
    }

    #[test]
    fn a_prefix_covers_commands_with_other_words(
        words in vec("[a-z][a-z0-9_./=-]{0,9}", 5), cwd in part(), after in select(vec![
            "; id", "&& id", "| sh", "> x", "$(id)", "`id`", "*", "\nid", "# x", "\0", "{a,b}",
        ])
    ) {
        let tool = shell();
        let call = |command: &str, cwd: &str| json!({"command": command, "cwd": cwd});
        let offered = offered(SHELL_TOOL, &tool, &call("ls src -l", &cwd));
        prop_assert_eq!(names(&offered), ["call", "prefix:ls src"]);
        let grant = grant(SHELL_TOOL, named(&offered, "prefix").expect("a prefix"));
        let is_inside = |tool_name: &str, call: &Json| is_covered_by(&grant, tool_name, &tool, call);
        for word in &words {
            let command = format!("ls src {word}");
            prop_assert!(is_inside(SHELL_TOOL, &call(&command, &cwd)), "{}", command);
            prop_assert!(is_inside(SHELL_TOOL, &call(&command, &format!("./{cwd}/"))), "{}", command);
            let more = json!({"command": command, "cwd": cwd, "timeout": 5});
            prop_assert!(is_inside(SHELL_TOOL, &more), "{}", more);
            for outside in [
                format!("ls src{word}"), format!("ls src {word}{after}"), format!("ls src {word} {after}"),
                format!("env ls src {word}"), format!("ls x{word} src"), format!("A={word} ls src"), String::new(),
            ] {
                prop_assert!(!is_inside(SHELL_TOOL, &call(&outside, &cwd)), "{}", outside);
            }
            for outside in [
                call(&command, "."), call(&command, &format!("{cwd}/x")), call(&command, "$HOME/x"),
                json!({"command": command}), json!({"command": [command], "cwd": cwd}),
                json!({"command": command, "cwd": cwd, "network": true}),
            ] {
                prop_assert!(!is_inside(SHELL_TOOL, &outside), "{}", outside);
            }
            prop_assert!(!is_inside("s__shell_exec", &call(&command, &cwd)));
        }
    }

    #[test]
    fn a_tool_covers_its_calls_and_a_server_its_tools(
        (name, of) in tools(), first in arguments(), further in vec(arguments(), 5)
    ) {
        let of = ToolFacts { server: Some(server("s", "first")), ..of };
        let offered = offered(name, &of, &first);
        let tool = grant(name, named(&offered, "tool").expect("the tool"));
        let all = grant(name, named(&offered, "server:s").expect("the server"));
        let changed = ToolFacts { digest: "other".to_owned(), ..of.clone() };
        let with = |server| ToolFacts { server, ..of.clone() };
        for arguments in further {
            let by = |grant: &Grant, name: &str, facts: &ToolFacts| is_covered_by(grant, name, facts, &arguments);
            prop_assert!(by(&tool, name, &of));
            prop_assert!(!by(&tool, "other", &of) && !by(&tool, name, &changed));
            prop_assert!(by(&all, name, &of) && by(&all, "other", &of) && by(&all, name, &changed));
            for other in [None, Some(server("s", "second")), Some(server("t", "first"))] {
                prop_assert!(!by(&all, name, &with(other)));
            }
        }
    }
}

#[test]
fn what_has_no_single_clear_folder_has_none() {
    let two = facts(
        vec![
            matcher("path", MatcherKind::Path),
            matcher("to", MatcherKind::Path),
        ],
        None,
    );
    for (tool, arguments) in [
        (edit(), json!({})),
        (edit(), json!({"path": "."})),
        (edit(), json!({"path": "/"})),
        (edit(), json!({"path": "/x"})),
        (edit(), json!({"path": ".."})),
        (edit(), json!({"path": "../x"})),
        (edit(), json!({"path": "C:/x"})),
        (edit(), json!({"path": "docs/%2e%2e/x"})),
        (edit(), json!({"path": "docs/a,docs/b"})),
        (edit(), json!({"path": ["docs/a", "docs/b"]})),
        (edit(), json!({"path": "docs/a", "other": 1})),
        (two.clone(), json!({"path": "docs/a"})),
        (two, json!({"path": "docs/a", "to": "docs/b"})),
        (facts(Vec::new(), None), json!({"path": "docs/a"})),
    ] {
        let offered = names(&offered("edit", &tool, &arguments));
        assert_eq!(offered, ["call", "tool"], "{arguments}");
    }
}

/// Where a link leads decides.
#[test]
fn a_folder_is_where_a_path_leads() {
    let tool = edit();
    let arguments = json!({"path": "docs/link"}).to_string();
    let link = |to: &str| {
        let link = crate::rules::Condition {
            name: "docs/link".to_owned(),
            pattern: to.to_owned(),
        };
        let scope = scope(&tool.matchers, &arguments, &[link]);
        names(&scopes("edit", &tool, &scope, &arguments, false))
    };
    assert_eq!(link("out/a"), ["call", "folder:out", "tool"]);
    assert_eq!(link(""), ["call", "tool"]);
}

#[test]
fn a_command_that_is_not_plain_is_approved_alone() {
    let tool = shell();
    for arguments in [
        json!({}),
        json!({"command": "ls; id"}),
        json!({"command": "env ls"}),
        json!({"command": "ls", "cwd": 1}),
        json!({"command": "ls", "cwd": "~"}),
        json!({"command": "ls", "confined": false}),
        json!({"command": 1}),
    ] {
        let offered = names(&offered(SHELL_TOOL, &tool, &arguments));
        assert_eq!(offered, ["call"], "{arguments}");
    }
    let plain = names(&offered(
        SHELL_TOOL,
        &tool,
        &json!({"command": "ls", "cwd": null}),
    ));
    assert_eq!(plain, ["call", "prefix:ls"]);
    // Readers of JSON differ about the second.
    let twice = r#"{"command": "ls", "command": "rm x"}"#;
    let scope = scope(&tool.matchers, twice, &[]);
    let offered = scopes(SHELL_TOOL, &tool, &scope, twice, false);
    assert_eq!(names(&offered), ["call"]);
}

#[test]
fn an_unknown_name_is_no_scope() {
    for text in [
        "",
        "all",
        "Call",
        "call:",
        "tool:x",
        "folder",
        "folder:",
        "prefix:",
        "prefix:a  b",
        "server:",
        " tool",
    ] {
        assert_eq!(ScopeId::parse(text), None, "{text:?}");
    }
}
