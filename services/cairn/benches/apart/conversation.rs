//! The same conversation with Cairn and with LangGraph, alternated: the time of a turn whose model takes no
//! time, so that the rest is what the runtime costs.
//!
//! Both commit to SQLite with synchronous=FULL, and each step is durable before the next one. Cairn runs
//! embedded, and its client follows each turn's stream to the end. LangGraph runs in a Python of its own
//! (`langgraph_turns.py`), which needs the Python package index once. Its graph has one node.
//!
//! A run takes about ten minutes, most of it in LangGraph's conversations of 2,000 turns. LangGraph stores all
//! messages three times in each turn, so each of these conversations takes about 5 GiB in the temporary folder
//! until it ends.
//!
//! # Figures
//!
//! `-- conversation`, November 2026, a virtual machine with 2 cores that did other work at the same time, medians
//! of three rounds, time of a turn with LangGraph and with Cairn:
//!
//! - 10 turns: 5.5 and 3.8 ms, 1.5 times.
//! - 100 turns: 7.3 and 2.8 ms, 2.6 times. The last ten: 8.3 and 2.1 ms.
//! - 500 turns: 20.9 and 1.8 ms, 11.7 times. The last ten: 28.2 and 1.8 ms.
//! - 2,000 turns: 78.6 and 6.6 ms, 11.8 times. The last ten: 158.1 and 6.9 ms.

use crate::median;
use crate::support::{client, node, parts, talk};
use async_trait::async_trait;
use cairn_engine::message::{FinishReason, Message, Usage};
use cairn_model::{ChatReply, ChatRequest, Model, ModelError, ModelInfo, ModelRegistry};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const TURNS: [usize; 4] = [10, 100, 500, 2_000];
const ROUNDS: usize = 3;
/// The last turns of a conversation, which show how its length counts.
const LAST: usize = 10;
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/apart/langgraph_turns.py"
);

/// A model that replies at once.
#[derive(Debug)]
struct AtOnce;

#[async_trait]
impl Model for AtOnce {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        // The system prompt is not of a turn.
        let turn = request.messages.len().saturating_sub(2) / 2;
        Ok(ChatReply {
            message: Message::assistant(talk::reply(turn), Vec::new()),
            usage: Usage::default(),
            finish: FinishReason::Stop,
            model: "at-once".to_owned(),
        })
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        cairn_model::tokens::estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "recorded".to_owned(),
            name: "at-once".to_owned(),
            window_tokens: 100_000_000,
            vision: false,
            prices: None,
        }
    }
}

pub(crate) async fn measure() {
    let folder = tempfile::tempdir().expect("a folder");
    langgraph(folder.path(), None);
    println!(
        "{:<6} {:>9} {:>9} {:>7} {:>12} {:>12} {:>7}",
        "turns", "LangGraph", "Cairn", "ratio", "its last 10", "its last 10", "ratio"
    );
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        for turns in TURNS {
            let theirs = langgraph(folder.path(), Some(turns));
            rounds.push((turns, theirs, ours(turns).await));
        }
    }
    for turns in TURNS {
        let of = |value: &dyn Fn(&Vec<f64>, &Vec<f64>) -> f64| {
            let rounds = rounds.iter().filter(|(number, _, _)| *number == turns);
            median(
                rounds
                    .map(|(_, theirs, ours)| value(theirs, ours))
                    .collect(),
            )
        };
        let [theirs, ours] = [of(&|theirs, _| mean(theirs)), of(&|_, ours| mean(ours))];
        let their_last = of(&|theirs, _| median(theirs[turns - LAST..].to_vec()));
        let our_last = of(&|_, ours| median(ours[turns - LAST..].to_vec()));
        println!(
            "{turns:<6} {theirs:>6.2} ms {ours:>6.2} ms {:>7.1} {their_last:>9.2} ms {our_last:>9.2} ms {:>7.1}",
            theirs / ours,
            their_last / our_last
        );
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The milliseconds of each turn of a conversation.
async fn ours(turns: usize) -> Vec<f64> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut models = ModelRegistry::new();
    models.insert("at-once", Arc::new(AtOnce));
    let node = node(parts(folder.path(), models)).await;
    let mut client = client(&node);
    talk::create(&mut client, "s").await;
    let mut times = Vec::with_capacity(turns);
    for turn in 0..turns {
        let ended = talk::talk(&mut client, "s", turn).await.expect("a turn");
        assert_eq!(ended.response, talk::reply(turn));
        times.push(ended.whole.as_secs_f64() * 1e3);
    }
    drop(client);
    node.drain().await;
    times
}

/// The same with LangGraph. Without turns, its Python is only made ready.
fn langgraph(folder: &Path, turns: Option<usize>) -> Vec<f64> {
    let mut command = Command::new("python3");
    command.arg(SCRIPT).arg(folder);
    command.args(turns.map(|turns| turns.to_string()));
    let done = command.output().expect("python3");
    let log = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{log}");
    let out = String::from_utf8(done.stdout).expect("text");
    let times = out.lines().flat_map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let times = line["ms"].as_array().expect("times").iter();
        times
            .map(|ms| ms.as_f64().expect("a time"))
            .collect::<Vec<f64>>()
    });
    times.collect()
}
