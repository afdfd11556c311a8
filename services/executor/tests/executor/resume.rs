//! An attempt that is continued from what is durable continues as if nothing had happened.

mod script;
mod sent;
pub(crate) mod session;

use crate::bench::{Bench, within};
use crate::owner::Owner;
use cairn_model::{Anthropic, AnthropicConfig, ChatRequest, OpenAi, OpenAiConfig};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{AttemptStart, FullRequest, RunStepResponse};
use proptest::prelude::*;
use script::{MODEL, Moment, Phase, Script, carry_out_call, script};
use session::OwnedSession;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::sleep;

/// How long a person takes to answer.
const PERSON: Duration = Duration::from_millis(30);
/// A request has more tokens than a thousandth of this window.
const WINDOW: u64 = 1_000;

static OPENAI: LazyLock<OpenAi> = LazyLock::new(|| {
    let mut config = OpenAiConfig::new("http://127.0.0.1:1", MODEL);
    config.server.vision = Some(true);
    OpenAi::new(config).expect("settings")
});

static ANTHROPIC: LazyLock<Anthropic> = LazyLock::new(|| {
    let mut config = AnthropicConfig::new("http://127.0.0.1:1", MODEL);
    config.server.vision = Some(true);
    Anthropic::new(config).expect("settings")
});

/// What was seen while an attempt was carried out.
#[derive(Debug, Default)]
struct Seen {
    /// What the model was asked, by tool turn.
    asked: BTreeMap<usize, ChatRequest>,
    /// What was reported of a request before it was asked, by tool turn.
    reported: BTreeMap<usize, FullRequest>,
    /// The arguments of the calls that reached the tools service.
    called: Vec<String>,
}

/// Plays owner, person, model and tools until the last reply of the script is durable.
async fn carry_out(script: &Script, owned: &mut OwnedSession) -> Seen {
    let mut seen = Seen::default();
    let mut bench = match script.reports_requests {
        true => Bench::with_window(WINDOW).await,
        false => Bench::new().await,
    };
    let start = AttemptStart {
        compact_at_permille: script.reports_requests.into(),
        // What was learned since the attempt began is left out.
        estimate_permille: 1_300,
        ..owned.start()
    };
    let mut owner = bench.start(start).await;
    // The owner before may have died between a reply and the change that is due after it.
    if let Some(last) = owned.turn().checked_sub(1) {
        change(script, (last, Phase::Calls), owned, &owner);
    }
    loop {
        tokio::select! {
            biased;
            report = owner.reports.message() => {
                let mut report = report.expect("no error").expect("a report");
                if let Some(full) = report.full.take() {
                    seen.reported.insert(owned.turn(), full);
                }
                if take(report, script, owned, &owner) {
                    return seen;
                }
            }
            Some(asked) = bench.model.recv() => {
                let turn = owned.turn();
                let before = seen.asked.insert(turn, asked.request.clone());
                assert_eq!(before, None, "the model is asked twice for reply {turn}");
                change(script, (turn, Phase::Model), owned, &owner);
                script.turns[turn].answer(turn, asked);
            }
            Some(called) = bench.tools.recv() => {
                seen.called.push(called.request.arguments_json.clone());
                carry_out_call(called);
            }
            () = sleep(PERSON), if owned.question().is_some() => {
                let changes = owned.answer();
                owner.send(ToExecutor::Acknowledgement(changes));
            }
            () = sleep(Duration::from_secs(3600)) => panic!("nothing moves: {owned:?}"),
        }
    }
}

/// Makes a report durable and acknowledges it; true if its reply is the last one of the script.
fn take(report: RunStepResponse, script: &Script, owned: &mut OwnedSession, owner: &Owner) -> bool {
    // It is text of a reply that is not whole, and no report.
    if report.number == 0 {
        return false;
    }
    let turn = owned.turn();
    let mut acknowledgement = owned.take(report);
    let has_ended = owned.turn() == script.turns.len();
    acknowledgement.ended = has_ended;
    owner.send(ToExecutor::Acknowledgement(acknowledgement));
    if owned.turn() > turn && !has_ended {
        change(script, (turn, Phase::Calls), owned, owner);
    }
    has_ended
}

/// Makes the changes that are due, and sends them at once: nothing waits for them.
fn change(script: &Script, now: Moment, owned: &mut OwnedSession, owner: &Owner) {
    if let Some(changes) = owned.change(script, now) {
        owner.send(ToExecutor::Acknowledgement(changes));
    }
}

/// The request as each dialect has it.
fn bodies(request: &ChatRequest) -> [String; 2] {
    let bodies = [
        OPENAI.request_body(request).expect("a body"),
        ANTHROPIC.request_body(request).expect("a body"),
    ];
    bodies.map(|body| String::from_utf8(body).expect("JSON"))
}

/// The model was asked for these replies, each once, and with the words that the journal has.
fn check_asked(seen: &Seen, owned: &OwnedSession, turns: Range<usize>) {
    assert!(seen.asked.keys().copied().eq(turns.clone()), "{turns:?}");
    let questions = owned.questions();
    for (turn, asked) in &seen.asked {
        let (_, conversation) = &questions[*turn];
        let folded = ChatRequest {
            messages: conversation.messages(),
            stable: conversation.stable(),
            ..asked.clone()
        };
        assert_eq!(bodies(asked), bodies(&folded), "reply {turn}");
    }
}

/// What a provider counted is known to the owner as to the executor: a request whose messages are the same has
/// the same tokens. Changes may have come after one of the reports.
fn check_reported(uninterrupted: &Seen, continued: &Seen, turn: usize) {
    let [before, now] = [uninterrupted, continued].map(|it| it.reported.get(&turn));
    assert_eq!(before.is_some(), now.is_some(), "reply {turn}");
    let estimated = |full: Option<&FullRequest>| full.map(|full| full.estimated_tokens);
    if estimated(before) == estimated(now) {
        assert_eq!(now, before, "reply {turn}");
    }
}

async fn check(script: Script) {
    let turns = script.turns.len();
    let mut whole = OwnedSession::new(&script);
    let begun = whole.journal.len();
    let uninterrupted = carry_out(&script, &mut whole).await;
    check_asked(&uninterrupted, &whole, 0..turns);
    let questions = whole.questions();
    for cut in begun..whole.journal.len() {
        let mut rest = OwnedSession::taken_over(&whole.journal[..cut]);
        let (first, ended) = (rest.turn(), rest.ended_calls());
        let continued = carry_out(&script, &mut rest).await;
        check_asked(&continued, &rest, first..turns);
        let again = continued.called.iter().find(|call| ended.contains(call));
        assert_eq!(again, None, "it has its result, cut after {cut}");
        // A change that came too late for the first request may be in time for the second.
        let has_same_ops = rest.questions()[first].0 == questions[first].0;
        assert!(has_same_ops || script.changes().next().is_some());
        if has_same_ops {
            let [before, now] = [&uninterrupted, &continued].map(|it| bodies(&it.asked[&first]));
            assert_eq!(now, before, "reply {first}, cut after {cut}");
            check_reported(&uninterrupted, &continued, first);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

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
