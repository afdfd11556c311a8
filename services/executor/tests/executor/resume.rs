//! An attempt that is continued from what is durable goes on as if nothing had happened.

use crate::bench::{Bench, reply, within};
use crate::owner::{Owner, attempt, call_ref, model_step, owners_result, permit};
use cairn_engine::message::Message;
use cairn_proto::event::{self, Effect, Role};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    Acknowledgement, AttemptStart, CallResult, PermittedCall, Reply, RunStepResponse,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// What the model asks for in one tool turn, and how long everybody takes.
#[derive(Debug, Clone)]
struct Turn {
    model_ms: u64,
    calls: Vec<(&'static str, u64)>,
}

/// What became durable in one transition.
#[derive(Debug, Clone)]
enum Entry {
    /// A reply with the results that the owner itself gave to its calls.
    Reply(Reply, Vec<CallResult>),
    Result(CallResult),
}

/// What was seen while an attempt was carried out.
#[derive(Debug, Default)]
struct Seen {
    /// What the model was told, by tool turn.
    asked: BTreeMap<usize, Vec<Message>>,
    /// The calls that reached the tools service, in order.
    called: Vec<String>,
}

fn effect(tool: &str) -> Option<Effect> {
    match tool {
        "look" => Some(Effect::Pure),
        "put" => Some(Effect::Idempotent),
        "send" => Some(Effect::Effectful),
        _ => None,
    }
}

/// The calls of a reply: those that may be sent, and the owner's answers to the others.
fn sorted(reply: &Reply) -> (Vec<PermittedCall>, Vec<CallResult>) {
    let (mut permits, mut answers) = (Vec::new(), Vec::new());
    for (index, call) in (0..).zip(&reply.tool_calls) {
        let at = call_ref(reply.tool_turn, index);
        match effect(&call.name) {
            Some(effect) => permits.push(permit(at, &call.name, &call.arguments_json, effect)),
            None => answers.push(owners_result(at, &format!("the owner on {}", call.name))),
        }
    }
    (permits, answers)
}

/// The owner's view of a journal: how the attempt is started from it.
fn start_from(journal: &[Entry]) -> AttemptStart {
    let mut start = AttemptStart {
        max_tool_turns: 100,
        ..model_step()
    };
    let mut ids = BTreeMap::new();
    let tool_message = |ids: &BTreeMap<_, String>, result: &CallResult| {
        let at = result.call.expect("a call");
        event::Message {
            role: Role::Tool.into(),
            text: result.output.clone(),
            tool_call_id: ids[&(at.tool_turn, at.index)].clone(),
            is_error: result.is_error,
            ..event::Message::default()
        }
    };
    for entry in journal {
        match entry {
            Entry::Reply(reply, answers) => {
                for (index, call) in (0..).zip(&reply.tool_calls) {
                    ids.insert((reply.tool_turn, index), call.id.clone());
                }
                start.transcript.push(event::Message {
                    role: Role::Assistant.into(),
                    text: reply.text.clone(),
                    tool_calls: reply.tool_calls.clone(),
                    ..event::Message::default()
                });
                let answers = answers.iter().map(|answer| tool_message(&ids, answer));
                start.transcript.extend(answers);
                start.open_calls = sorted(reply).0;
            }
            Entry::Result(result) => {
                start.transcript.push(tool_message(&ids, result));
                start.open_calls.retain(|open| open.call != result.call);
            }
        }
    }
    start
}

/// Plays owner, model and tools until the last turn of the script is durable.
async fn carry_out(script: &[Turn], journal: &mut Vec<Entry>) -> Seen {
    let mut seen = Seen::default();
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start_from(journal)).await;
    loop {
        tokio::select! {
            report = owner.reports.message() => {
                let report = report.expect("no error").expect("a report");
                if take(report, script.len(), journal, &owner) {
                    return seen;
                }
            }
            Some(asked) = bench.model.recv() => {
                let messages = asked.request.messages.clone();
                let turn = messages.iter().filter(|m| m.role == cairn_engine::message::Role::Assistant).count();
                seen.asked.insert(turn, messages);
                let Turn { model_ms, calls } = script[turn].clone();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(model_ms)).await;
                    let arguments: Vec<_> =
                        calls.iter().map(|(_, ms)| format!("{turn}/{ms}")).collect();
                    let names = calls.iter().map(|(name, _)| *name);
                    let calls: Vec<_> =
                        names.zip(arguments.iter().map(String::as_str)).collect();
                    asked.answer(Ok(reply(&format!("turn {turn}"), &calls)));
                });
            }
            Some(called) = bench.tools.recv() => {
                let arguments = called.request.arguments_json.clone();
                let ms = arguments.split('/').nth(1).and_then(|ms| ms.parse().ok());
                let output = format!("{} of {arguments}", called.request.name);
                seen.called.push(called.request.call_key.clone());
                tokio::spawn(async move {
                    sleep(Duration::from_millis(ms.expect("a delay"))).await;
                    called.output(&output);
                });
            }
            () = sleep(Duration::from_secs(3600)) => panic!("nothing moves: {journal:?}"),
        }
    }
}

/// Makes a report durable and acknowledges it; true if it was the last one.
fn take(report: RunStepResponse, turns: usize, journal: &mut Vec<Entry>, owner: &Owner) -> bool {
    assert_eq!(report.failure, None);
    journal.extend(report.results.into_iter().map(Entry::Result));
    let Some(reply) = report.reply else {
        owner.ack(report.number);
        return false;
    };
    let (permits, answers) = sorted(&reply);
    let ended = reply.tool_turn as usize + 1 == turns;
    journal.push(Entry::Reply(reply, answers.clone()));
    owner.send(ToExecutor::Acknowledgement(Acknowledgement {
        through_number: report.number,
        permitted_calls: permits,
        results: answers,
        ended,
        ..Acknowledgement::default()
    }));
    ended
}

fn script() -> impl Strategy<Value = Vec<Turn>> {
    let tool = prop::sample::select(vec!["look", "put", "send", "step", "dig"]);
    let calls = prop::collection::vec((tool, 0..50_u64), 0..5);
    let turn = (0..50_u64, calls).prop_map(|(model_ms, calls)| Turn { model_ms, calls });
    prop::collection::vec(turn, 1..5)
}

async fn check(script: Vec<Turn>) {
    let mut whole = Vec::new();
    let uninterrupted = carry_out(&script, &mut whole).await;
    assert_eq!(uninterrupted.asked.len(), script.len());
    for cut in 0..whole.len() {
        let mut journal = whole[..cut].to_vec();
        let start = start_from(&journal);
        let continued = carry_out(&script, &mut journal).await;
        let replies = journal[..cut]
            .iter()
            .filter(|e| matches!(e, Entry::Reply(..)))
            .count();
        // The model is asked for what is missing, each once, in the very same words.
        let want: BTreeMap<_, _> = uninterrupted.asked.range(replies..).collect();
        let asked: BTreeMap<_, _> = continued.asked.iter().collect();
        assert_eq!(asked, want, "cut after {cut} of {whole:?}");
        // Calls that have a result are not made again.
        let open: Vec<_> = start
            .open_calls
            .iter()
            .map(|open| open.call_key.clone())
            .collect();
        assert_eq!(
            continued.called[..open.len().min(continued.called.len())],
            open
        );
        assert_eq!(start.attempt, Some(attempt()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_cut_is_continued_as_if_there_were_none(script in script()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(within(check(script)));
    }
}
