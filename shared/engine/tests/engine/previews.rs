//! Writes are previewed before anything becomes of them.

mod kills;

use crate::asking::{deny, open};
use crate::world::{World, chain, finished, kinds, look, model_step, send, tool_call, tool_step};
use cairn_engine::command::{Command, Settlement, StartRun};
use cairn_engine::decide::{Fork, Input, Previewed, ToolFacts, Unfinished};
use cairn_engine::event::{
    CallFinished, CallPreview, Effect, Event, EventKind, FileState, WaitReason,
};
use cairn_engine::message::ToolCall;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::rules::{Answer, Matcher, MatcherKind, Rule, Rules, ToolServer};
use cairn_engine::session::{Call, CallStatus, Mode, RunStatus};
use serde_json::json;

pub(crate) const APPROVAL: RunStatus = RunStatus::Waiting(WaitReason::Approval);

fn matcher(name: &str, kind: MatcherKind) -> Matcher {
    Matcher {
        folder: Some("/work".to_owned()),
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: None,
    }
}

/// A tool that writes files.
pub(crate) fn writer(default: Answer) -> ToolFacts {
    ToolFacts {
        effect: Effect::Idempotent,
        time_limit_ms: 1_000,
        digest: "first".to_owned(),
        default,
        matchers: vec![
            matcher("path", MatcherKind::Path),
            matcher("content", MatcherKind::Free),
        ],
        previews: true,
        is_built_in: true,
        ..ToolFacts::default()
    }
}

/// A run of one step that a person follows. `write` writes files, and asks by default.
pub(crate) fn world() -> World {
    world_with(true)
}

fn world_with(answers_questions: bool) -> World {
    let mut world = World::new();
    world.tools.insert("write".to_owned(), writer(Answer::Ask));
    world.command(Command::StartRun(StartRun {
        plan: Some(chain(vec![model_step("a")])),
        answers_questions,
        ..StartRun::default()
    }));
    world
}

pub(crate) fn write(path: &str) -> ToolCall {
    tool_call("write", &json!({ "path": path, "content": "new" }))
}

/// A preview of a file that does not exist.
pub(crate) fn new_file(path: &str) -> CallPreview {
    CallPreview {
        path: path.to_owned(),
        after_digest: "after".to_owned(),
        diff: "+new\n".to_owned(),
        added: 1,
        ..CallPreview::default()
    }
}

fn changed(path: &str, before: &str) -> CallPreview {
    CallPreview {
        before_digest: before.to_owned(),
        removed: 1,
        ..new_file(path)
    }
}

fn protected(path: &str) -> CallPreview {
    CallPreview {
        is_protected: true,
        ..new_file(path)
    }
}

impl World {
    /// The owner has found what the call of this position would change.
    pub(crate) fn previewed(&mut self, index: u32, preview: CallPreview) -> Vec<Event> {
        let call = self.call(1, index);
        let outcome = Previewed::Shown(preview);
        self.decide(Input::Previewed { call, outcome })
    }

    /// The call of this position, as it is now.
    pub(crate) fn made(&self, index: u32) -> &Call {
        self.session.call(self.call(1, index)).unwrap()
    }

    /// It is for the owner to find what the call of this position would change.
    fn is_to_preview(&self, index: u32) -> bool {
        let work = Work::Preview(self.call(1, index));
        self.outstanding().contains(&work)
    }

    /// The model has read a file, which has this digest.
    fn has_read(&mut self, path: &str, digest: &str) {
        self.reply(1, "", &[look()]);
        let mut read = finished(self.call(1, 0), "the text", "");
        read.file = Some(FileState {
            path: path.to_owned(),
            digest: digest.to_owned(),
        });
        self.report(1, vec![read]);
    }
}

/// The reason and the output of a call that ended with these events.
pub(crate) fn end(events: &[Event]) -> (&str, &str) {
    let ended = events.iter().find_map(|event| match &event.kind {
        EventKind::CallFinished(it) => Some((it.reason.as_str(), it.output.as_str())),
        _ => None,
    });
    ended.unwrap()
}

pub(crate) fn rules(rules: &[(&str, Option<&str>, Answer)]) -> Rules {
    let rule = |&(tool, path, answer): &(&str, Option<&str>, Answer)| Rule {
        tool: tool.to_owned(),
        when: path
            .map(|path| ("path".to_owned(), path.to_owned()))
            .into_iter()
            .collect(),
        agent: None,
        answer,
    };
    Rules::new(rules.iter().map(rule).collect()).unwrap()
}

