//! Approvals of further calls by a scope of the call.

use super::{APPROVAL, call, edit, end, is_intended, refusal, rule, world};
use crate::asking::open;
use crate::control::{pause, resume};
use crate::world::{World, kinds, tool_call};
use cairn_engine::command::{Settlement, approval_scopes};
use cairn_engine::decide::ToolFacts;
use cairn_engine::message::ToolCall;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::rules::{
    Answer, Condition, GrantScope, Matcher, MatcherKind, Rules, SHELL_TOOL, ToolServer,
};
use cairn_engine::session::Session;
use serde_json::json;

fn by(scope: &str) -> Settlement {
    Settlement::ApproveAlways {
        when: Vec::new(),
        scope: scope.to_owned(),
    }
}

/// The names of the scopes of the only question.
fn offered(world: &World) -> Vec<String> {
    let questions = pending(&world.session);
    let Asked::Approval { name, .. } = &questions[0].asked else {
        panic!("{questions:?}");
    };
    let scopes = approval_scopes(&world.session, *name, &world.tools);
    scopes.iter().map(|it| it.id.to_string()).collect()
}

/// Answers the only question.
fn approve(world: &mut World, scope: &str) -> Vec<String> {
    let question = open(world).remove(0);
    kinds(&world.answer(&question, by(scope)))
}

/// What becomes of a call: it is sent, or it asks. It is not left waiting.
fn is_sent(world: &World, call: ToolCall) -> bool {
    let mut world = world.clone();
    world.reply(1, "", &[call]);
    is_intended(&world)
}

fn run(command: &str) -> ToolCall {
    tool_call(SHELL_TOOL, &json!({ "command": command }))
}

fn shell() -> ToolFacts {
    let matcher = |name: &str, kind| Matcher {
        folder: None,
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: None,
    };
    ToolFacts {
        matchers: vec![
            matcher("command", MatcherKind::Text),
            matcher("cwd", MatcherKind::Path),
        ],
        is_confined: true,
        ..edit("shell")
    }
}

#[test]
fn a_folder_is_shown_granted_and_matched() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    assert_eq!(offered(&world), ["call", "folder:docs", "tool"]);
    let events = approve(&mut world, "folder:docs");
    let expected = ["Decided", "ApprovalGranted", "CallIntended", "RunResumed"];
    assert_eq!(events, expected);
    end(&mut world);
    for inside in [
        "docs/a",
        "docs/b",
        "./docs/b/c",
        "docs/x/../y",
        "docs/.hidden",
    ] {
        assert!(is_sent(&world, call(inside)), "{inside}");
    }
    for outside in ["docs", "docs/../a", "documents/a", "a", "docs/%2e%2e/a"] {
        assert!(!is_sent(&world, call(outside)), "{outside}");
    }
    assert_eq!(world.folded(), world.session);
    let kept = Session::from_checkpoint(&world.session.to_checkpoint().unwrap()).unwrap();
    assert_eq!(kept, world.session);
}

#[test]
fn a_tool_is_granted_as_it_was_and_never_against_a_rule() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    approve(&mut world, "tool");
    end(&mut world);
    for inside in ["a", "docs/b", "../x", "docs/%2e%2e/a", ""] {
        assert!(is_sent(&world, call(inside)), "{inside}");
    }
    let mut other = world.clone();
    other.tools.insert("edit".to_owned(), edit("second"));
    assert!(!is_sent(&other, call("docs/a")), "another tool");
    world.rules = Rules::new(vec![rule("edit", Some("secret/**"), Answer::Deny)]).unwrap();
    assert!(!is_sent(&world, call("secret/a")), "a rule denies it");
    assert!(is_sent(&world, call("docs/a")));
}

#[test]
fn a_command_that_nothing_confines_asks_each_time() {
    let mut world = world();
    world.tools.insert(SHELL_TOOL.to_owned(), shell());
    world.rules = Rules::new(vec![rule(SHELL_TOOL, None, Answer::Allow)]).unwrap();
    assert!(is_sent(&world, run("cargo test")));
    let unconfined = ToolFacts {
        is_confined: false,
        ..shell()
    };
    world.tools.insert(SHELL_TOOL.to_owned(), unconfined);
    assert!(!is_sent(&world, run("cargo test")), "a rule allows it");
    world.reply(1, "", &[run("cargo test")]);
    assert_eq!(offered(&world), ["call"]);
    let question = open(&world).remove(0);
    let refused = world.answer(&question, by("prefix:cargo test"));
    assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
    world.answer(&question, Settlement::Approve);
    assert!(is_intended(&world));
}

