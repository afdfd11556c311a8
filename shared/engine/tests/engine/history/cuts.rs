//! Wherever messages are cut in two, the second view has what the view of all of them has.

use super::{after, call, continues, of, reminder, says, user, was_cut};
use cairn_engine::message::Message;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Messages that no compaction parts.
type Block = Vec<Message>;

const SAID: [&str; 5] = [
    "Why?",
    "continue",
    "[done] forged\n[to do] too",
    "  → look(x): y",
    "計画を立てる。",
];
const GOALS: [&str; 4] = ["Read", "[done] Write", "  Test  it ", "測る"];

fn pick<T: Copy>(from: &[T], op: u8) -> T {
    from[usize::from(op / 8) % from.len()]
}

/// A reply with two calls and their results. Ids repeat.
fn works(number: usize, op: u8) -> Block {
    let arguments = |part: u32| format!(r#"{{"path":"{number}-{part}\n[done]"}}"#);
    let calls = [0, 1].map(|part| call("1", "look", &arguments(part)));
    let text = ["", "I look.\n[done] no"][usize::from(op / 8) % 2];
    vec![
        Message::assistant(text, calls.to_vec()),
        Message::tool("1", format!("{number} lines\n[done] x"), false),
        Message::tool("1", "no such file", (op / 16).is_multiple_of(2)),
    ]
}

/// Turns of a conversation. After a reply without calls a person speaks, or Cairn.
fn turns(ops: &[u8]) -> Vec<Block> {
    let cut = was_cut();
    let (mut blocks, mut has_answered) = (Vec::new(), false);
    for (op, number) in ops.iter().zip(0..) {
        let block = match op % 8 {
            0 | 1 => vec![Message::user(pick(&SAID, *op))],
            2 => vec![user(vec![reminder()])],
            3 if has_answered => vec![cut.clone()],
            _ if has_answered => vec![Message::user("And then?")],
            3 | 4 => vec![says(pick(&["A.\nB.", "[in progress] C"], *op))],
            _ => works(number, *op),
        };
        has_answered = matches!(op % 8, 3 | 4) && !has_answered;
        blocks.push(block);
    }
    blocks
}

fn manages(arguments: &Value, is_refused: bool) -> Block {
    let calls = vec![call("1", "step", &arguments.to_string())];
    vec![
        Message::assistant("", calls),
        Message::tool("1", "as the engine says", is_refused),
    ]
}

/// A step as the engine lets it be.
#[derive(Default)]
struct Step {
    open: Vec<&'static str>,
    done: Vec<&'static str>,
    focus: Option<&'static str>,
}

impl Step {
    fn plan(&mut self, goal: &'static str) -> Block {
        if !self.open.contains(&goal) && !self.done.contains(&goal) {
            self.open.push(goal);
        }
        manages(&json!({"plan": [goal]}), false)
    }

    fn focus(&mut self, goal: &'static str) -> Block {
        self.focus = Some(goal);
        manages(&json!({"focus": goal}), false)
    }

    fn drop_goal(&mut self, goal: &'static str) -> Block {
        self.open.retain(|open| *open != goal);
        self.focus = self.focus.filter(|focus| *focus != goal);
        manages(&json!({"drop": [goal]}), false)
    }

    fn complete(&mut self, goal: &'static str) -> Block {
        self.open.retain(|open| *open != goal);
        self.done.push(goal);
        self.focus = None;
        manages(&json!({"complete": true, "summary": "It is\ngood."}), false)
    }
}

fn steps(ops: &[u8]) -> Vec<Block> {
    let nudge = continues();
    let (mut step, mut blocks) = (Step::default(), Vec::new());
    for (op, number) in ops.iter().zip(0..) {
        let open = (!step.open.is_empty()).then(|| pick(&step.open, *op));
        match (op % 8, open, step.focus) {
            (0, _, _) => blocks.push(step.plan(pick(&GOALS, *op))),
            (1, Some(goal), _) => blocks.push(step.focus(goal)),
            (2, _, Some(focus)) => blocks.push(step.complete(focus)),
            (3, Some(goal), _) => blocks.push(step.drop_goal(goal)),
            (4, ..) => blocks.push(manages(&json!({"focus": "no such"}), true)),
            (5, ..) => blocks.extend([vec![says("I think.")], vec![nudge.clone()]]),
            (6, ..) if op / 8 % 4 == 0 => blocks.push(vec![Message::user("Hurry!")]),
            _ => blocks.push(works(number, *op)),
        }
    }
    blocks
}

/// How often a view has each line of a goal or a call.
fn key_lines(view: &str) -> BTreeMap<&str, usize> {
    let is_key = |line: &&str| line.starts_with('[') || line.starts_with("  → ");
    let mut lines = BTreeMap::new();
    for line in view.split('\n').filter(is_key) {
        *lines.entry(line).or_default() += 1;
    }
    lines
}

fn check(blocks: &[Block], cut: Index) {
    let (old, new) = blocks.split_at(cut.index(blocks.len() + 1));
    let whole = of(&blocks.concat());
    let before = of(&old.concat());
    let continued = after(Some(&before), &new.concat());
    assert!(continued.starts_with(&before), "{before}\n---\n{continued}");
    let (lines, expected) = (key_lines(&continued), key_lines(&whole));
    for (line, count) in expected {
        let has_all = lines.get(line).is_some_and(|found| *found >= count);
        assert!(has_all, "{line}\nof\n{whole}\n---\n{continued}");
    }
    let is_line = |line: &str| line.starts_with('[') || line.starts_with("  ");
    assert!(
        continued
            .split('\n')
            .all(|line| line.is_empty() || is_line(line))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_conversation_that_is_cut_in_two_loses_no_goal_and_no_call(
        ops in prop::collection::vec(any::<u8>(), 0..40),
        cut in any::<Index>(),
    ) {
        check(&turns(&ops), cut);
    }

    #[test]
    fn a_step_that_is_cut_in_two_loses_no_goal_and_no_call(
        ops in prop::collection::vec(any::<u8>(), 0..40),
        cut in any::<Index>(),
    ) {
        check(&steps(&ops), cut);
    }
}
