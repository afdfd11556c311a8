//! Deciding compactions: what follows from a request that is too long, from a summary, and from what models and
//! people ask for.

mod bytes;
mod lost;
mod request;
mod runs;
mod simulation;
mod tool;
mod waiting;

use crate::world::{World, chain, look, model_step};
use cairn_engine::conversation::Op;
use cairn_engine::decide::{FullRequest, Input, Summarised};
use cairn_engine::event::{Budget, ContextCompacted, Event, EventKind, SummaryAsked};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Usage};
use cairn_engine::session::{Attempt, Call};
use cairn_engine::tokens::estimate_tokens;
use std::sync::Arc;

/// Tokens of the window of the model, unless a test says otherwise.
const WINDOW: u64 = 8_000;

/// A text of about so many tokens with a first line of its own.
fn text(first: &str, tokens: usize) -> String {
    format!("{first}\n{}", vec!["more"; tokens].join(" "))
}

/// A session whose runs may have many tool turns.
fn unlimited() -> World {
    let mut world = World::new();
    world.limits.max_tool_turns = 1_000;
    world.limits.budgets[Budget::Turns] = 0;
    world
}

/// The model calls a tool, and gets a result of so many tokens.
fn look_once(world: &mut World, first: &str, tokens: usize) {
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, &text(first, tokens));
}

/// A step whose model has called a tool so many times, with results of 500 tokens.
fn looked(times: u32) -> World {
    let mut world = unlimited();
    world.start(chain(vec![model_step("one")]));
    for n in 1..=times {
        look_once(&mut world, &format!("part {n}"), 500);
    }
    world
}

fn attempt(world: &World) -> &Attempt {
    world.session.attempt(world.attempt(1)).unwrap()
}

/// The messages of the next request of step 1, as an executor builds them.
fn next_request(world: &World) -> Vec<Arc<Message>> {
    let mut said = world.session.conversation(world.attempt(1)).unwrap();
    let running = attempt(world);
    let results = running.calls.iter().filter_map(Call::result);
    let ops = results.map(Op::Append);
    for op in ops.chain(running.waiting_ops.iter().cloned()) {
        said.apply(op).unwrap();
    }
    said.messages()
}

/// The texts of the next request, without the system prompt.
fn texts(world: &World) -> Vec<String> {
    let request = next_request(world).into_iter().skip(1);
    request.map(|message| message.text()).collect()
}

/// The size of the next request with so many tokens of tools.
fn size(world: &World, tools: u64, window: u64) -> FullRequest {
    let tokens = estimate_tokens(&next_request(world)) + tools;
    FullRequest {
        tokens,
        estimated_tokens: tokens,
        window,
        max_output_tokens: 0,
        is_refused: false,
    }
}

fn report(world: &World, full: Option<FullRequest>, summary: Option<Summarised>) -> Input {
    Input::Report {
        attempt: world.attempt(1),
        results: Vec::new(),
        unfinished: Vec::new(),
        reply: None,
        failure: None,
        full,
        summary: summary.map(Box::new),
        retry: None,
    }
}

/// The executor reports the next request as too long.
fn full(world: &mut World, tools: u64) -> Vec<Event> {
    let size = size(world, tools, WINDOW);
    let report = report(world, Some(size), None);
    world.decide(report)
}

/// The same for a request that has so many tokens, whatever its messages.
fn full_with(world: &mut World, tokens: u64) -> Vec<Event> {
    let size = FullRequest {
        tokens,
        ..size(world, 0, WINDOW)
    };
    let report = report(world, Some(size), None);
    world.decide(report)
}

fn paid() -> Usage {
    Usage {
        input_tokens: 3_000,
        output_tokens: 70,
        cost_nano_usd: 1_000,
        model_calls: 1,
        ..Usage::default()
    }
}

fn summarised(world: &mut World, outcome: Result<String, Failure>) -> Vec<Event> {
    let summary = Summarised {
        outcome,
        usage: paid(),
        provider: "test".to_owned(),
        model: "test-model".to_owned(),
        duration_ms: 900,
    };
    let report = report(world, None, Some(summary));
    world.decide(report)
}

/// The model writes the summary that it was asked for.
fn sums_up(world: &mut World, text: &str) -> Vec<Event> {
    summarised(world, Ok(text.to_owned()))
}

fn gone() -> Failure {
    Failure::new(FailureKind::Llm, "Server", "the model is gone")
}

fn compacted(events: &[Event]) -> &ContextCompacted {
    let found = events.iter().find_map(|event| match &event.kind {
        EventKind::ContextCompacted(compacted) => Some(compacted),
        _ => None,
    });
    found.expect("a compaction")
}

fn asked(events: &[Event]) -> &SummaryAsked {
    let found = events.iter().find_map(|event| match &event.kind {
        EventKind::SummaryAsked(asked) => Some(asked),
        _ => None,
    });
    found.expect("a question for a summary")
}

/// A step that waits for a summary: its views would be too long.
fn asked_for_summary() -> World {
    let mut world = unlimited();
    begin_many_looks(&mut world);
    let events = full(&mut world, 0);
    asked(&events);
    world
}

/// A step begins, and its model makes many calls in each of its six tool turns.
fn begin_many_looks(world: &mut World) {
    world.start(chain(vec![model_step("one")]));
    let first = vec!["part"; 60].join(" ");
    for n in 1..=6 {
        let calls: Vec<_> = (0..12).map(|_| look()).collect();
        world.reply(1, "I look.", &calls);
        for index in 0..12 {
            world.result(1, index, &text(&format!("{n} {first}"), 1));
        }
    }
}
