//! The execution tree: which nodes there are, and where they hang.

use crate::world::{
    World, chain, complete, explored, long, look, model_step, send, step_call, tool_call, tool_step,
};
use cairn_engine::command::{self, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::ToolCall;
use cairn_engine::session::RunStatus;
use cairn_views::tree::{Node, NodeKind, NodeStatus, Tree, describe_call, infer};
use serde_json::json;

/// The trees of a world's journal.
pub(crate) fn tree(world: &World) -> Tree {
    let mut tree = Tree::default();
    for (event, seq) in world.journal.iter().zip(1..) {
        tree.apply(seq, event);
    }
    tree
}

/// The tree of run 1, one line a node: mark, kind and description.
fn outline(tree: &Tree) -> String {
    let mut lines = Vec::new();
    for &root in &tree.run(1).unwrap().roots {
        for (depth, node) in tree.walk(root) {
            let (indent, mark, kind) = ("  ".repeat(depth), node.status.mark(), node.kind.name());
            lines.push(format!("{indent}[{mark}] {kind}: {}", node.description));
        }
    }
    lines.join("\n")
}

/// The beginning of a long result is the node's text, and what follows says how long it is.
#[test]
fn a_long_result_names_its_size_and_its_handle() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[look()]);
    let result = long(world.call(1, 0), 5 << 20);
    world.report(1, vec![result]);
    let tree = tree(&world);
    let is_it = |node: &&Node| {
        node.description
            .starts_with("123456789 … of 5.0 MiB, handle result-1-")
    };
    let found = tree.nodes().iter().find(is_it).expect("the result");
    let rest = found.data.iter().find(|(name, _)| *name == "rest");
    let rest = rest.map(|(_, rest)| rest.as_str());
    let handle = found.description.strip_prefix("123456789 ");
    assert_eq!(rest, handle);
}

fn find<'a>(tree: &'a Tree, description: &str) -> &'a Node {
    let mut nodes = tree.nodes().iter();
    nodes.find(|node| node.description == description).unwrap()
}

#[test]
fn everything_has_its_place() {
    let expected = "\
[✓] goal: Explore
  [✓] thought: I need the layout first.
  [✓] action: look(notes.md)
    [✓] result: 15 files
  [✗] action: send(to=ops, lines=3)
    [✗] result: it went wrong
  [✓] goal: Read it
    [✓] action: look(notes.md)
      [✓] result: host = db
    [✓] evaluation: The host is db.
  [✓] thought: All is known.
  [✓] evaluation: The file is src/config.
[✓] goal: Count
  [✓] action: look(notes.md)
    [✓] result: 31 lines
[→] goal: Change
  [✓] thought: Now I change it.
  [→] action: look(notes.md)
[ ] goal: Test";
    assert_eq!(outline(&tree(&explored())), expected);
}

#[test]
fn the_system_fills_in_the_fields() {
    let world = explored();
    let tree = tree(&world);
    let root = tree.run(1).unwrap();
    assert_eq!(
        (root.task.as_str(), root.status),
        ("Change the configuration", RunStatus::Running)
    );
    assert_eq!(root.nodes as usize, tree.nodes().len());
    assert_eq!(root.usage, world.run().spent.usage);
    let sequences: Vec<u32> = tree.nodes().iter().map(|node| node.sequence).collect();
    assert_eq!(sequences, (1..=root.nodes).collect::<Vec<_>>());

    let explore = find(&tree, "Explore");
    assert_eq!(explore.parent, None);
    assert_eq!(explore.datum("description"), Some("Do Explore."));
    assert_eq!(explore.duration_ms, Some(3_000));
    assert_eq!(
        (explore.tokens, explore.cost_nano_usd),
        (Some(550), Some(12_500_000))
    );
    let part = find(&tree, "Read it");
    assert_eq!((part.tokens, part.duration_ms), (Some(220), Some(0)));

    // What a reply used up is at the first node that it made, and nowhere else.
    let thought = find(&tree, "I need the layout first.");
    assert_eq!(
        (thought.tokens, thought.duration_ms),
        (Some(110), Some(700))
    );
    let sent = find(&tree, "send(to=ops, lines=3)");
    assert_eq!(
        (sent.tokens, sent.cost_nano_usd, sent.duration_ms),
        (None, None, Some(50))
    );
    assert_eq!(
        sent.datum("arguments"),
        Some(r#"{"to":"ops","lines":3,"tags":["a"]}"#)
    );
    let evaluation = find(&tree, "The host is db.");
    assert_eq!(evaluation.summary.as_deref(), Some("The host is db."));
    assert_eq!(evaluation.tokens, Some(110));
    let result = find(&tree, "15 files");
    assert_eq!(result.datum("output"), Some("15 files\nsrc/main.rs"));
    assert_eq!(
        result.parent.map(|at| tree.nodes()[at].kind),
        Some(NodeKind::Action)
    );
    let failed = find(&tree, "it went wrong");
    assert_eq!(failed.datum("reason"), Some("ExecutionFailed"));
}

#[test]
fn ids_and_everything_else_are_the_same_when_folded_again() {
    let world = explored();
    let whole = tree(&world);
    assert_eq!(tree(&world), whole);
    assert!(whole.nodes().iter().all(|node| node.id.len() == 16));
    // A node keeps its id and its place as the journal grows.
    let mut earlier = world.clone();
    earlier.journal.truncate(world.journal.len() / 2);
    for (before, after) in tree(&earlier).nodes().iter().zip(whole.nodes()) {
        assert_eq!((&before.id, before.parent), (&after.id, after.parent));
    }
}

#[test]
fn a_run_that_completes_ends_with_its_response() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.complete(1, "The answer is 42. It took long.");
    let tree = tree(&world);
    let response = tree.nodes().last().unwrap();
    assert_eq!((response.kind, response.parent), (NodeKind::Response, None));
    assert_eq!(response.description, "The answer is 42.");
    assert_eq!(
        response.datum("content"),
        Some("The answer is 42. It took long.")
    );
    assert_eq!(tree.run(1).unwrap().roots.len(), 2);
    assert_eq!(tree.run(1).unwrap().ended_at, Some(world.now));
}