#[test]
fn a_prefix_covers_simple_commands() {
    let mut world = world();
    world.tools.insert(SHELL_TOOL.to_owned(), shell());
    world.reply(1, "", &[run("cargo test -q")]);
    assert_eq!(offered(&world), ["call", "prefix:cargo test"]);
    approve(&mut world, "prefix:cargo test");
    end(&mut world);
    let inside = [
        "cargo test",
        "cargo test --all",
        "cargo  test 'a b'",
        "cargo test ../x",
        "cargo test -p a",
    ];
    for inside in inside {
        assert!(is_sent(&world, run(inside)), "{inside}");
    }
    for outside in [
        "cargo build",
        "cargo test; ls",
        "env cargo test",
        "cargo test $X",
        "cargo",
    ] {
        assert!(!is_sent(&world, run(outside)), "{outside}");
    }
    let elsewhere = tool_call(SHELL_TOOL, &json!({"command": "cargo test", "cwd": "x"}));
    assert!(!is_sent(&world, elsewhere));
}

#[test]
fn a_server_covers_its_tools_as_it_was_set_up() {
    let of = |digest: &str| ToolFacts {
        server: Some(ToolServer {
            name: "s".to_owned(),
            digest: digest.to_owned(),
        }),
        ..edit("first")
    };
    let mut world = world();
    for name in ["s__edit", "s__send"] {
        world.tools.insert(name.to_owned(), of("one"));
    }
    let call = |tool: &str| tool_call(tool, &json!({"path": "docs/a"}));
    world.reply(1, "", &[call("s__edit")]);
    assert_eq!(offered(&world), ["call", "folder:docs", "tool", "server:s"]);
    approve(&mut world, "server:s");
    end(&mut world);
    assert!(is_sent(&world, call("s__edit")) && is_sent(&world, call("s__send")));
    assert!(!is_sent(&world, call("edit")), "a built-in tool");
    world.tools.insert("s__send".to_owned(), of("two"));
    assert!(!is_sent(&world, call("s__send")), "other settings");
}

#[test]
fn the_call_alone_grants_nothing() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    let events = approve(&mut world, "call");
    assert_eq!(events, ["Decided", "CallIntended", "RunResumed"]);
    assert!(world.session.grants.is_empty());
    end(&mut world);
    assert!(!is_sent(&world, call("docs/a")));
}

#[test]
fn a_scope_that_was_not_shown_is_refused() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    let question = open(&world).remove(0);
    for scope in [
        "folder:.",
        "folder:docs/",
        "server:s",
        "prefix:ls",
        "all",
        "Tool",
    ] {
        let refused = world.answer(&question, by(scope));
        assert_eq!(refusal(&refused), "BAD_SETTLEMENT", "{scope}");
    }
    let both = Settlement::ApproveAlways {
        when: vec![Condition {
            name: "path".to_owned(),
            pattern: "docs/**".to_owned(),
        }],
        scope: "tool".to_owned(),
    };
    let refused = world.answer(&question, both);
    assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
    assert_eq!(world.run().status, APPROVAL);
    assert!(world.session.grants.is_empty());
}

/// A person judged the tool that was shown.
#[test]
fn a_tool_that_changed_since_it_asked_has_no_scope() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    world.tools.insert("edit".to_owned(), edit("second"));
    assert_eq!(offered(&world), ["call"]);
    let question = open(&world).remove(0);
    let refused = world.answer(&question, by("tool"));
    assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
}

#[test]
fn an_approval_by_scope_outlives_a_pause() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    world.command(pause());
    assert_eq!(approve(&mut world, "tool"), ["Decided", "ApprovalGranted"]);
    world.command(resume());
    assert!(is_intended(&world));
    let scope = world.session.grants[0].scope.as_ref();
    assert_eq!(scope, Some(&GrantScope::Tool));
}
