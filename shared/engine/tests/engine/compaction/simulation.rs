//! Two hundred turns in a small window: each request fits, what begins it stays as it was, and a fact of the third
//! turn is never lost, though summaries have nothing but facts.

use super::{attempt, compacted, next_request, report, size, sums_up, text, unlimited};
use crate::turns::submit;
use crate::world::{World, chain, look, model_step};
use cairn_engine::conversation::{CompactionKind, Conversation};
use cairn_engine::decide::Compaction;
use cairn_engine::event::{Event, EventKind};
use cairn_engine::message::Message;
use cairn_engine::session::{RunStatus, SummaryTask};
use cairn_engine::tokens::estimate_tokens;
use std::sync::Arc;

const TURNS: u32 = 200;
const FACT: &str = "FACT the port is 4711";

/// A model, and what is asked of it.
struct Model {
    window: u64,
    /// Tokens of the tools that it is offered.
    tools: u64,
}

impl Model {
    /// The messages of the next request that the model is asked with, after all compactions. Every request has
    /// room in the window.
    fn asked(&self, world: &mut World) -> Vec<Arc<Message>> {
        let mut reported = None;
        loop {
            assert_eq!(world.run().status, RunStatus::Running);
            let running = attempt(world);
            if let Some(task) = running.summary.clone() {
                self.sum_up(world, &task);
                continue;
            }
            let (now, size) = (running.rewrites, size(world, self.tools, self.window));
            let most = u64::from(Compaction::default().at_permille) * self.window;
            if size.tokens * 1_000 >= most && reported != Some(now) {
                reported = Some(now);
                let report = report(world, Some(size), None);
                world.decide(report);
                continue;
            }
            assert!(size.tokens < self.window, "{size:?}");
            return next_request(world);
        }
    }

    /// The model sums up: it copies the facts, and nothing else.
    fn sum_up(&self, world: &mut World, task: &SummaryTask) {
        let question = question(world, task);
        let tokens = estimate_tokens(&question) + self.tools;
        let most = tokens + u64::from(task.max_output_tokens);
        assert!(most <= self.window, "{most} of {}", self.window);
        let facts: Vec<String> = question.iter().flat_map(|message| facts(message)).collect();
        let summary = match facts.is_empty() {
            true => "Nothing is known.".to_owned(),
            false => facts.join("\n"),
        };
        compacted(&sums_up(world, &summary));
    }
}

/// What a model is asked that is to sum up.
fn question(world: &World, task: &SummaryTask) -> Vec<Arc<Message>> {
    let said = world.session.conversation(world.attempt(1)).unwrap();
    let replaced = said.replaced_by(CompactionKind::Summary, &task.messages);
    let replaced = replaced.unwrap().into_iter();
    let is_compressed = |number: u32| said.compressed.iter().any(|it| it.number == number);
    let replaced = replaced.filter(|entry| !is_compressed(entry.number));
    let before = Conversation {
        incremental: Vec::new(),
        behind: Vec::new(),
        scratch: String::new(),
        ..said.clone()
    };
    let mut question = before.messages();
    question.extend(replaced.map(|entry| Arc::clone(&entry.message)));
    question.push(Arc::new(Message::user(&*task.prompt)));
    question
}

fn facts(message: &Message) -> Vec<String> {
    let text = message.text();
    let facts = text.lines().filter_map(|line| {
        let at = line.find("FACT ")?;
        Some(line[at..].to_owned())
    });
    facts.collect()
}

fn knows(request: &[Arc<Message>]) -> bool {
    request.iter().any(|message| message.text().contains(FACT))
}

/// How many compactions there were of each kind.
fn compactions(journal: &[Event]) -> (usize, usize) {
    let count = |kind: CompactionKind| {
        let compacted = journal.iter().filter(|event| {
            matches!(&event.kind, EventKind::ContextCompacted(compacted) if compacted.kind == kind)
        });
        compacted.count()
    };
    (
        count(CompactionKind::History),
        count(CompactionKind::Summary),
    )
}

/// The model calls a tool two hundred times, and gets results of so many tokens. The messages at the beginning of
/// each request, so many, stay as they are.
fn looks(world: &mut World, model: &Model, tokens: usize, fixed: usize) {
    let mut beginning = Vec::new();
    for n in 1..=TURNS {
        let request = model.asked(world);
        if beginning.is_empty() {
            beginning = request[..fixed].to_vec();
        }
        assert_eq!(request[..fixed], beginning[..]);
        assert!(n <= 3 || knows(&request), "request {n}");
        let first = match n {
            3 => FACT.to_owned(),
            n => format!("part {n} of the notes"),
        };
        world.reply(1, &format!("I read part {n} of the notes."), &[look()]);
        world.result(1, 0, &text(&first, tokens));
    }
    let (views, summaries) = compactions(&world.journal);
    assert!(views > 0 && summaries > 0, "{views} and {summaries}");
    assert!(views + summaries <= TURNS as usize);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_step_of_two_hundred_tool_turns_fits_into_its_window() {
    for tokens in [700, 1_500] {
        let mut world = unlimited();
        world.start(chain(vec![model_step("one")]));
        let model = Model {
            window: 8_000,
            tools: 900,
        };
        // System prompt, and the step context with requirement and plan.
        looks(&mut world, &model, tokens, 2);
        world.complete(1, "done");
        assert_eq!(world.run().status, RunStatus::Completed);
    }
}

#[test]
fn a_turn_of_two_hundred_tool_turns_fits_into_its_window() {
    for (window, tools, tokens) in [(8_000, 900, 700), (8_000, 900, 1_500), (2_000, 250, 300)] {
        let mut world = unlimited();
        submit(&mut world, "Read the notes.");
        let model = Model { window, tools };
        // System prompt, and what the person said.
        looks(&mut world, &model, tokens, 2);
        world.reply(1, "done", &[]);
        assert_eq!(world.run().status, RunStatus::Completed);
    }
}

#[test]
fn a_conversation_of_two_hundred_turns_fits_into_its_window() {
    let mut world = unlimited();
    let model = Model {
        window: 8_000,
        tools: 900,
    };
    for n in 1..=TURNS {
        let asked = match n {
            3 => FACT.to_owned(),
            n => format!("What is in part {n}?"),
        };
        submit(&mut world, &asked);
        let request = model.asked(&mut world);
        assert!(n < 3 || knows(&request), "request {n}");
        world.reply(1, &text(&format!("Part {n} is long."), 700), &[]);
        assert_eq!(world.run().status, RunStatus::Completed);
    }
    let (views, summaries) = compactions(&world.journal);
    assert!(views > 0 && summaries > 0, "{views} and {summaries}");
    assert_eq!(world.session, world.folded());
}