/// An executor may be sent the call.
pub(crate) fn is_sendable(call: &Call) -> bool {
    let may_be = matches!(
        (&call.status, call.effect),
        (CallStatus::Requested, Effect::Pure | Effect::Idempotent)
            | (CallStatus::Intended { .. }, _)
    );
    may_be && !call.is_unready()
}

#[test]
fn a_write_is_asked_about_with_its_preview_and_sent_once_approved() {
    let mut world = world();
    let events = world.reply(1, "", &[write("src/a")]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    assert!(world.is_to_preview(0) && !is_sendable(world.made(0)));
    let events = world.previewed(0, new_file("src/a"));
    let expected = ["CallPreviewed", "ApprovalRequested", "RunWaiting"];
    assert_eq!(kinds(&events), expected);
    assert!(world.outstanding().is_empty());
    let Asked::Approval { preview, .. } = pending(&world.session).remove(0).asked else {
        panic!("{:?}", pending(&world.session));
    };
    assert_eq!(preview.as_deref(), Some(&new_file("src/a")));
    let events = world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    assert!(is_sendable(world.made(0)));
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_write_of_a_file_that_was_not_read_as_it_is_ends_with_what_to_do() {
    let mut world = world();
    world.reply(1, "", &[write("src/a")]);
    let events = world.previewed(0, changed("src/a", "one"));
    assert_eq!(kinds(&events), ["CallPreviewed", "CallFinished"]);
    let (reason, output) = end(&events);
    assert_eq!(reason, CallFinished::NOT_READ);
    assert!(output.contains("was not read"), "{output}");
    world.has_read("src/a", "one");
    world.reply(1, "", &[write("src/a")]);
    let (reason, output) = {
        let events = world.previewed(0, changed("src/a", "two"));
        let (reason, output) = end(&events);
        (reason.to_owned(), output.to_owned())
    };
    assert_eq!(reason, CallFinished::NOT_READ);
    assert!(output.contains("has changed since it was read"), "{output}");
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, changed("src/a", "one"));
    assert_eq!(world.run().status, APPROVAL, "it is as it was read");
}

#[test]
fn what_a_model_wrote_it_need_not_read() {
    let mut world = world();
    world.rules = rules(&[("write", None, Answer::Allow)]);
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    let mut written = finished(world.call(1, 0), "written", "");
    written.file = Some(FileState {
        path: "src/a".to_owned(),
        digest: "after".to_owned(),
    });
    world.report(1, vec![written]);
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, changed("src/a", "after"));
    assert!(is_sendable(world.made(0)));
    // Results are not read before they are replaced.
    world.result(1, 0, "written");
    world.reply(1, "", &[write("cairn-out/a")]);
    world.previewed(0, changed("cairn-out/a", "another"));
    assert!(is_sendable(world.made(0)));
}

#[test]
fn a_protected_file_asks_whatever_allows_the_write() {
    let allowed = || rules(&[("*", None, Answer::Allow)]);
    for (what, default, rules, mode) in [
        ("a rule", Answer::Ask, allowed(), Mode::Ask),
        ("the default", Answer::Allow, Rules::default(), Mode::Ask),
        ("the mode", Answer::Ask, Rules::default(), Mode::AcceptEdits),
        ("all", Answer::Allow, allowed(), Mode::AcceptEdits),
    ] {
        let mut world = world();
        world.tools.insert("write".to_owned(), writer(default));
        world.rules = rules;
        world.set_mode(mode);
        world.reply(1, "", &[write("AGENTS.md")]);
        let events = world.previewed(0, protected("AGENTS.md"));
        assert!(
            kinds(&events).contains(&"ApprovalRequested".to_owned()),
            "{what}"
        );
        assert_eq!(world.run().status, APPROVAL, "{what}");
        // Nor does a person allow further ones.
        for scope in ["tool", "folder:.", ""] {
            let always = Settlement::ApproveAlways {
                when: Vec::new(),
                scope: scope.to_owned(),
            };
            let events = world.answer("approval-1.1.1.0.0", always);
            assert_eq!(kinds(&events), ["CommandRefused"], "{what}: {scope}");
        }
        world.answer("approval-1.1.1.0.0", Settlement::Approve);
        assert!(is_sendable(world.made(0)), "{what}");
    }
}

