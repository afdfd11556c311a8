//! A model that reads what it is sent, in its order, knows session memory as it is.

use crate::reminders::{many_turns, removed, set};
use crate::turns::turn;
use crate::world::{World, graph, model_step, report_reply};
use cairn_engine::command::{
    BridgeContext, CancelRun, ChangeContext, Command, ContextOp, CreateContext, SubmitTurn,
};
use cairn_engine::conversation::{Entry, Op};
use cairn_engine::decide::Input;
use cairn_engine::event::{AttemptRef, EventKind, MemoryCleared, MemoryRemoved, MemorySet};
use cairn_engine::message::{Message, Part, Role, ToolCall};
use cairn_engine::prompt::memory::{changes, read};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

const SIDE: &str = "side";

/// A key, and its new value; none takes it out.
type Write = (u8, Option<u8>);

/// What a client does.
#[derive(Debug, Clone)]
enum Client {
    Write(Write),
    Clear,
    /// More changes than are known by their keys.
    Flood(u8),
}

/// What happens while two steps run.
#[derive(Debug, Clone)]
enum Act {
    Client(Client),
    /// The next request of a step is built.
    Ask(u32),
    /// The model answers the last request.
    Reply(u32, Vec<Write>),
}

/// A request of a turn, and its reply.
#[derive(Debug, Clone)]
struct Round {
    before: Option<Client>,
    /// What a client writes and the owner tells while the model thinks.
    meanwhile: Option<Client>,
    writes: Vec<Write>,
}

/// What happens to a context.
#[derive(Debug, Clone)]
enum Move {
    Client(Client),
    Turn {
        rounds: Vec<Round>,
        is_cancelled: bool,
    },
    Change(ContextOp),
    /// Of a message that the context has.
    Remove(prop::sample::Index),
    /// Of a message, before one that the context has or at the end.
    Insert(prop::sample::Index),
    Bridge(Write),
}

fn writes() -> impl Strategy<Value = Write> {
    (0..3_u8, prop::option::weighted(0.8, 0..3_u8))
}

fn clients() -> impl Strategy<Value = Client> {
    prop_oneof![
        12 => writes().prop_map(Client::Write),
        1 => Just(Client::Clear),
        1 => (0..3_u8).prop_map(Client::Flood),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let reply = (1..3_u32, prop::collection::vec(writes(), 0..3));
    let act = prop_oneof![
        2 => clients().prop_map(Act::Client),
        4 => (1..3_u32).prop_map(Act::Ask),
        3 => reply.prop_map(|(step, writes)| Act::Reply(step, writes)),
    ];
    prop::collection::vec(act, 0..60)
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let write = || prop::collection::vec(writes(), 0..3);
    let client = || prop::option::weighted(0.3, clients());
    let round = (client(), client(), write()).prop_map(|(before, meanwhile, writes)| Round {
        before,
        meanwhile,
        writes,
    });
    let rounds = (
        prop::collection::vec(round, 0..4),
        prop::bool::weighted(0.2),
    );
    let moves = prop_oneof![
        3 => clients().prop_map(Move::Client),
        6 => rounds.prop_map(|(rounds, is_cancelled)| Move::Turn { rounds, is_cancelled }),
        3 => any::<prop::sample::Index>().prop_map(Move::Remove),
        1 => Just(Move::Change(ContextOp::Pop)),
        1 => prop::sample::select(vec![Role::User, Role::Assistant])
            .prop_map(|role| Move::Change(ContextOp::Retain(role))),
        1 => Just(Move::Change(ContextOp::Clear)),
        2 => any::<prop::sample::Index>().prop_map(Move::Insert),
        2 => prop::option::of(1..8_u32)
            .prop_map(|window| Move::Change(ContextOp::SetWindow(window))),
        2 => writes().prop_map(Move::Bridge),
    ];
    prop::collection::vec(moves, 0..14)
}

fn name((key, value): Write) -> (String, Option<String>) {
    (format!("k{key}"), value.map(|value| format!("v{value}")))
}

fn client(world: &mut World, client: &Client) {
    let set = |world: &mut World, key: String, value: String| {
        let writer = None;
        world.foreign(EventKind::MemorySet(MemorySet {
            key,
            value,
            writer,
            metadata: Default::default(),
        }));
    };
    match *client {
        Client::Write(write) => match name(write) {
            (key, Some(value)) => set(world, key, value),
            (key, None) => {
                let writer = None;
                world.foreign(EventKind::MemoryRemoved(MemoryRemoved { key, writer }));
            }
        },
        Client::Clear => world.foreign(EventKind::MemoryCleared(MemoryCleared {})),
        Client::Flood(key) => {
            for n in 0..70 {
                set(world, format!("k{key}"), format!("flood {n}"));
            }
        }
    }
}

fn calls(writes: &[Write]) -> Vec<ToolCall> {
    let calls = writes.iter().map(|write| match name(*write) {
        (key, Some(value)) => set(&key, &value),
        (key, None) => removed(&key),
    });
    calls.collect()
}

/// What a message says of session memory, as texts of Cairn.
fn told(message: &Message) -> Vec<String> {
    let told = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) if message.role != Role::Assistant => Some(text.clone()),
        Part::Notice(notice) => Some(notice.text.clone()),
        Part::Call(call) => {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            let key = arguments["key"].as_str()?;
            Some(changes([(key, arguments["value"].as_str())]))
        }
        _ => None,
    });
    told.collect()
}