#[test]
fn a_refused_call_of_step_is_shown_as_an_action() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[step_call(&json!({"focus": "Z"}))]);
    world.reply(1, "", &[look(), complete("done")]);
    world.error(1, 0, "ExecutionFailed");
    let expected = "\
[→] goal: one
  [✗] action: step(Z)
    [✗] result: there is no open sub-goal 'Z'; read_progress lists them
  [✗] action: look(notes.md)
    [✗] result: it went wrong
  [✗] action: step(complete=true, summary=done)
    [✗] result: not completed: 'look' of the same reply failed; complete when that is dealt with";
    assert_eq!(outline(&tree(&world)), expected);
}

#[test]
fn goals_out_of_focus_are_planned_again_and_skipped_at_the_end() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(
        1,
        "",
        &[step_call(&json!({"plan": ["A", "B"], "focus": "A"}))],
    );
    world.reply(1, "Some thought.", &[step_call(&json!({"focus": "B"}))]);
    let expected = "\
[→] goal: one
  [ ] goal: A
    [✓] thought: Some thought.
  [→] goal: B";
    assert_eq!(outline(&tree(&world)), expected);
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no more"));
    let tree = tree(&world);
    let expected = "\
[✗] goal: one
  [-] goal: A
    [✓] thought: Some thought.
  [-] goal: B";
    assert_eq!(outline(&tree), expected);
    assert_eq!(find(&tree, "one").datum("error"), Some("no more"));
}

/// Calls of `step` count first, wherever they stand in the reply.
#[test]
fn calls_beside_step_belong_to_the_goal_in_focus_after_it() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let plan = json!({"plan": ["A", "B", "C"], "focus": "A"});
    world.reply(1, "", &[look(), step_call(&plan)]);
    world.result(1, 0, "seen");
    let read = || tool_call("read_progress", &json!({}));
    let next = json!({"complete": true, "summary": "A is done", "focus": "B"});
    let events = world.reply(1, "Now B.", &[read(), step_call(&next), read()]);
    let progress = "[→] one\n  [✓] A\n  [→] B\n  [ ] C";
    let results = World::reported(&events);
    assert_eq!(
        (results[1].0.as_str(), results[2].0.as_str()),
        (progress, progress)
    );
    world.reply(1, "", &[look(), step_call(&json!({"drop": ["B"]}))]);
    let expected = "\
[→] goal: one
  [✓] goal: A
    [✓] action: look(notes.md)
      [✓] result: seen
    [✓] thought: Now B.
    [✓] evaluation: A is done
  [-] goal: B
    [✓] action: read_progress
      [✓] result: [→] one
    [✓] action: read_progress
      [✓] result: [→] one
  [ ] goal: C
  [→] action: look(notes.md)";
    assert_eq!(outline(&tree(&world)), expected);
}