#[test]
fn an_approval_of_further_calls_covers_no_protected_file() {
    let mut world = world();
    world.reply(1, "", &[write("a")]);
    world.previewed(0, new_file("a"));
    let always = Settlement::ApproveAlways {
        when: Vec::new(),
        scope: "tool".to_owned(),
    };
    world.answer("approval-1.1.1.0.0", always);
    world.result(1, 0, "written");
    world.reply(1, "", &[write("b")]);
    world.previewed(0, new_file("b"));
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    world.reply(1, "", &[write("docs/link")]);
    world.previewed(0, protected(".git/hooks/pre-commit"));
    assert_eq!(world.run().status, APPROVAL);
}

/// The tool of a server has no preview, so its arguments count.
#[test]
fn a_server_writes_no_protected_file_unasked() {
    let mut world = world();
    world.rules = rules(&[("*", None, Answer::Allow)]);
    let of_server = |effect| ToolFacts {
        effect,
        previews: false,
        is_built_in: false,
        server: Some(ToolServer {
            name: "files".to_owned(),
            digest: "one".to_owned(),
        }),
        ..writer(Answer::Allow)
    };
    let put = of_server(Effect::Idempotent);
    world.tools.insert("files__put".to_owned(), put);
    let look = of_server(Effect::Pure);
    world.tools.insert("files__look".to_owned(), look);
    let call = |tool: &str, path: &str| tool_call(tool, &json!({ "path": path }));
    world.reply(1, "", &[call("files__put", "notes.md")]);
    assert!(is_sendable(world.made(0)), "it is not protected");
    world.result(1, 0, "done");
    world.reply(1, "", &[call("files__look", "CLAUDE.md")]);
    assert!(is_sendable(world.made(0)), "it only reads");
    world.result(1, 0, "done");
    world.reply(1, "", &[call("files__put", "docs/../CLAUDE.md")]);
    assert_eq!(world.run().status, APPROVAL);
    world.answer("approval-1.1.1.2.0", Settlement::Approve);
    assert!(is_sendable(world.made(0)));
}

