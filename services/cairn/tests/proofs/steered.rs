//! Turns that people steer at random moments, whose streams break at random moments. No turn fails, and
//! what a client assembles is what the model said.
//!
//! The five services run as processes, and several sessions have turns at the same time. Each turn names
//! tools of its own, so the executor lacks the catalogue of most turns.

use crate::support::served::PATIENCE;
use crate::support::{Client, connect, talk};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::{Answer, parts};
use cairn_testkit::{Cluster, ModelServer};
use clap::Args;
use pb::turn_event::Event;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tonic::Code;

/// Bytes of a part of a reply.
const PART: usize = 9;
/// One turn of so many has to take a message at least. There is about one message for each.
const STEERED: usize = 10;
/// One stream has to be cut for so many turns at least. About three are to be cut for two turns.
const CUT: usize = 8;

/// How many turns there are. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Turns in all
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) turns: usize,
    /// Sessions that have turns at the same time
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) sessions: u16,
    /// Selects the random moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What was done to turns.
#[derive(Debug, Default)]
struct Counts {
    turns: AtomicUsize,
    /// Messages that a turn took.
    steered: AtomicUsize,
    /// Messages that came before or after it.
    refused: AtomicUsize,
    cuts: AtomicUsize,
}

impl Counts {
    fn add(count: &AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Has the turns, prints what was done to them, and panics with what is wrong.
pub(crate) fn prove(options: &Options) {
    let model = model();
    let site = talk::site(&model, "");
    let cluster = Cluster::start(&site, &[]);
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let (url, counts, began) = (cluster.url(), Arc::new(Counts::default()), Instant::now());
    let sessions = usize::from(options.sessions);
    let turns = options.turns.div_ceil(sessions);
    let findings: Vec<String> = runtime.expect("a runtime").block_on(async {
        let tools = tools(&url).await;
        let talks = (0..sessions).map(|number| {
            let random = Random::new(options.seed, number as u64);
            let (url, tools, counts) = (url.clone(), tools.clone(), counts.clone());
            tokio::spawn(converse(url, number, turns, tools, random, counts))
        });
        let talks: Vec<_> = talks.collect();
        let mut findings = Vec::new();
        for talk in talks {
            findings.extend(talk.await.expect("no panic"));
        }
        findings
    });
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{} turns in {} s: {} messages steered them, {} came too early or too late, {} streams were cut; \
         {} turns failed",
        count(&counts.turns),
        began.elapsed().as_secs(),
        count(&counts.steered),
        count(&counts.refused),
        count(&counts.cuts),
        findings.len()
    );
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    // Turns that nothing was done to would show nothing.
    let turns = count(&counts.turns);
    assert!(count(&counts.steered) >= turns / STEERED, "{counts:?}");
    assert!(count(&counts.cuts) >= turns / CUT, "{counts:?}");
}

/// A model that says another text each time, in parts.
fn model() -> ModelServer {
    let asked = AtomicUsize::new(0);
    ModelServer::start(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let (release, answer): (_, Answer) = parts();
        thread::spawn(move || {
            let text = said(number);
            for part in text.as_bytes().chunks(PART) {
                release.text(&String::from_utf8_lossy(part));
                thread::sleep(Duration::from_millis(number as u64 % 4));
            }
            release.end("", &[]);
        });
        answer
    })
}

/// What the model says when it is asked that often.
fn said(number: usize) -> String {
    let words = "it carries ten tonnes, ".repeat(1 + number % 7);
    format!("{number}: {words}end of {number}")
}

/// The text is whole, and of one reply.
fn is_said(text: &str) -> bool {
    let number = text.split(':').next().unwrap_or_default();
    number.parse().is_ok_and(|number| said(number) == text)
}

async fn tools(url: &str) -> Vec<String> {
    let request = pb::ListToolsRequest::default();
    let listed = connect(url).list_tools(request).await.expect("tools");
    let tools = listed.into_inner().tools.into_iter();
    tools.map(|tool| tool.name).collect()
}

