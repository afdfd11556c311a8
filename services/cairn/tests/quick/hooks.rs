//! Hooks of the settings: the scripts of the guide, what a folder of others can start, what a node without hooks of its
//! own does, and the commands about hooks.

use crate::support::{self, CAIRN};
use cairn::node::{Node, StartError};
use cairn_engine::failure::FailureKind;
use cairn_engine::hooks::{Point, Verdict};
use cairn_hooks::{Asked, Definition, Hook, HookError, Means, Policy};
use cairn_model::ModelRegistry;
use cairn_testkit::Site;
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The scripts are in Python, at least in part.
const PYTHON: &str = "/usr/bin/python3";

/// Runs a forbidden command and writes a file, in two tool turns.
const PLAYED: &str = r#"{"match": {"step": "Tidy"}, "replies": [{"tool_calls": [{"name": "shell_exec", "arguments": {"command": "git push --force origin main"}}]}, {"tool_calls": [{"name": "write_file", "arguments": {"path": "list.json", "content": "{\"b\":1}"}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "It is tidy."}}]}]}
"#;
const PLAN: &str = r#"{"steps": [{"title": "Tidy", "description": "Tidy up."}]}"#;
const SETTINGS: &str = r#"
model.default = "played"
workspace.write = "allow"
[[tools.rules]]
tool = "shell_exec"
answer = "allow"
[models.played]
provider = "recorded"
path = "played.jsonl"
"#;

/// The settings of a script of this folder, with further lines.
fn script(name: &str, file: &str, points: &str, more: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/hooks")
        .join(file);
    let program = if file.ends_with(".py") { PYTHON } else { "sh" };
    format!(
        "[[hooks]]\nname = \"{name}\"\npoints = {points}\ncommand = [\"{program}\", \"{}\"]\ntimeout = \"30s\"\n{more}\n",
        path.display()
    )
}

fn site(hooks: &str) -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").unwrap_or_default();
    // Values without a section come first.
    site.write("cairn.toml", &format!("{SETTINGS}{settings}{hooks}"));
    site.write("played.jsonl", PLAYED);
    site.write("plan.json", PLAN);
    site
}

#[test]
fn scripts_that_guard_format_and_notify_work_as_hooks() {
    if !Path::new(PYTHON).exists() {
        println!("NOT RUN: there is no {PYTHON}");
        return;
    }
    let hooks = [
        script(
            "guard",
            "guard.py",
            r#"["PreToolCall"]"#,
            r#"tools = ["shell_exec"]"#,
        ),
        script(
            "format",
            "format.sh",
            r#"["PostToolCall"]"#,
            r#"tools = ["*_file"]"#,
        ),
        script(
            "notify",
            "notify.sh",
            r#"["OnTurnEnd", "OnError"]"#,
            r#"env = ["NOTIFY_FILE"]"#,
        ),
    ];
    let site = site(&hooks.concat());
    let notes = site.path().join("notes").display().to_string();
    let variables = [("NOTIFY_FILE", &*notes)];
    let done = site.run_with(&["run", "--plan", "plan.json", "--json"], &variables);
    assert_eq!(done.code, Some(0), "{done:?}");

    let session = site.sessions().remove(0);
    let journal = site.journal(&session);
    let finished = journal.of_kind("call_finished");
    let output = |at: usize| finished[at]["output"].as_str().unwrap_or_default();
    let blocked = "hook 'guard' blocked PreToolCall: this command is not run: it overwrites the \
                   history of others";
    assert_eq!(output(0), blocked);
    assert_eq!(finished[0]["reason"], "HookBlocked");
    assert_eq!(
        site.read("list.json").as_deref(),
        Some("{\n  \"b\": 1\n}\n")
    );
    let answered = journal.of_kind("hooks_answered");
    let told = answered.iter().any(|event| {
        let note = "list.json was formatted. Read it before you edit it again.";
        event.to_string().contains(note)
    });
    assert!(told, "{answered:?}");
    let notes = site.read("notes").expect("a notification");
    assert_eq!(notes.lines().count(), 1, "{notes}");

    let watched = site.run(&["watch", &session, "--after", "0"]);
    let line = "hook guard blocked shell_exec: this command is not run";
    assert!(watched.out.contains(line), "{watched:?}");
}

