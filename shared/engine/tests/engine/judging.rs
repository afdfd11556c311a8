//! Who decides about a call: rules, approvals of further calls, calls that are judged anew, and what tools
//! ask in the middle.

mod questions;
mod scopes;
mod table;

use crate::asking::{deny, open};
use crate::control::{pause, resume};
use crate::world::{World, chain, kinds, model_step, tool_call};
use cairn_engine::command::{Command, RevokeApproval, Settlement};
use cairn_engine::decide::{Fork, Input, ToolFacts, Unfinished};
use cairn_engine::event::{CallFinished, Effect, Event, EventKind, WaitReason};
use cairn_engine::message::ToolCall;
use cairn_engine::outstanding::Work;
use cairn_engine::rules::{Answer, Condition, Matcher, MatcherKind, Rule, Rules};
use cairn_engine::session::{CallStatus, RunStatus};
use serde_json::json;

const APPROVAL: RunStatus = RunStatus::Waiting(WaitReason::Approval);
const QUESTION: RunStatus = RunStatus::Waiting(WaitReason::Question);

/// `edit` is effectful, asks, and has the value `path`.
fn world() -> World {
    let mut world = World::new();
    world.tools.insert("edit".to_owned(), edit("first"));
    world.start(chain(vec![model_step("a"), model_step("b")]));
    world
}

fn edit(digest: &str) -> ToolFacts {
    ToolFacts {
        effect: Effect::Effectful,
        time_limit_ms: 1_000,
        digest: digest.to_owned(),
        default: Answer::Ask,
        matchers: vec![Matcher {
            folder: None,
            name: "path".to_owned(),
            kind: MatcherKind::Path,
            argument: "path".to_owned(),
            default: None,
        }],
        ..ToolFacts::default()
    }
}

fn call(path: &str) -> ToolCall {
    tool_call("edit", &json!({ "path": path }))
}

fn rule(tool: &str, path: Option<&str>, answer: Answer) -> Rule {
    let when = path.map(|path| ("path".to_owned(), path.to_owned()));
    Rule {
        tool: tool.to_owned(),
        when: when.into_iter().collect(),
        agent: None,
        answer,
    }
}

fn status(world: &World) -> CallStatus {
    world.session.call(world.call(1, 0)).unwrap().status.clone()
}

fn is_intended(world: &World) -> bool {
    matches!(status(world), CallStatus::Intended { .. })
}

/// An approval of the call and of further ones with these values, or with those of the call.
pub(crate) fn always(when: &[(&str, &str)]) -> Settlement {
    let when = when.iter().map(|(name, pattern)| Condition {
        name: (*name).to_owned(),
        pattern: (*pattern).to_owned(),
    });
    Settlement::ApproveAlways {
        when: when.collect(),
        scope: String::new(),
    }
}

fn refusal(events: &[Event]) -> &str {
    match &events.last().unwrap().kind {
        EventKind::CommandRefused(refused) => refused.reason.name(),
        other => panic!("{other:?}"),
    }
}

fn end(world: &mut World) {
    world.result(1, 0, "done");
}

