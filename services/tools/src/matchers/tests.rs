use super::*;
use cairn_engine::rules::{Answer, DEFAULT_AGENT, Rule, Rules, scope};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

#[test]
fn names_and_formats_decide_how_a_value_is_read() {
    use MatcherKind::{Host, Json, Path, Prose, Text};
    let of = |kind: &str| json!({"type": kind});
    let optional =
        |kind: &str| json!({"anyOf": [{"type": kind}, {"type": "null"}], "default": null});
    let cases = [
        ("path", "path", json!({}), Path),
        ("log_path", "log_path", json!({}), Path),
        ("filePath", "filePath", json!({"type": "string"}), Path),
        ("paths", "paths", json!({"type": "array"}), Path),
        ("files", "files", json!({"type": ["array", "null"]}), Path),
        ("include_files", "include_files", of("boolean"), Json),
        ("url", "host", json!({}), Host),
        ("baseUrl", "host", json!({"type": "string"}), Host),
        ("endpoint", "host", json!({}), Host),
        ("site", "host", json!({"format": "uri"}), Host),
        ("note", "note", json!({"type": "string"}), Prose),
        ("order", "order", json!({"enum": ["up", "down"]}), Prose),
        ("target", "target", json!({"type": "string"}), Text),
        (
            "count",
            "count",
            json!({"type": "integer", "default": 3}),
            Json,
        ),
        ("tags", "tags", json!({"type": ["array", "null"]}), Json),
        // As servers in Python write what may be left out.
        ("limit", "limit", optional("integer"), Json),
        ("max_files", "max_files", optional("integer"), Json),
        ("labels", "labels", optional("array"), Json),
        ("files", "files", optional("array"), Path),
        ("target", "target", optional("string"), Text),
        ("url", "host", optional("string"), Host),
        (
            "node",
            "node",
            json!({"oneOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}),
            Text,
        ),
    ];
    for (argument, name, property, kind) in cases {
        let schema = json!({"type": "object", "properties": {argument: property}});
        let found = matchers(&schema, None, &BTreeMap::new());
        let [found] = &*found else {
            panic!("{argument}: {found:?}");
        };
        assert_eq!((&*found.name, found.kind), (name, kind), "{argument}");
        assert_eq!(found.argument, argument);
        let default = (argument == "count").then(|| "3".to_owned());
        assert_eq!(found.default, default, "{argument}");
    }
}

#[test]
fn an_operator_says_how_an_argument_is_read() {
    let kinds = [("target", MatcherKind::Path), ("path", MatcherKind::Prose)];
    let kinds = BTreeMap::from(kinds.map(|(name, kind)| (name.to_owned(), kind)));
    let schema = json!({"properties": {"path": {}, "target": {}, "other": {}}});
    let found = matchers(&schema, None, &kinds);
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.argument.as_str(), it.kind))
        .collect();
    let expected = [
        ("path", MatcherKind::Prose),
        ("target", MatcherKind::Path),
        ("other", MatcherKind::Text),
    ];
    assert_eq!(found, expected);
}

/// A call that leaves out a path, or a list of paths, touches what the schema says.
#[test]
fn a_default_is_judged_as_if_it_was_given() {
    for (default, answer) in [
        (json!("private/k"), Answer::Deny),
        (json!(["docs/a", "private/k"]), Answer::Deny),
        (json!({"path": "private/k"}), Answer::Deny),
        (json!("docs/a"), Answer::Allow),
        (json!(["docs/a"]), Answer::Allow),
        (json!([]), Answer::Allow),
        (json!(null), Answer::Allow),
    ] {
        let schema = json!({"properties": {"paths": {"default": default.clone()}}});
        let tool = Published {
            name: "it".to_owned(),
            matchers: matchers(&schema, Some(Path::new("/ws")), &BTreeMap::new()),
            call: json!({}),
        };
        let denied = judged(&tool, &tool.call, Some("private/**"), Answer::Deny);
        assert_eq!(denied, answer, "{default}");
    }
}