#[test]
fn a_call_in_doubt_is_in_progress_until_somebody_says_what_became_of_it() {
    let settled = |settlement: Settlement| {
        let mut world = World::with_plan(chain(vec![model_step("one")]));
        world.reply(1, "", &[send()]);
        world.decide(Input::TakenOver { holder_dead: false });
        let before = tree(&world);
        assert_eq!(
            find(&before, "send(somebody)").status,
            NodeStatus::InProgress
        );
        assert_eq!(
            find(&before, "send(somebody)").datum("outcome"),
            Some("nobody knows")
        );
        world.now += 1_000_000;
        world.answer("call-1.1.1.0.0", settlement);
        let after = tree(&world);
        let action = find(&after, "send(somebody)");
        let word = action.datum("outcome").unwrap().to_owned();
        (action.status, action.children.len(), word)
    };
    let done = Settlement::Done {
        output: "sent".to_owned(),
    };
    let because = |make: fn(String) -> Settlement| make("because".to_owned());
    let said = |word: &str| format!("decided by a person: {word}");
    assert_eq!(settled(done), (NodeStatus::Completed, 1, said("done")));
    assert_eq!(
        settled(Settlement::Retry),
        (NodeStatus::InProgress, 0, said("retry"))
    );
    let skip = because(|reason| Settlement::Skip { reason });
    assert_eq!(settled(skip), (NodeStatus::Skipped, 1, said("skip")));
    let fail = because(|reason| Settlement::Fail { reason });
    assert_eq!(settled(fail), (NodeStatus::Failed, 1, said("fail")));
}

#[test]
fn a_cancelled_run_leaves_nothing_in_progress() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send"), model_step("two")]));
    let reason = "no longer needed".to_owned();
    world.command(command::Command::CancelRun(command::CancelRun {
        run: 1,
        reason,
    }));
    let tree = tree(&world);
    assert_eq!(
        outline(&tree),
        "[-] goal: one\n  [-] action: send(notes.md)\n[ ] goal: two"
    );
    assert_eq!(
        find(&tree, "send(notes.md)").datum("outcome"),
        Some("nobody knows")
    );
}

#[test]
fn a_reply_of_nothing_is_a_thought_too() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, " ", &[]);
    assert_eq!(outline(&tree(&world)), "[→] goal: one\n  [✓] thought: ");
}

#[test]
fn a_run_knows_its_trace() {
    let started = World::with_plan(chain(vec![model_step("one")]));
    assert_eq!(tree(&started).run(1).unwrap().trace_id, "abc123");
    let traced = tree(&explored());
    assert_eq!(traced.run(1).unwrap().trace_id, "abc123");
}

#[test]
fn a_reply_is_read_by_its_calls_and_those_of_step_first() {
    use NodeKind::{Action, Evaluation, Goal, Response, Thought};
    let step = |arguments: serde_json::Value| step_call(&arguments);
    let plan = step(json!({"plan": ["A", "B"]}));
    let end = step(json!({"complete": true, "summary": "s"}));
    let both = step(json!({"plan": ["A"], "complete": true}));
    let focus = step(json!({"focus": "A"}));
    let cases: [(&str, Vec<ToolCall>, bool, Vec<NodeKind>); 13] = [
        ("text", vec![], false, vec![Thought]),
        ("text", vec![], true, vec![Response]),
        ("", vec![], false, vec![Thought]),
        ("", vec![look()], false, vec![Action]),
        ("text", vec![look()], false, vec![Thought, Action]),
        (" \n", vec![look(), send()], true, vec![Action, Action]),
        ("", vec![plan.clone()], false, vec![Goal, Goal]),
        ("", vec![end.clone()], false, vec![Evaluation]),
        ("", vec![both], false, vec![Goal, Evaluation]),
        ("text", vec![focus], false, vec![Thought]),
        ("", vec![step(json!({"complete": false}))], false, vec![]),
        (
            "text",
            vec![look(), end, plan],
            true,
            vec![Thought, Action, Evaluation, Goal, Goal],
        ),
        (
            "",
            vec![tool_call("read_progress", &json!({}))],
            false,
            vec![Action],
        ),
    ];
    for (text, calls, is_final, expected) in cases {
        assert_eq!(
            infer(text, &calls, is_final),
            expected,
            "{text:?} {calls:?}"
        );
    }
}

#[test]
fn an_action_is_described_by_its_tool_and_its_simple_arguments() {
    let cases = [
        ("", "t"),
        ("{}", "t"),
        (r#"{"path":"a.md"}"#, "t(a.md)"),
        (r#"{"path":"a.md","lines":[1]}"#, "t(a.md)"),
        (
            r#"{"b":2,"a":true,"c":"x\ny","d":1}"#,
            "t(b=2, a=true, c=x)",
        ),
        ("{broken", "t({broken)"),
        ("[1]", "t([1])"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(describe_call("t", arguments), expected);
    }
    let long = json!({"path": "x".repeat(100)}).to_string();
    assert_eq!(describe_call("t", &long), format!("t({}…)", "x".repeat(60)));
}