#[test]
fn a_rule_denies_a_call_before_it_is_intended() {
    let mut world = world();
    world.rules = Rules::new(vec![rule("e*", Some("secret/**"), Answer::Deny)]).unwrap();
    let events = world.reply(1, "", &[call("docs/../secret/a")]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    let CallStatus::Finished { reason, output, .. } = status(&world) else {
        panic!("{:?}", status(&world));
    };
    assert_eq!(reason, CallFinished::DENIED);
    assert!(output.contains("secret/**"), "{output}");
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn a_rule_allows_what_would_ask() {
    let mut world = world();
    world.rules = Rules::new(vec![rule("edit", Some("docs/**"), Answer::Allow)]).unwrap();
    world.reply(1, "", &[call("docs/a")]);
    assert!(is_intended(&world));
    end(&mut world);
    world.reply(1, "", &[call("docs/%2e%2e/a")]);
    assert_eq!(world.run().status, APPROVAL, "it may be another path");
}

#[test]
fn always_holds_for_calls_with_the_same_values_of_the_same_tool() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    let events = world.answer("approval-1.1.1.0.0", always(&[]));
    let expected = ["Decided", "ApprovalGranted", "CallIntended", "RunResumed"];
    assert_eq!(kinds(&events), expected);
    end(&mut world);
    world.reply(1, "", &[call("./docs/a")]);
    assert!(is_intended(&world), "the same path in other words");
    end(&mut world);
    world.reply(1, "", &[call("docs/b")]);
    assert_eq!(open(&world), ["approval-1.1.1.2.0"]);
    world.answer("approval-1.1.1.2.0", always(&[("path", "docs/**")]));
    end(&mut world);
    world.reply(1, "", &[call("docs/c/d")]);
    assert!(is_intended(&world));
    assert_eq!(world.folded(), world.session);
    end(&mut world);
    // The tool is another one now.
    world.tools.insert("edit".to_owned(), edit("second"));
    world.reply(1, "", &[call("docs/a")]);
    assert_eq!(world.run().status, APPROVAL);
}

#[test]
fn always_never_answers_a_deny_and_ends_when_it_is_revoked() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    world.answer("approval-1.1.1.0.0", always(&[]));
    end(&mut world);
    world.rules = Rules::new(vec![rule("edit", None, Answer::Deny)]).unwrap();
    world.reply(1, "", &[call("docs/a")]);
    assert!(matches!(status(&world), CallStatus::Finished { .. }));
    world.rules = Rules::default();
    let revoke = |grant| Command::RevokeApproval(RevokeApproval { grant });
    let refused = world.command(revoke(2));
    assert_eq!(refusal(&refused), "NO_SUCH_APPROVAL");
    assert_eq!(kinds(&world.command(revoke(1))), ["ApprovalRevoked"]);
    assert_eq!(refusal(&world.command(revoke(1))), "NO_SUCH_APPROVAL");
    world.reply(1, "", &[call("docs/a")]);
    assert_eq!(world.run().status, APPROVAL);
}

#[test]
fn always_must_cover_its_own_call_and_needs_clear_values() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    for when in [[("path", "other/**")], [("owner", "*")]] {
        let refused = world.answer("approval-1.1.1.0.0", always(&when));
        assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
    }
    world.answer("approval-1.1.1.0.0", deny("no"));
    world.reply(1, "", &[call("docs/%2e%2e")]);
    let refused = world.answer("approval-1.1.1.1.0", always(&[]));
    assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
    assert!(world.session.grants.is_empty());
}

/// `send` has the arguments `path`, `message` and `target`.
fn sender() -> World {
    let mut world = world();
    let matcher = |name: &str, kind| Matcher {
        folder: None,
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: None,
    };
    let send = ToolFacts {
        matchers: vec![
            matcher("path", MatcherKind::Path),
            matcher("message", MatcherKind::Prose),
            matcher("target", MatcherKind::Text),
        ],
        ..edit("first")
    };
    world.tools.insert("send".to_owned(), send);
    world
}

#[test]
fn always_covers_no_call_with_further_arguments() {
    for when in [&[][..], &[("message", "**")], &[("path", "docs/**")]] {
        let mut world = sender();
        let first = json!({"path": "docs/a", "message": "hi"});
        world.reply(1, "", &[tool_call("send", &first)]);
        world.answer("approval-1.1.1.0.0", always(when));
        assert!(is_intended(&world), "{when:?}");
        end(&mut world);
        world.reply(1, "", &[tool_call("send", &first)]);
        assert!(is_intended(&world), "{when:?}");
        end(&mut world);
        for more in [
            json!({"path": "docs/a", "message": "hi", "target": "x"}),
            json!({"path": "docs/a", "message": "hi", "Path": "secret/a"}),
            json!({"path": "docs/a", "message": "hi", "further": 1}),
        ] {
            let mut world = world.clone();
            world.reply(1, "", &[tool_call("send", &more)]);
            assert_eq!(world.run().status, APPROVAL, "{when:?}: {more}");
        }
    }
}

/// A pattern widens what it names, and leaves open what it does not; a path is never left open by one.
#[test]
fn always_with_a_pattern_of_paths_covers_no_path_elsewhere() {
    let mut world = sender();
    let call = |path: &str, message: &str| {
        let arguments = json!({"path": path, "message": message, "target": "docs/t"});
        tool_call("send", &arguments)
    };
    world.reply(1, "", &[call("docs/a", "hi")]);
    world.answer("approval-1.1.1.0.0", always(&[("path", "docs/**")]));
    end(&mut world);
    world.reply(1, "", &[call("docs/b", "other words")]);
    assert!(is_intended(&world));
    end(&mut world);
    let elsewhere = json!({"path": "docs/b", "message": "hi", "target": "../out"});
    world.reply(1, "", &[tool_call("send", &elsewhere)]);
    assert_eq!(world.run().status, APPROVAL);
}

fn forked(world: &World) -> World {
    let mut child = world.clone();
    child.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        title: String::new(),
        principal: None,
        continues: true,
    }));
    child
}