/// A folder with the workspace `ws`, and its path.
fn workspace() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let at = folder.path().canonicalize().unwrap();
    for below in ["ws/docs", "ws/private", "ws/real", "outside"] {
        fs::create_dir_all(at.join(below)).unwrap();
    }
    let ws = at.join("ws");
    (folder, ws)
}

#[test]
fn a_link_shows_where_it_leads() {
    let (_folder, ws) = workspace();
    let outside = ws.join("../outside").canonicalize().unwrap();
    let at = outside.parent().unwrap();
    symlink(ws.join("real"), ws.join("link")).unwrap();
    symlink(&outside, ws.join("out")).unwrap();
    symlink(at.join("nowhere"), ws.join("gone")).unwrap();
    // Neither end of these chains is there.
    symlink("further", ws.join("docs/away")).unwrap();
    symlink("../../outside/new", ws.join("docs/further")).unwrap();
    symlink("docs/inside", ws.join("inner")).unwrap();
    symlink("loop-2", ws.join("loop-1")).unwrap();
    symlink("loop-1", ws.join("loop-2")).unwrap();
    symlink("/proc/self/cwd", ws.join("own")).unwrap();
    for at in 0..50 {
        symlink(format!("n{}", at + 1), ws.join(format!("n{at}"))).unwrap();
    }
    let inside = |path: &str| Some(path.to_owned());
    let elsewhere = |path: &str| Some(at.join(path).display().to_string());
    for (path, expected) in [
        ("real/a.txt", inside("real/a.txt")),
        ("new/a.txt", inside("new/a.txt")),
        (".", inside(".")),
        ("link/a.txt", inside("real/a.txt")),
        ("link", inside("real")),
        ("out/new.txt", elsewhere("outside/new.txt")),
        // The same file in other words.
        ("../ws/real/a.txt", inside("real/a.txt")),
        (
            &*ws.join("real/a.txt").display().to_string(),
            inside("real/a.txt"),
        ),
        // Its text says real/a.txt.
        ("out/../real/a.txt", elsewhere("real/a.txt")),
        ("link/../real/a.txt", inside("real/a.txt")),
        ("gone", elsewhere("nowhere")),
        ("docs/away", elsewhere("outside/new")),
        ("docs/away/a", elsewhere("outside/new/a")),
        ("inner", inside("docs/inside")),
        ("n45", inside("n50")),
        ("n9", None),
        ("loop-1", None),
        ("loop-1/../real", None),
        ("own/private/k", None),
        ("/proc/self/cwd/real", None),
        ("/dev/fd/3", None),
    ] {
        assert_eq!(real(&ws, path), expected, "{path}");
    }
}

/// A tool of a published server, from `published.json`. A call has `{path}` for a path, `{word}` for a text
/// that may be one, and `{text}` for plain text.
struct Published {
    name: String,
    matchers: Vec<Matcher>,
    call: Json,
}

fn published(folder: &Path) -> Vec<Published> {
    let tools: Json = serde_json::from_str(include_str!("published.json")).unwrap();
    let tools = tools.as_array().unwrap().iter();
    let tool = |tool: &Json| {
        let text = |name: &str| tool[name].as_str().unwrap();
        assert!(text("source").starts_with("github.com/"));
        let schema = json!({"type": "object", "properties": tool["properties"]});
        Published {
            name: format!("{}__{}", text("server"), text("tool")),
            matchers: matchers(&schema, Some(folder), &BTreeMap::new()),
            call: tool["call"].clone(),
        }
    };
    tools.map(tool).chain([undeclared(folder)]).collect()
}

/// A tool whose schema declares no properties: its arguments are read by their names.
fn undeclared(folder: &Path) -> Published {
    Published {
        name: "any__run".to_owned(),
        matchers: matchers(&json!({"type": "object"}), Some(folder), &BTreeMap::new()),
        call: json!({"path": "{path}", "target": "{word}", "note": "{text}"}),
    }
}

