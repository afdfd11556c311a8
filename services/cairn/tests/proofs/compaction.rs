//! Conversations of many tool turns in a small window: a step of a plan, and a turn. The model is played, and
//! counts each request with a tokenizer that Cairn does not have.
//!
//! Every request is shorter than the window, and has the system prompt, the requirement and the overview of the
//! plan byte for byte. Older messages give way to history views and to summaries, at most once for each tool
//! turn. The exported journal has every message, and its fold, which is written here anew, tells each request
//! word for word. What was said early is known at the end, though the model copies nothing but the facts that
//! the request for a summary shows.
//!
//! `deploy/prove compaction` has 200 tool turns in a window of 8,000 tokens; the suite runs short forms.

mod model;

use crate::support::fold::{Fold, at_most_one_compaction_for_each_tool_turn};
use crate::support::place::Place;
use crate::support::served::{self, SESSION, add_model, client, is_completed};
use crate::support::talk;
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::{Journal, TestStore};
use clap::Args;
use model::{Played, Request};
use serde_json::json;
use tokio::runtime::Builder;

const SETTINGS: &str = r#"
[session]
lease = "10s"

[run]
max_turns = 1000
max_tool_turns = 1000

[tools]
allow = ["search_files"]
"#;
/// What the person of the turn asks for.
const QUESTION: &str = "Look at each part of parts.txt, and say what carries the bridge.";
/// So many requests before the last one, the fact of tool turn 3 is looked for.
const BEFORE_END: usize = 10;

/// How long the conversations are. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tool turns of each conversation
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(40..=900))]
    pub(crate) turns: u16,
    /// Window of the model
    #[arg(long, value_name = "TOKENS", default_value_t = 8000,
          value_parser = clap::value_parser!(u32).range(6000..=100_000))]
    pub(crate) window: u32,
}

/// Who has the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Step,
    Turn,
}

/// A conversation that its window cannot hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    kind: Kind,
    turns: usize,
    window: u64,
    /// The provider says how many tokens it counted, so that estimates become exact.
    tells_tokens: bool,
}

/// The prompt of a step and the tools take 2,500 tokens, and no settings can make them fewer.
#[test]
fn a_step_of_60_tool_turns_completes_in_a_window_of_6000_tokens() {
    converse(Case {
        kind: Kind::Step,
        turns: 60,
        window: 6_000,
        tells_tokens: true,
    });
}

#[test]
fn a_turn_of_60_tool_turns_completes_in_a_window_of_4000_tokens_that_nobody_counts() {
    converse(Case {
        kind: Kind::Turn,
        turns: 60,
        window: 4_000,
        tells_tokens: false,
    });
}

/// Has the conversations, each with a provider that tells its counts and with one that does not, and panics with
/// what is wrong.
pub(crate) fn prove(options: &Options) {
    for kind in [Kind::Step, Kind::Turn] {
        for tells_tokens in [true, false] {
            converse(Case {
                kind,
                turns: options.turns.into(),
                window: options.window.into(),
                tells_tokens,
            });
        }
    }
}

fn converse(case: Case) {
    let (model, played) = model::start(case);
    let mut place = Place::over(TestStore::file());
    place.site.write("cairn.toml", SETTINGS);
    add_model(&place.site, &model);
    let window = format!("window_tokens = {}\n", case.window);
    place.site.append("cairn.toml", &window);
    place.site.write("parts.txt", &model::parts(case.turns));
    place.keep_serving();
    let runtime = Builder::new_current_thread().enable_all().build();
    let noticed = runtime.expect("a runtime").block_on(run(&place, case));
    place.stop_server();
    let journal = place.journal(SESSION);
    let played = std::mem::take(&mut *played.lock().expect("no panic"));
    let fold = Fold::of(&journal);
    print(case, &played, &fold);
    check_requests(case, &played);
    check_journal(case, &played, &journal, &fold);
    if case.kind == Kind::Turn {
        assert_eq!(
            noticed,
            fold.compactions.len(),
            "the client is told of each"
        );
    }
}

