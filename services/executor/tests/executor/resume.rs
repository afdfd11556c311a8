//! An attempt that is continued from what is durable continues as if nothing had happened.

use crate::bench::{Bench, reply, within};
use crate::owner::{Owner, attempt, call_ref, conversation, model_step, owners_result, permit};
use cairn_engine::conversation::{Conversation, Layer, LayerKind, Op};
use cairn_engine::message::{Message, Role, ToolCall};
use cairn_model::{Anthropic, AnthropicConfig, ChatRequest, OpenAi, OpenAiConfig};
use cairn_proto::event::Effect;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    Acknowledgement, AttemptStart, CallResult, PermittedCall, Reply, RunStepResponse,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
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
    /// A reply with the results that the owner itself gave to its calls, and what it said then.
    Reply(Reply, Vec<CallResult>, Vec<Op>),
    Result(CallResult),
}

/// What was seen while an attempt was carried out.
#[derive(Debug, Default)]
struct Seen {
    /// What each provider would have been sent, by tool turn.
    asked: BTreeMap<usize, [Vec<u8>; 2]>,
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

/// What the owner says after a reply: a word to continue, or that something has changed.
fn ops_after(reply: &Reply) -> Vec<Op> {
    let nudge = || Op::Append(Message::user("Continue."));
    let changed = Layer {
        kind: LayerKind::Memory,
        text: format!("Pool: {}", reply.tool_turn),
    };
    match reply.tool_calls.len() {
        0 => vec![nudge(), Op::Remind(changed)],
        1 => Vec::new(),
        _ => vec![Op::Remind(changed)],
    }
}

/// What the owner folds from a journal.
#[derive(Default)]
struct Folded {
    start: AttemptStart,
    conversation: Conversation,
    waiting: VecDeque<Op>,
    /// Ids of the last reply's calls.
    ids: Vec<String>,
}

impl Folded {
    fn take_reply(&mut self, reply: &Reply) {
        let mut results = std::mem::take(&mut self.start.results);
        results.sort_by_key(|result| result.call.expect("a call").index);
        let results = results.into_iter().zip(&self.ids);
        let results = results.map(|(result, id)| Message::tool(id, result.output, result.is_error));
        self.conversation.incremental.extend(results);
        while self.start.ops_through < reply.ops_through {
            let op = self.waiting.pop_front().expect("the change was sent");
            self.conversation.apply(op).expect("it fits");
            self.start.ops_through += 1;
        }
        let calls: Vec<ToolCall> = reply.tool_calls.iter().cloned().map(Into::into).collect();
        self.ids = calls.iter().map(|call| call.id.clone()).collect();
        let reply = Message::assistant(&*reply.text, calls);
        self.conversation.incremental.push(reply);
        self.start.tool_turns += 1;
    }

    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Reply(reply, answers, ops) => {
                self.take_reply(reply);
                self.start.results.clone_from(answers);
                self.start.open_calls = sorted(reply).0;
                self.waiting.extend(ops.iter().cloned());
            }
            Entry::Result(result) => {
                self.start.results.push(result.clone());
                self.start
                    .open_calls
                    .retain(|open| open.call != result.call);
            }
        }
    }
}

/// The owner's view of a journal: how the attempt is started from it.
fn start_from(journal: &[Entry]) -> AttemptStart {
    let mut folded = Folded {
        conversation: conversation(),
        ..Folded::default()
    };
    for entry in journal {
        folded.take(entry);
    }
    AttemptStart {
        max_tool_turns: 100,
        conversation: Some(folded.conversation.into()),
        ops: folded.waiting.into_iter().map(Into::into).collect(),
        ..AttemptStart {
            session: model_step().session,
            attempt: model_step().attempt,
            catalogue: model_step().catalogue,
            ..folded.start
        }
    }
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
                let request = &asked.request;
                let replies = request.messages.iter().filter(|m| m.role == Role::Assistant);
                let turn = replies.count();
                seen.asked.insert(turn, bodies(request));
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

/// The request as each dialect has it.
fn bodies(request: &ChatRequest) -> [Vec<u8>; 2] {
    let openai = OpenAi::new(OpenAiConfig::new("http://127.0.0.1:1", "m")).expect("settings");
    let anthropic = Anthropic::new(AnthropicConfig::new("http://127.0.0.1:1", "m"));
    let anthropic = anthropic.expect("settings");
    [
        openai.request_body(request).expect("a body"),
        anthropic.request_body(request).expect("a body"),
    ]
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
    let ops = ops_after(&reply);
    journal.push(Entry::Reply(*reply, answers.clone(), ops.clone()));
    owner.send(ToExecutor::Acknowledgement(Acknowledgement {
        through_number: report.number,
        permitted_calls: permits,
        results: answers,
        ops: ops.into_iter().map(Into::into).collect(),
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