/// The call with its marks replaced, each by its mark and its place among them.
fn filled(value: &Json, at: &mut usize, with: &dyn Fn(&str, usize) -> String) -> Json {
    match value {
        Json::String(mark) if mark.starts_with('{') => {
            *at += 1;
            Json::from(with(mark, *at - 1))
        }
        Json::Array(items) => items.iter().map(|item| filled(item, at, with)).collect(),
        Json::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), filled(value, at, with)));
            Json::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// The marks of a call, in order.
fn marks(call: &Json) -> Vec<String> {
    let marks = std::cell::RefCell::new(Vec::new());
    filled(call, &mut 0, &|mark, _| {
        marks.borrow_mut().push(mark.to_owned());
        String::new()
    });
    marks.into_inner()
}

/// What a rule with these conditions makes of a call, as tools judge it.
fn judged(tool: &Published, call: &Json, pattern: Option<&str>, answer: Answer) -> Answer {
    let rule = Rule {
        tool: tool.name.clone(),
        when: pattern
            .map(|pattern| ("path".to_owned(), pattern.to_owned()))
            .into_iter()
            .collect(),
        agent: None,
        answer,
    };
    let default = match answer {
        Answer::Allow => Answer::Ask,
        Answer::Ask | Answer::Deny => Answer::Allow,
    };
    let call = call.to_string();
    let found = links(&tool.matchers, &scope(&tool.matchers, &call, &[]));
    let scope = scope(&tool.matchers, &call, &found);
    let rules = Rules::new(vec![rule]).unwrap();
    rules
        .judge(&tool.name, &scope, DEFAULT_AGENT, default)
        .answer
}

/// Ways to write a path in `private`, which a rule denies.
fn forms(ws: &Path) -> Vec<String> {
    symlink("../private", ws.join("docs/link")).unwrap();
    symlink("further", ws.join("docs/away")).unwrap();
    symlink("../private/new", ws.join("docs/further")).unwrap();
    let whole = ws.join("private/k").display().to_string();
    vec![
        "private/k".to_owned(),
        "./private/k".to_owned(),
        "docs/../private/k".to_owned(),
        "private//k".to_owned(),
        whole.clone(),
        format!("file://{whole}"),
        "private%2Fk".to_owned(),
        "private\\k".to_owned(),
        "private/k ".to_owned(),
        "private/k\0.md".to_owned(),
        "docs/link/k".to_owned(),
        "docs/away".to_owned(),
        "~/private/k".to_owned(),
        "/proc/self/cwd/private/k".to_owned(),
        "../ws/private/k".to_owned(),
    ]
}