/// Runs the step or the turn to its end. Returns the number of compactions that the client of a turn received.
async fn run(place: &Place, case: Case) -> usize {
    let mut client = client(&place.site);
    if case.kind == Kind::Step {
        let step = json!({"title": "Look", "description": "Look at each part of parts.txt."});
        served::start(&mut client, &json!({"steps": [step]})).await;
        served::wait_for(&mut client, SESSION, 1, is_completed).await;
        return 0;
    }
    talk::create(&mut client, SESSION).await;
    let options = wire::TurnOptions {
        tools: Some(wire::ToolNames {
            names: vec!["search_files".to_owned()],
        }),
        max_tool_turns: u32::try_from(case.turns + 1).ok(),
        ..wire::TurnOptions::default()
    };
    let request = pb::SubmitTurnRequest {
        session: SESSION.to_owned(),
        request_id: "turn".to_owned(),
        turn: Some(wire::SubmitTurn {
            message: Some(Message::user(QUESTION).into()),
            options: Some(options),
            ..wire::SubmitTurn::default()
        }),
        after_seq: 0,
    };
    let ended = talk::to_end(&mut client, request).await;
    let ended = ended.unwrap_or_else(|status| panic!("{case:?}: {status:?}"));
    assert_eq!(ended.response(), model::END);
    ended.compacted.len()
}

fn print(case: Case, played: &Played, fold: &Fold) {
    let of_kind = |kind: &str| fold.compactions.iter().filter(|it| *it == kind).count();
    let most = played.requests.iter().map(|request| request.tokens).max();
    let most = most.unwrap_or_default();
    println!(
        "{:?} of {} tool turns in {} tokens, {}: {} views, {} summaries, the longest request has {most} \
         tokens ({} %)",
        case.kind,
        case.turns,
        case.window,
        match case.tells_tokens {
            true => "counted by the provider",
            false => "estimated",
        },
        of_kind("history"),
        of_kind("summary"),
        most * 100 / case.window,
    );
}

/// Panics unless each request fits and has what stays, and the early fact reaches a late request.
fn check_requests(case: Case, played: &Played) {
    let first = played.requests.first().expect("a request");
    let requirement = &first.fixed[1]["content"];
    let requirement = requirement.as_str().expect("the requirement");
    let parts: &[&str] = match case.kind {
        Kind::Step => &[
            "Keep the books.",
            "## Plan overview\n1. Look",
            "Title: Look",
        ],
        Kind::Turn => &[QUESTION],
    };
    for part in parts {
        assert!(requirement.contains(part), "{part:?}: {requirement}");
    }
    for (number, request) in played.requests.iter().enumerate() {
        let Request { tokens, fixed, .. } = request;
        assert!(*tokens < case.window, "request {number} has {tokens}");
        assert_eq!(*fixed, first.fixed, "request {number}");
    }
    let late = case.turns - BEFORE_END;
    let is_late = |request: &&Request| request.part == late && !request.is_for_summary;
    let late = played.requests.iter().find(is_late);
    let late = late.expect("a late request");
    assert!(late.has_fact, "the fact is lost: {:?}", late.said);
}

/// Panics unless the journal has all that was said, and tells each request.
fn check_journal(case: Case, played: &Played, journal: &Journal, fold: &Fold) {
    journal.check();
    assert_eq!(journal.of_kind("run_completed").len(), 1);
    at_most_one_compaction_for_each_tool_turn(journal);
    for kind in ["history", "summary"] {
        let has_kind = fold.compactions.iter().any(|it| it == kind);
        assert!(has_kind, "no {kind}: {:?}", fold.compactions);
    }
    for part in 0..case.turns {
        let was_said = |role: &str, text: &str| {
            let mut said = fold.said.iter();
            said.any(|it| it.role == role && it.text.contains(text))
        };
        assert!(was_said("assistant", &model::looks_at(part)), "{part}");
        assert!(was_said("tool", &model::first_line(part)), "{part}");
    }
    let (for_summary, others): (Vec<&Request>, Vec<&Request>) =
        played.requests.iter().partition(|it| it.is_for_summary);
    assert_eq!(others.len(), fold.requests.len());
    for (number, (sent, folded)) in others.iter().zip(&fold.requests).enumerate() {
        let mut pairs = sent.said.iter().zip(folded);
        let other = pairs.find(|(sent, folded)| sent != folded);
        assert_eq!(other, None, "request {number}, and its fold");
        assert_eq!(sent.said.len(), folded.len(), "request {number}");
    }
    let asked = journal.of_kind("summary_asked");
    let prompts = asked.iter().map(|event| event["prompt"].as_str());
    let sent = for_summary.iter().map(|request| request.prompt.as_deref());
    assert!(prompts.eq(sent), "each summary is asked for once");
}