#[test]
fn a_fork_inherits_no_approval_of_further_calls() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    world.answer("approval-1.1.1.0.0", always(&[]));
    end(&mut world);
    assert_eq!(world.session.grants.len(), 1);
    let child = forked(&world);
    assert!(child.session.grants.is_empty());
    assert_eq!(
        child.session.grants_given, 1,
        "its numbers are not used twice"
    );
}

fn rejudge(world: &World, resolved: &[(&str, &str)]) -> Unfinished {
    let resolved = resolved.iter().map(|(name, pattern)| Condition {
        name: (*name).to_owned(),
        pattern: (*pattern).to_owned(),
    });
    Unfinished::Rejudge {
        call: world.call(1, 0),
        resolved: resolved.collect(),
    }
}

#[test]
fn a_tool_that_changes_between_approval_and_sending_is_asked_about_again() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert!(is_intended(&world));
    world.tools.insert("edit".to_owned(), edit("second"));
    let again = rejudge(&world, &[]);
    let events = world.unfinished(1, again);
    let expected = ["CallRejudged", "ApprovalRequested", "RunWaiting"];
    assert_eq!(kinds(&events), expected);
    assert_eq!(open(&world), ["approval-1.1.1.0.0-2"]);
    // The first answer, sent once more, is no answer to this.
    let refused = world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(refusal(&refused), "NOT_PENDING");
    world.answer("approval-1.1.1.0.0-2", Settlement::Approve);
    assert!(is_intended(&world));
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_link_is_judged_by_where_it_leads() {
    let mut world = world();
    let rules = vec![
        rule("edit", Some("docs/**"), Answer::Allow),
        rule("edit", Some("secret/**"), Answer::Deny),
    ];
    world.rules = Rules::new(rules).unwrap();
    world.reply(1, "", &[call("docs/link")]);
    assert!(is_intended(&world));
    let again = rejudge(&world, &[("docs/link", "secret/a")]);
    let events = world.unfinished(1, again);
    assert_eq!(kinds(&events), ["CallRejudged", "CallFinished"]);
    let CallStatus::Finished { reason, .. } = status(&world) else {
        panic!("{:?}", status(&world));
    };
    assert_eq!(reason, CallFinished::DENIED);
}

#[test]
fn a_tool_that_changes_all_the_time_is_given_up() {
    let mut world = world();
    world.rules = Rules::new(vec![rule("edit", None, Answer::Allow)]).unwrap();
    world.reply(1, "", &[call("docs/a")]);
    let mut times = 0;
    while is_intended(&world) && times < 100 {
        let again = rejudge(&world, &[]);
        world.unfinished(1, again);
        times += 1;
    }
    assert!(matches!(
        status(&world),
        CallStatus::Finished { is_error: true, .. }
    ));
    assert!(times < 100);
}

/// Its server may be starting again. Should another tool have the name by then, tools will say so.
#[test]
fn an_approved_call_whose_tool_is_away_is_asked_about_once() {
    let mut world = world();
    world.reply(1, "", &[call("docs/a")]);
    world.command(pause());
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let edit_tool = world.tools.remove("edit").unwrap();
    let events = world.command(resume());
    assert_eq!(kinds(&events), ["RunResumed", "CallIntended"]);
    let called = world.session.call(world.call(1, 0)).unwrap();
    assert_eq!(called.tool_digest, "first");
    // Nor is one that is made once more.
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    world.now += 1_000_000;
    world.command(pause());
    world.answer("call-1.1.1.0.0", Settlement::Retry);
    world.command(resume());
    assert!(is_intended(&world), "{:?}", status(&world));
    world.tools.insert("edit".to_owned(), edit_tool);
    assert!(open(&world).is_empty());
    let called = world.session.call(world.call(1, 0)).unwrap();
    assert_eq!(called.tool_digest, "first");
    assert_eq!(world.folded(), world.session);
}

/// The server of a tool may be starting when its step begins.
#[test]
fn a_tool_that_nobody_knew_is_judged_once_it_is_there() {
    let mut world = World::new();
    world.start(chain(vec![crate::world::tool_step("a", "edit")]));
    let call = world.session.call(world.call(1, 0)).unwrap();
    assert!(!call.tool_digest.is_empty(), "no tool has this digest");
    world.tools.insert("edit".to_owned(), edit("first"));
    let again = rejudge(&world, &[]);
    world.unfinished(1, again);
    assert_eq!(world.run().status, APPROVAL, "it asks, as the tool does");
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert!(is_intended(&world), "it has an effect");
}