/// A program of a hook that would leave a file.
const THIEF: &str = "[[hooks]]\nname = \"thief\"\npoints = [\"OnRunStart\", \"OnRunEnd\"]\n\
    command = [\"touch\", \"stolen\"]\n";

#[test]
fn a_folder_of_others_starts_no_hook_until_it_is_confirmed() {
    let site = Site::new(CAIRN).of_others();
    site.write("cairn.toml", THIEF);
    let goal = ["run", "Which files under docs mention Redis?"];
    // Without the hooks of the folder, if they say so.
    let done = site.run_with(&goal, &[("CAIRN_HOOKS", "[]")]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("have no effect: hooks;"), "{done:?}");
    let list = site.run(&["hook", "list"]);
    assert!(list.out.starts_with("there is no hook"), "{list:?}");
    assert!(list.err.contains("have no effect: hooks;"), "{list:?}");
    let tried = site.run(&["hook", "try", "thief", "--point", "OnRunStart"]);
    assert_eq!(tried.code, Some(1), "{tried:?}");
    assert!(!site.path().join("stolen").exists());

    let shown = support::grants::with_digest(&site, &["config", "trust"]);
    let effect = "run as the hook thief at OnRunStart, OnRunEnd: touch stolen";
    assert!(shown.out.contains(effect), "{shown:?}");
    let done = site.run(&goal);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(site.path().join("stolen").exists());
}