/// Numbers that look random, the same for the same seed.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64, number: u64) -> Self {
        Self(seed.wrapping_mul(1_000_003).wrapping_add(number * 7919))
    }

    /// Others, which do not depend on how many of these are used.
    fn branch(&mut self) -> Self {
        Self(self.below(u64::from(u32::MAX)))
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// One session with so many turns, which returns what is wrong with them.
async fn converse(
    url: String,
    number: usize,
    turns: usize,
    tools: Vec<String>,
    mut random: Random,
    counts: Arc<Counts>,
) -> Vec<String> {
    let (mut client, session) = (connect(&url), format!("s-{number}"));
    talk::create(&mut client, &session).await;
    let mut findings = Vec::new();
    for turn in 0..turns {
        let id = format!("turn-{turn}");
        let mut request = talk::request(&session, &id, "What does the bridge carry?");
        let mask = random.below(1 << tools.len().min(16));
        let names = (0_u32..)
            .zip(&tools)
            .filter(|(at, _)| (mask >> at) & 1 == 1);
        if let Some(turn) = &mut request.turn {
            turn.options = Some(wire::TurnOptions {
                tools: Some(wire::ToolNames {
                    names: names.map(|(_, name)| name.clone()).collect(),
                }),
                ..wire::TurnOptions::default()
            });
        }
        let follow = follow(client.clone(), request, random.branch(), &counts);
        let steer = steer(client.clone(), &session, turn, random.branch(), &counts);
        let (followed, steered) = tokio::join!(follow, steer);
        for finding in [followed, steered].into_iter().filter_map(Result::err) {
            findings.push(format!("{session}, {id}: {finding}"));
        }
        Counts::add(&counts.turns);
    }
    findings
}

/// Says something up to twice, at random moments.
async fn steer(
    mut client: Client,
    session: &str,
    turn: usize,
    mut random: Random,
    counts: &Counts,
) -> Result<(), String> {
    for number in 0..random.below(3) {
        let most = [1_000, 5_000, 40_000][random.below(3) as usize];
        sleep(Duration::from_micros(random.below(most))).await;
        let request = pb::SendMessageRequest {
            session: session.to_owned(),
            request_id: format!("steer-{turn}-{number}"),
            message: Some(Message::user("And in spring?").into()),
            ..pb::SendMessageRequest::default()
        };
        match timeout(PATIENCE, client.send_message(request)).await {
            Ok(Ok(_)) => Counts::add(&counts.steered),
            Ok(Err(status)) if status.code() == Code::FailedPrecondition => {
                Counts::add(&counts.refused);
            }
            Ok(Err(status)) => return Err(format!("a message: {status:?}")),
            Err(_) => return Err("a message has no answer".to_owned()),
        }
    }
    Ok(())
}

/// Follows a turn to its end, over streams that break.
async fn follow(
    mut client: Client,
    request: pb::SubmitTurnRequest,
    mut random: Random,
    counts: &Counts,
) -> Result<(), String> {
    let mut seen = Seen::default();
    let mut cuts = random.below(4);
    loop {
        let request = pb::SubmitTurnRequest {
            after_seq: seen.after_seq,
            ..request.clone()
        };
        let stream = client.submit_turn(request).await;
        let mut stream = stream.map_err(|status| format!("{status:?}"))?.into_inner();
        let mut reads = match cuts {
            0 => u64::MAX,
            _ => random.below(16),
        };
        while reads > 0 {
            let message = timeout(PATIENCE, stream.message()).await;
            let message = message.map_err(|_| "nothing comes".to_owned())?;
            let message = message.map_err(|status| format!("{status:?}"))?;
            let message = message.ok_or("the stream ended before the turn")?;
            if seen.take(message)? {
                return Ok(());
            }
            reads -= 1;
        }
        cuts -= 1;
        Counts::add(&counts.cuts);
    }
}

/// What a client has of a turn.
#[derive(Debug, Default)]
struct Seen {
    after_seq: u64,
    texts: BTreeMap<u32, String>,
}

impl Seen {
    /// Returns whether the turn is over.
    fn take(&mut self, message: pb::SubmitTurnResponse) -> Result<bool, String> {
        self.after_seq = self.after_seq.max(message.seq);
        for event in message.events.into_iter().filter_map(|it| it.event) {
            match event {
                Event::Text(part) => {
                    let text = self.texts.entry(part.tool_turn).or_default();
                    if text.len() as u64 != part.offset {
                        return Err(format!("{part:?} comes after {text:?}"));
                    }
                    text.push_str(&part.text);
                }
                Event::Reset(reset) => drop(self.texts.remove(&reset.tool_turn)),
                Event::Error(error) => return Err(format!("{error:?}")),
                Event::Complete(complete) => return self.check(&complete.response).map(|()| true),
                _ => {}
            }
        }
        Ok(false)
    }

    fn check(&self, response: &str) -> Result<(), String> {
        for (place, (turn, text)) in (0..).zip(&self.texts) {
            if *turn != place || !is_said(text) {
                return Err(format!("reply {place} is {turn}: {text:?}"));
            }
        }
        match self.texts.values().next_back() {
            Some(last) if last == response => Ok(()),
            last => Err(format!("{response:?} is not {last:?}")),
        }
    }
}