/// Session memory as the model of an attempt knows it by its next request.
fn known(world: &World, name: AttemptRef) -> BTreeMap<String, String> {
    let running = world.session.attempt(name).unwrap();
    let mut sent = world.session.conversation(name).unwrap();
    let said = world.session.said(name).into_iter();
    let said = said.map(|message| Entry {
        number: 0,
        message,
        compaction: None,
    });
    sent.behind = said.collect();
    for op in &running.waiting_ops {
        if let Op::SetLayer(_) = op {
            sent.apply(op.clone()).unwrap();
        }
    }
    let messages = sent.messages();
    let texts: Vec<String> = messages.iter().flat_map(|message| told(message)).collect();
    read(texts.iter().map(String::as_str)).unwrap_or_default()
}

/// Builds a request: its tool turn, and the last change that it has.
fn ask(world: &mut World, name: AttemptRef) -> (u32, u64) {
    let attempts = vec![name];
    world.decide(Input::MemoryChanged { attempts });
    assert_eq!(known(world, name), *world.session.memory);
    let running = world.session.attempt(name).unwrap();
    (running.tool_turns, running.newest_op())
}

fn take_turn(world: &mut World, rounds: &[Round], is_cancelled: bool) {
    world.command(Command::from(SubmitTurn {
        context: SIDE.to_owned(),
        ..turn("hello")
    }));
    let name = world.attempt(1);
    assert_eq!(known(world, name), *world.session.memory);
    for round in rounds {
        if let Some(before) = &round.before {
            client(world, before);
        }
        let seen = ask(world, name);
        if let Some(meanwhile) = &round.meanwhile {
            client(world, meanwhile);
            ask(world, name);
        }
        match calls(&round.writes)[..] {
            // A reply without calls would end the turn.
            [] => {}
            ref calls => drop(world.decide(report_reply(name, seen, "", calls))),
        }
    }
    if is_cancelled {
        world.command(Command::from(CancelRun::default()));
    } else {
        world.reply(1, "well", &[]);
    }
}

fn change(world: &mut World, op: ContextOp) {
    world.command(Command::from(ChangeContext {
        context: SIDE.to_owned(),
        ops: vec![op],
        ..ChangeContext::default()
    }));
}

fn play(world: &mut World, it: &Move) {
    match it {
        Move::Client(it) => client(world, it),
        Move::Turn {
            rounds,
            is_cancelled,
        } => take_turn(world, rounds, *is_cancelled),
        Move::Change(op) => change(world, op.clone()),
        Move::Remove(index) => {
            let context = world.session.context(SIDE).unwrap();
            let length = context.conversation.incremental.len();
            if length > 0 {
                let index = index.index(length) as u32;
                change(world, ContextOp::Remove { index });
            }
        }
        Move::Insert(index) => {
            let context = world.session.context(SIDE).unwrap();
            let length = context.conversation.incremental.len();
            let index = index.index(length + 1) as u32;
            let message = Message::user("inserted");
            change(world, ContextOp::Insert { index, message });
        }
        Move::Bridge(write) => {
            let (key, value) = name(*write);
            world.command(Command::from(BridgeContext {
                to: SIDE.to_owned(),
                values: value
                    .into_iter()
                    .map(|value| (key.clone(), value))
                    .collect(),
                ..BridgeContext::default()
            }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn models_of_parallel_steps_know_session_memory(acts in acts()) {
        let mut world = World::new();
        world.start_with(graph(vec![model_step("one"), model_step("two")]), many_turns());
        let mut asked = BTreeMap::new();
        for act in &acts {
            match act {
                Act::Client(it) => client(&mut world, it),
                Act::Ask(step) => {
                    let name = world.attempt(*step);
                    let seen = ask(&mut world, name);
                    // A request that is under way stays as it is.
                    asked.entry(*step).or_insert(seen);
                }
                Act::Reply(step, writes) => {
                    if let Some(seen) = asked.remove(step) {
                        let name = world.attempt(*step);
                        world.decide(report_reply(name, seen, "", &calls(writes)));
                    }
                }
            }
        }
        prop_assert_eq!(world.folded(), world.session);
    }

    #[test]
    fn models_of_a_changing_context_know_session_memory(moves in moves()) {
        let mut world = World::new();
        world.command(Command::from(CreateContext { name: SIDE.to_owned(), ..CreateContext::default() }));
        moves.iter().for_each(|it| play(&mut world, it));
        prop_assert_eq!(world.folded(), world.session);
    }
}

/// A client's value is told while the model thinks, and stands after the call by which the model replaced it.
#[test]
fn an_own_value_is_told_after_an_older_one() {
    let mut world = World::with_plan(graph(vec![model_step("one")]));
    let name = world.attempt(1);
    let seen = ask(&mut world, name);
    client(&mut world, &Client::Write((0, Some(1))));
    ask(&mut world, name);
    world.decide(report_reply(name, seen, "", &calls(&[(0, Some(2))])));
    assert_eq!(known(&world, name)["k0"], "v2");
}

/// What a turn wrote stands in its calls as long as these are sent.
#[test]
fn a_later_turn_is_told_what_an_earlier_one_wrote_once_its_call_is_gone() {
    for is_gone in [false, true] {
        let mut world = World::new();
        world.command(Command::from(CreateContext {
            name: SIDE.to_owned(),
            ..CreateContext::default()
        }));
        let round = |key, before| Round {
            before,
            meanwhile: None,
            writes: vec![(key, Some(1))],
        };
        let of_client = Some(Client::Write((2, Some(1))));
        take_turn(&mut world, &[round(0, None), round(1, of_client)], false);
        if is_gone {
            // The reply that wrote the first key. The reminder after it stays.
            change(&mut world, ContextOp::Remove { index: 1 });
        }
        let begun = world.journal.len();
        take_turn(&mut world, &[], false);
        let told = world.journal[begun..]
            .iter()
            .any(|event| matches!(event.kind, EventKind::ContextChanged(_)));
        assert_eq!(told, is_gone);
    }
}