/// Ways to write a path in `docs`, which a rule allows, each with a text of a call that is no path.
fn harmless_forms(ws: &Path) -> [(String, &'static str); 7] {
    let whole = ws.join("docs/a.md").display().to_string();
    [
        ("docs/a.md".to_owned(), "plain"),
        ("./docs/a.md".to_owned(), "Fix the parser"),
        (whole, "either/or, as said in docs/readme"),
        ("docs/a b.md".to_owned(), "50% of it costs ~5 USD"),
        ("docs/100%.md".to_owned(), "https://example.com/a/b?c=d"),
        (
            "docs/Grüße-日本.md".to_owned(),
            "first line\nsecond line: a/b",
        ),
        ("docs/../docs/a.md".to_owned(), "naïve, 日本語"),
    ]
}

fn harmless(path: &str, text: &str) -> impl Fn(&str, usize) -> String {
    move |mark: &str, _: usize| match mark {
        "{path}" => path.to_owned(),
        _ => text.to_owned(),
    }
}

#[test]
fn no_form_of_a_path_passes_a_rule_and_no_harmless_call_asks() {
    let (_folder, ws) = workspace();
    let tools = published(&ws);
    assert!(tools.len() > 30);
    let (forms, harmless_forms) = (forms(&ws), harmless_forms(&ws));
    let (mut hostile, mut calls) = (0, BTreeSet::new());
    for tool in &tools {
        for (at, mark) in marks(&tool.call).iter().enumerate() {
            for form in &forms {
                let with = |mark: &str, place: usize| match place == at {
                    true => form.clone(),
                    false => harmless("docs/a.md", "plain")(mark, place),
                };
                hostile += check_hostile(tool, &filled(&tool.call, &mut 0, &with), mark);
            }
        }
        hostile += check_other_names(tool);
        for (path, text) in &harmless_forms {
            let call = filled(&tool.call, &mut 0, &harmless(path, text));
            // A tool without paths is allowed as a whole.
            let has_path = marks(&tool.call).iter().any(|mark| mark == "{path}");
            let pattern = has_path.then_some("docs/**");
            let allowed = judged(tool, &call, pattern, Answer::Allow);
            assert_eq!(allowed, Answer::Allow, "{}: {call}", tool.name);
            let denied = judged(tool, &call, Some("private/**"), Answer::Deny);
            assert_eq!(denied, Answer::Allow, "{}: {call}", tool.name);
            calls.insert((&tool.name, call.to_string()));
        }
    }
    println!(
        "{} tools: {hostile} calls judged with a path, none passes; {} harmless ones, none asks",
        tools.len(),
        calls.len()
    );
    assert!(hostile >= 30 * 12 * 3, "only {hostile}");
    let expected = tools.len() * harmless_forms.len();
    assert_eq!(calls.len(), expected, "no two are the same");
}

/// Judges a call with a path by a rule of each kind. Returns the number of rules.
fn check_hostile(tool: &Published, call: &Json, mark: &str) -> usize {
    let private = Some("private/**");
    let denied = judged(tool, call, private, Answer::Deny);
    assert_eq!(denied, Answer::Deny, "{}: {call}", tool.name);
    let asked = judged(tool, call, private, Answer::Ask);
    assert_eq!(asked, Answer::Ask, "{}: {call}", tool.name);
    if mark == "{text}" {
        // Plain text opens nothing, so it is not asked about where a path is allowed.
        return 2;
    }
    let allowed = judged(tool, call, Some("docs/**"), Answer::Allow);
    assert_eq!(allowed, Answer::Ask, "{}: {call}", tool.name);
    3
}

/// Each argument in another case beside the harmless one, some that are not declared, and a path in the place
/// of a name.
fn check_other_names(tool: &Published) -> usize {
    let call = filled(&tool.call, &mut 0, &harmless("docs/a.md", "plain"));
    let given = call.as_object().unwrap().keys();
    let others = given.map(|name| name.to_ascii_uppercase());
    let unknown = ["somewhere", "Dir", "file_2", "Größe", "../file"];
    let others = others.chain(unknown.map(str::to_owned));
    let with_path = others.map(|name| (name, json!("private/k")));
    let as_name = ["private/k", "./private", "docs/../private/k"];
    let as_name = as_name.map(|name| (name.to_owned(), json!("plain")));
    let checked = with_path.chain(as_name).map(|(name, value)| {
        let mut call = call.clone();
        assert!(call.get(&name).is_none(), "{}: {name}", tool.name);
        call[&name] = value;
        check_hostile(tool, &call, "{path}")
    });
    checked.sum()
}

/// As a schema without properties says nothing of its arguments, their names and their links count.
#[test]
fn a_tool_without_declared_arguments_has_its_links_followed() {
    let (_folder, ws) = workspace();
    fs::write(ws.join("private/k"), "secret").unwrap();
    symlink("private/k", ws.join("klink")).unwrap();
    let tool = undeclared(&ws);
    for call in [
        json!({"path": "klink"}),
        json!({"target": "klink"}),
        json!({"klink": 1}),
        json!({"private/k": 1}),
        json!({"private/k": null}),
        json!({"files": {"private/k": 1}}),
    ] {
        check_hostile(&tool, &call, "{path}");
    }
}
