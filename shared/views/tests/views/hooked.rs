//! What views show of replies, calls and results that hooks changed.

use crate::tree::tree;
use crate::world::{World, chain, model_step, send};
use cairn_engine::event::{CallFinished, Event, EventKind, HooksAnswered, HooksPinned};
use cairn_engine::hooks::{Gate, Mutation, Outcome, PinnedHook, Point, Points, VerdictKind};
use cairn_views::agent_state;
use cairn_views::hooked::{replaced, sent};
use cairn_views::report::markdown;
use cairn_views::tree::{Node, NodeKind, NodeStatus, Tree};

/// The arguments that a hook sends in place of the model's.
const CHANGED: &str = r#"{"to":"ops"}"#;

/// The model has called a tool, which gave its result.
fn world() -> World {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "The password is rose.", &[send()]);
    world.result(1, 0, "rose was sent");
    world
}

fn answered(
    gate: Gate,
    verdict: VerdictKind,
    text: &str,
    mutation: Option<Mutation>,
) -> HooksAnswered {
    let outcome = Outcome {
        index: 0,
        verdict,
        hook: "guard".to_owned(),
        text: text.to_owned(),
        mutation,
        answers: Vec::new(),
    };
    HooksAnswered {
        gate,
        outcomes: vec![outcome],
    }
}

fn mutated(gate: Gate, mutation: Mutation) -> HooksAnswered {
    answered(gate, VerdictKind::Mutate, "", Some(mutation))
}

fn of_attempt(world: &World, point: Point) -> Gate {
    Gate::of_attempt(point, world.attempt(1), 0)
}

fn blocked(world: &World) -> HooksAnswered {
    let gate = Gate::of_result(world.call(1, 0));
    answered(gate, VerdictKind::Block, "no secrets", None)
}

/// Changes of the call, of the reply and of the result.
fn changes(world: &World) -> [HooksAnswered; 3] {
    let arguments = Mutation::Arguments(CHANGED.to_owned());
    let text = Mutation::Text("The password is hidden.".to_owned());
    let output = Mutation::Output("it was sent".to_owned());
    [
        mutated(of_attempt(world, Point::PreToolCall), arguments),
        mutated(of_attempt(world, Point::PostRequest), text),
        mutated(Gate::of_result(world.call(1, 0)), output),
    ]
}

/// The tree after what hooks answered.
fn with(world: &World, answers: impl IntoIterator<Item = HooksAnswered>) -> Tree {
    let mut tree = tree(world);
    for (answered, seq) in answers.into_iter().zip(world.session.seq + 1..) {
        tree.apply(seq, &event(world, answered));
    }
    tree
}

fn event(world: &World, answered: HooksAnswered) -> Event {
    Event {
        at: world.now,
        answers: 0,
        principal: None,
        kind: answered.into(),
    }
}

fn node(tree: &Tree, kind: NodeKind) -> &Node {
    let mut nodes = tree.nodes().iter();
    nodes.find(|node| node.kind == kind).unwrap()
}

#[test]
fn the_tree_shows_what_hooks_left_and_what_the_model_wrote() {
    let world = world();
    let tree = with(&world, changes(&world));
    let thought = node(&tree, NodeKind::Thought);
    assert_eq!(thought.datum("content"), Some("The password is hidden."));
    assert_eq!(thought.description, "The password is hidden.");
    let action = node(&tree, NodeKind::Action);
    assert_eq!(action.datum("arguments"), Some(r#"{"to":"somebody"}"#));
    assert_eq!(action.datum("sent"), Some(CHANGED));
    let result = node(&tree, NodeKind::Result);
    assert_eq!(result.datum("output"), Some("it was sent"));
    assert_eq!(result.description, "it was sent");
    assert_eq!(
        (action.status, result.status),
        (NodeStatus::Completed, NodeStatus::Completed)
    );
}

#[test]
fn the_tree_shows_a_result_that_a_hook_withheld_as_failed() {
    let world = world();
    let tree = with(&world, [blocked(&world)]);
    let result = node(&tree, NodeKind::Result);
    let words =
        "the call was made, and hook 'guard' blocked its result at PostToolCall: no secrets";
    assert_eq!(result.datum("output"), Some(words));
    assert_eq!(result.datum("reason"), Some(CallFinished::HOOK_BLOCKED));
    assert_eq!(result.status, NodeStatus::Failed);
    assert_eq!(node(&tree, NodeKind::Action).status, NodeStatus::Failed);
}

#[test]
fn a_hook_gives_words_to_a_reply_that_had_none() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[send()]);
    let text = Mutation::Text("I send it.".to_owned());
    let gate = of_attempt(&world, Point::PostRequest);
    let tree = with(&world, [mutated(gate, text)]);
    let thought = node(&tree, NodeKind::Thought);
    assert_eq!(thought.datum("content"), Some("I send it."));
}

#[test]
fn the_report_shows_what_was_sent_and_what_the_model_got() {
    let world = world();
    let report = |answers: Vec<HooksAnswered>| {
        let answers = answers.into_iter().map(|answered| event(&world, answered));
        let events: Vec<_> = world.journal.iter().cloned().chain(answers).collect();
        markdown(&events, 1).unwrap()
    };
    let text = report(changes(&world).into());
    assert!(
        text.contains("`{\"to\":\"ops\"}` (changed by a hook) → `it was sent`"),
        "{text}"
    );
    assert!(!text.contains("rose was sent"), "{text}");
    let text = report(vec![blocked(&world)]);
    let words = "**failed** (HookBlocked): `the call was made, and hook 'guard' blocked its result at \
                 PostToolCall: no secrets`";
    assert!(text.contains(words), "{text}");
    assert!(!text.contains("rose was sent"), "{text}");
}

#[test]
fn the_agent_state_has_both_arguments_of_a_call() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let guard = PinnedHook {
        name: "guard".to_owned(),
        digest: "first".to_owned(),
        points: Points::default().with(Point::PreToolCall),
        tools: Vec::new(),
    };
    world.foreign(EventKind::HooksPinned(HooksPinned {
        run: 1,
        hooks: vec![guard],
    }));
    world.reply(1, "", &[send()]);
    let [sent, ..] = changes(&world);
    world.foreign(sent.into());
    let state = agent_state::of_session(&world.session);
    let history = state["current_step_chat_history"].as_array().unwrap();
    let reply = history.iter().find(|it| it["role"] == "assistant").unwrap();
    assert_eq!(reply["tool_calls"][0]["arguments"], r#"{"to":"somebody"}"#);
    assert_eq!(reply["tool_calls"][0]["sent"], CHANGED);
}

#[test]
fn only_a_change_replaces_something() {
    let world = world();
    let gate = Gate::of_result(world.call(1, 0));
    let proceed = answered(gate, VerdictKind::Proceed, "", None);
    assert_eq!(replaced(&proceed), None);
    let reply = of_attempt(&world, Point::PostRequest);
    assert_eq!(
        replaced(&answered(reply, VerdictKind::Block, "no", None)),
        None
    );
    // A call that is not made is not sent, whatever hooks before had changed.
    let arguments = Mutation::Arguments(CHANGED.to_owned());
    let call = of_attempt(&world, Point::PreToolCall);
    let refused = answered(call, VerdictKind::Block, "no", Some(arguments));
    assert_eq!(sent(&refused).count(), 0);
    let [changed, ..] = changes(&world);
    let all: Vec<_> = sent(&changed).collect();
    assert_eq!(all, [(world.call(1, 0), CHANGED)]);
}