#[test]
fn a_plan_step_is_previewed_and_needs_no_reading() {
    let mut world = World::new();
    world.rules = rules(&[("*", None, Answer::Allow)]);
    world.tools.insert("write".to_owned(), writer(Answer::Ask));
    world.start(chain(vec![
        tool_step("a", "write"),
        tool_step("b", "write"),
    ]));
    assert!(world.is_to_preview(0) && !is_sendable(world.made(0)));
    world.previewed(0, changed("notes.md", "unread"));
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    let call = world.call(2, 0);
    let outcome = Previewed::Shown(protected("AGENTS.md"));
    world.decide(Input::Previewed { call, outcome });
    assert_eq!(world.run().status, APPROVAL);
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_rule_denies_a_write_before_its_preview() {
    let mut world = world();
    world.rules = rules(&[("write", Some("secret/**"), Answer::Deny)]);
    let events = world.reply(1, "", &[write("secret/a")]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    assert_eq!(end(&events).0, CallFinished::DENIED);
    assert!(!world.is_to_preview(0));
}

#[test]
fn a_call_that_would_fail_ends_so_and_asks_nobody() {
    let mut world = world();
    world.reply(1, "", &[write("src/a")]);
    let call = world.call(1, 0);
    let outcome = Previewed::Failed {
        output: "it is a folder".to_owned(),
        reason: "ExecutionFailed".to_owned(),
    };
    let events = world.decide(Input::Previewed { call, outcome });
    assert_eq!(kinds(&events), ["CallFinished"]);
    assert_eq!(end(&events), ("ExecutionFailed", "it is a folder"));
    // What comes once more finds a call that has ended.
    assert!(world.previewed(0, new_file("src/a")).is_empty());
}

#[test]
fn a_file_that_changes_before_it_is_written_is_previewed_and_asked_about_again() {
    let mut world = world();
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let again = Unfinished::Rejudge {
        call: world.call(1, 0),
        resolved: Vec::new(),
    };
    let events = world.unfinished(1, again);
    assert_eq!(kinds(&events), ["CallRejudged"]);
    assert!(world.is_to_preview(0) && !is_sendable(world.made(0)));
    let other = CallPreview {
        after_digest: "another".to_owned(),
        ..new_file("src/a")
    };
    world.previewed(0, other);
    assert_eq!(open(&world), ["approval-1.1.1.0.0-2"]);
    assert_eq!(world.folded(), world.session);
}

#[test]
fn writes_of_a_reply_and_what_has_effects_after_them_come_in_their_order() {
    let mut world = world();
    world.rules = rules(&[("write", None, Answer::Allow)]);
    let events = world.reply(1, "", &[write("a"), write("a"), send(), look()]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    assert!(world.is_to_preview(0) && !world.is_to_preview(1));
    assert!(
        is_sendable(world.made(3)),
        "what only reads waits for nothing"
    );
    world.previewed(0, new_file("a"));
    assert!(is_sendable(world.made(0)) && !world.is_to_preview(1));
    let mut written = finished(world.call(1, 0), "written", "");
    written.file = Some(FileState {
        path: "a".to_owned(),
        digest: "after".to_owned(),
    });
    world.report(1, vec![written]);
    assert!(world.is_to_preview(1) && !is_sendable(world.made(2)));
    world.previewed(1, changed("a", "after"));
    assert!(!is_sendable(world.made(2)));
    let events = world.result(1, 1, "written");
    assert_eq!(kinds(&events), ["CallFinished", "CallIntended"]);
    assert!(is_sendable(world.made(2)));
}

/// A question ends the work of the executor, and a call with side effects that is under way would be sent again.
#[test]
fn a_write_waits_for_calls_with_side_effects_before_it() {
    let mut world = world();
    let events = world.reply(1, "", &[send(), write("a")]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallIntended"]);
    assert!(!world.is_to_preview(1));
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    world.result(1, 0, "sent");
    assert!(world.is_to_preview(1));
    world.previewed(1, new_file("a"));
    assert_eq!(world.run().status, APPROVAL);
    assert!(world.outstanding().is_empty());
}

#[test]
fn what_waits_for_a_write_begins_after_one_that_is_denied() {
    let mut world = world();
    world.reply(1, "", &[write("a"), send()]);
    world.previewed(0, new_file("a"));
    let events = world.answer("approval-1.1.1.0.0", deny("no"));
    let expected = ["Decided", "CallFinished", "CallIntended", "RunResumed"];
    assert_eq!(kinds(&events), expected);
}

#[test]
fn without_a_person_only_results_are_written_unless_a_rule_says_otherwise() {
    let mut world = world_with(false);
    world.rules = rules(&[("write", Some("cairn-out/**"), Answer::Allow)]);
    world.reply(1, "", &[write("src/a")]);
    let events = world.previewed(0, new_file("src/a"));
    let (reason, output) = end(&events);
    assert_eq!(reason, CallFinished::DENIED);
    assert!(
        output.contains("only cairn-out/ can be written here"),
        "{output}"
    );
    world.reply(1, "", &[write("cairn-out/a")]);
    world.previewed(0, new_file("cairn-out/a"));
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    world.rules = rules(&[("write", None, Answer::Ask)]);
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    assert_eq!(world.run().status, APPROVAL, "a rule's question waits");
    world.answer("approval-1.1.1.2.0", deny("no"));
    world.rules = rules(&[("write", None, Answer::Allow)]);
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    assert!(is_sendable(world.made(0)));
}

#[test]
fn a_plan_step_writes_only_results_without_a_person() {
    for (answers_questions, status) in [(false, RunStatus::Failed), (true, APPROVAL)] {
        let mut world = World::new();
        world.tools.insert("write".to_owned(), writer(Answer::Ask));
        world.command(Command::StartRun(StartRun {
            plan: Some(chain(vec![tool_step("a", "write")])),
            answers_questions,
            ..StartRun::default()
        }));
        world.previewed(0, new_file("notes.md"));
        assert_eq!(world.run().status, status);
    }
}

/// An executor that reports so has not kept to its permits.
#[test]
fn a_write_without_a_preview_has_no_result() {
    let mut world = world();
    world.reply(1, "", &[write("src/a")]);
    let result = finished(world.call(1, 0), "written", "");
    let report = Input::Report {
        attempt: world.attempt(1),
        results: vec![result],
        unfinished: Vec::new(),
        reply: None,
        failure: None,
        full: None,
        summary: None,
        retry: None,
    };
    assert!(world.clone().try_decide(report).is_err());
    let late = finished(world.call(1, 0), "not sent", CallFinished::NOT_SENT);
    assert!(world.report(1, vec![late]).is_empty());
    assert!(world.is_to_preview(0));
}

#[test]
fn a_fork_asks_again_about_a_write_and_has_read_what_was_read() {
    let mut world = world();
    world.has_read("src/a", "one");
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, changed("src/a", "one"));
    world.answer("approval-1.1.1.1.0", Settlement::Approve);
    let mut child = world.clone();
    child.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues: true,
    }));
    assert!(!is_sendable(child.made(0)));
    assert!(!open(&child).is_empty());
    let attempt = child.attempt(1);
    assert_eq!(child.session.seen_file(attempt, "src/a"), Some("one"));
}