/// A run whose hooks stopped to count with a change of the file would have no guards.
#[test]
fn no_work_begins_without_the_hooks_of_an_unconfirmed_file() {
    let site = Site::new(CAIRN).of_others();
    site.write("cairn.toml", THIEF);
    support::grants::with_digest(&site, &["config", "trust"]);
    let goal = ["run", "Which files under docs mention Redis?"];
    let done = site.run(&goal);
    assert_eq!(done.code, Some(0), "{done:?}");
    site.append("cairn.toml", "# changed\n");
    for arguments in [
        &goal[..],
        &["run", "--json", "Look around"],
        &["chat"],
        &["resume"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["tools", "call", "list_files"],
    ] {
        let done = site.run(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {done:?}");
        for part in [
            "cairn.toml has hooks and is not confirmed",
            "cairn config trust",
            "--config cairn.toml",
        ] {
            assert!(done.err.contains(part), "{arguments:?}: {done:?}");
        }
    }
    assert_eq!(site.sessions().len(), 1);
    let named = [&goal[..], &["--config", "cairn.toml"]].concat();
    assert_eq!(site.run(&named).code, Some(0));
    assert_eq!(site.run(&["tools"]).code, Some(0));
}

#[test]
fn a_hook_that_a_command_cannot_ask_is_a_fault_of_the_settings() {
    let hook = "[[hooks]]\nname = \"guard\"\npoints = [\"PreToolCall\"]\n";
    for site in [Site::new(CAIRN), Site::new(CAIRN).of_others()] {
        site.append("cairn.toml", hook);
        let checked = site.run(&["config", "check"]);
        assert_eq!(checked.code, Some(2), "{checked:?}");
        let fault = "hooks[0] needs a command or a url (allowed: ";
        assert!(checked.err.contains(fault), "{checked:?}");
    }
}

#[test]
fn names_of_other_programs_in_hooks_are_warned_of() {
    let site = Site::new(CAIRN);
    let hook = "[[hooks]]\nname = \"guard\"\npoints = [\"PreToolCall\"]\n\
        tools = [\"Bash\"]\ncommand = [\"true\"]\n";
    site.append("cairn.toml", hook);
    for arguments in [&["config", "check"][..], &["hook", "list"]] {
        let done = site.run(arguments);
        assert_eq!(done.code, Some(0), "{done:?}");
        let warning = "\"Bash\" is a tool of other programs, which is shell_exec here";
        assert!(done.out.contains(warning), "{done:?}");
    }
}

/// A command ends with its run, or its last turn, and there may never be another process to ask.
#[test]
fn a_command_hears_hooks_about_the_end_of_its_run() {
    let site = Site::new(CAIRN);
    let hook = "[[hooks]]\nname = \"end\"\npoints = [\"OnRunEnd\"]\n\
        command = [\"sh\", \"-c\", \"echo ended >> ends\"]\n";
    site.append("cairn.toml", hook);
    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {"path": "docs"}}]}"#;
    site.write("plan.json", plan);
    let done = site.run(&["run", "--plan", "plan.json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(site.read("ends").as_deref(), Some("ended\n"), "{done:?}");

    site.write("line", "Hello\n");
    let line = File::open(site.path().join("line")).expect("a line");
    let mut chat = site.command(&["chat"]);
    let done = chat.stdin(line).output().expect("a conversation");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(site.read("ends").as_deref(), Some("ended\nended\n"));
}

#[test]
fn one_hook_is_tried_without_a_run() {
    let site = Site::new(CAIRN);
    let guard = "[[hooks]]\nname = \"guard\"\npoints = [\"PreToolCall\"]\n\
        command = [\"sh\", \"-c\", \"grep -q force && echo no force >&2 && exit 2; exit 0\"]\n\
        [[hooks]]\nname = \"broken\"\npoints = [\"OnTurnEnd\"]\ncommand = [\"sh\", \"-c\", \"exit 3\"]\n";
    site.append("cairn.toml", guard);
    let point = ["hook", "try", "guard", "--point", "PreToolCall", "--json"];
    let tried = |arguments: &[&str]| {
        let done = site.run(arguments);
        let json: Value = serde_json::from_str(done.out.trim()).unwrap_or_default();
        (done.code, json)
    };
    let (code, answer) = tried(&point);
    assert_eq!((code, &answer["answer"]), (Some(0), &"proceed".into()));
    let arguments = [
        &point[..],
        &["--arguments", r#"{"command": "push --force"}"#],
    ]
    .concat();
    let (code, answer) = tried(&arguments);
    assert_eq!((code, &answer["answer"]), (Some(0), &"block".into()));
    assert_eq!(answer["text"], "no force");
    let (code, answer) = tried(&["hook", "try", "broken", "--point", "OnTurnEnd", "--json"]);
    assert_eq!((code, &answer["answer"]), (Some(1), &Value::Null));
    let problem = answer["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("exit status 3"), "{answer}");
    assert!(site.sessions().is_empty());

    let other = site.run(&["hook", "try", "guard", "--point", "OnRunEnd"]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(
        other.err.contains("it is asked at PreToolCall"),
        "{other:?}"
    );
    let points = site.run(&["hook", "points", "--json"]);
    assert_eq!(points.out.lines().count(), Point::ALL.len(), "{points:?}");
    let list = site.run(&["hook", "list", "--json"]);
    let names = list.out.lines().map(|line| {
        let hook: Value = serde_json::from_str(line).expect("a line of JSON");
        hook["definition"]["name"].clone()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["guard", "broken"]);
}

#[derive(Debug)]
struct Silent;

#[async_trait::async_trait]
impl Hook for Silent {
    async fn ask(&self, _: &Asked) -> Result<Verdict, HookError> {
        Ok(Verdict::Proceed)
    }
}

fn in_process(name: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        points: [Point::OnRunStart].into_iter().collect(),
        agents: None,
        tools: Vec::new(),
        means: Means::InProcess,
        policy: Policy::default(),
    }
}

/// `missing hook_executor` is a fault of the configuration, and no panic.
#[tokio::test]
async fn a_node_that_cannot_ask_its_hooks_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("cairn.db");
    let parts = || {
        let mut parts = support::parts(folder.path(), ModelRegistry::new());
        parts.orchestrator.hooks = vec![in_process("audit")];
        parts
    };
    let error = Box::pin(Node::start(parts())).await.expect_err("no hook");
    let StartError::Config(failure) = error else {
        panic!("{error:?}");
    };
    assert_eq!(failure.kind, FailureKind::Config);
    assert_eq!(failure.message, "missing hook_executor");
    assert!(!store.exists(), "a store was made in spite of it");

    let silent = || -> Arc<dyn Hook> { Arc::new(Silent) };
    let mut others = parts();
    others.more_hooks = vec![("other".to_owned(), silent())];
    let error = Box::pin(Node::start(others)).await.expect_err("no hook");
    assert!(error.to_string().contains("audit"), "{error}");

    let mut right = parts();
    right.more_hooks = vec![("audit".to_owned(), silent())];
    let node = Box::pin(Node::start(right)).await;
    node.expect("the node starts").drain().await;
}
