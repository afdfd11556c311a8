//! From what clients saw, and what is there at the end, to what is wrong.

use super::load::Driven;
use super::oracle::{self, Watched};
use super::words::{self, Outside};
use super::world::World;
use crate::support::{Client, connect};
use cairn::ui::event_json::event_json;
use cairn_proto::orchestrator as pb;
use cairn_testkit::Site;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};

/// The longest that a queue may take to be empty when all has ended.
const EMPTY: Duration = Duration::from_secs(20);
/// The longest that a server that nobody disturbs may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Between two looks at the queues.
const LOOK: Duration = Duration::from_millis(100);

/// What was found at the end.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) findings: Vec<String>,
    /// How often each kind of event is in the journals.
    pub(crate) kinds: BTreeMap<String, usize>,
    /// Calls that began after their runs were known to be paused or cancelled, each intended before.
    pub(crate) overlapping: usize,
    /// The longest times between two events of a session: without a call in doubt, which waits
    /// until it can no longer be running, and with one.
    pub(crate) longest: [Pause; 2],
    /// Journals of the sessions with findings.
    journals: BTreeMap<String, String>,
}

/// A time in which a session got no further.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    pub(crate) ms: u64,
    pub(crate) session: String,
    /// The event after it.
    pub(crate) seq: u64,
}

/// Events as JSON, and when they happened.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    pub(crate) events: Vec<Value>,
    at: Vec<i64>,
}

impl Verdict {
    /// What clients were to do and did not, or what did not come of it.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let wanted = [
            "call_intended",
            "run_paused",
            "run_resumed",
            "run_cancelled",
            "run_failed",
            "approval_requested",
            "decided",
            "revision_requested",
        ];
        let is_missing = |kind: &&str| !self.kinds.contains_key(*kind);
        wanted.into_iter().filter(is_missing).collect()
    }

    /// Adds the findings, and the journals that they are about, to what is kept.
    pub(crate) fn keep(&self, folder: PathBuf) -> PathBuf {
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).expect("a file of what is kept");
        };
        write("findings.txt", &self.findings.join("\n"));
        for (session, journal) in &self.journals {
            write(&format!("{session}.jsonl"), journal);
        }
        folder
    }
}

/// Reads everything that is there at the end and checks it.
pub(crate) async fn reach(world: &World<'_>, site: &Site, driven: &[Driven]) -> Verdict {
    let url = &world.orchestrators()[0];
    let mut client = connect(url);
    let text = |name: &str| site.read(name).unwrap_or_default();
    let uses = site.ledger().uses();
    let outside = Outside::read(uses, &text("ledger"), &text("ledger.begun"));
    let ledger = &outside.uses;
    let mut verdict = Verdict::default();
    let mut calls = BTreeSet::new();
    let runs: Vec<&Watched> = driven.iter().flat_map(|it| &it.runs).collect();
    for run in &runs {
        let exported = timeout(ANSWER, export(&mut client, run.session())).await;
        let journal = match exported {
            Ok(Ok(journal)) => Some(journal),
            Ok(Err(status)) if status.code() == Code::NotFound => None,
            Ok(Err(status)) => {
                let session = run.session();
                let finding = format!("{session}: cannot be exported: {status:?}");
                verdict.findings.push(finding);
                continue;
            }
            Err(_) => panic!("{} cannot be exported in time", run.session()),
        };
        let events = journal.as_ref().map(|journal| journal.events.as_slice());
        verdict.judge(run, events, &outside);
        journal
            .iter()
            .for_each(|it| verdict.time(run.session(), it));
        let events = events.unwrap_or_default();
        calls.extend(oracle::effects(run.session(), events).into_keys());
    }
    let listed = timeout(ANSWER, list(&mut client)).await;
    let listed = listed.expect("a list in time").expect("a list");
    let runs: Vec<Watched> = runs.into_iter().cloned().collect();
    let whole = oracle::check_all(&runs, &listed, &calls, ledger);
    verdict.findings.extend(whole);
    let queued = queued(world).await;
    verdict.findings.extend(oracle::check_queues(&queued));
    verdict.findings.extend(world.done.died.iter().cloned());
    verdict.findings.extend(world.lost());
    verdict
}

impl Verdict {
    fn judge(&mut self, run: &Watched, journal: Option<&[Value]>, outside: &Outside) {
        let events = journal.unwrap_or_default();
        for event in events {
            let kind = event["kind"].as_str().unwrap_or_default();
            *self.kinds.entry(kind.to_owned()).or_default() += 1;
        }
        let mut findings = oracle::check(run, journal, &outside.uses);
        findings.extend(words::check(run, events, outside));
        self.overlapping += words::overlapping(run, events, outside);
        if findings.is_empty() {
            return;
        }
        self.findings.extend(findings);
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        let seen = run.seen.iter().map(|(_, event)| event.as_str());
        let seen: Vec<&str> = seen.collect();
        let name = run.session().to_owned();
        self.journals
            .insert(format!("{name}-seen"), seen.join("\n"));
        self.journals.insert(name, lines.join("\n"));
    }

    /// Notes how long the session got no further.
    fn time(&mut self, session: &str, journal: &Exported) {
        let mut in_doubt = 0_usize;
        for ((event, times), seq) in journal.events.iter().zip(journal.at.windows(2)).zip(2..) {
            match event["kind"].as_str() {
                Some("call_in_doubt") => in_doubt += 1,
                Some("call_settled") => in_doubt = in_doubt.saturating_sub(1),
                _ => {}
            }
            let ms = u64::try_from(times[1] - times[0]).unwrap_or(0);
            let longest = &mut self.longest[usize::from(in_doubt > 0)];
            if ms > longest.ms {
                let session = session.to_owned();
                *longest = Pause { ms, session, seq };
            }
        }
    }
}

pub(crate) async fn export(client: &mut Client, session: &str) -> Result<Exported, Status> {
    let session = session.to_owned();
    let request = pb::ExportSessionRequest { session };
    let mut stream = client.export_session(request).await?.into_inner();
    let mut journal = Exported::default();
    while let Some(message) = stream.message().await? {
        let event = message.event.unwrap_or_default();
        journal.events.push(event_json(message.seq, &event));
        journal.at.push(event.at_unix_ms);
    }
    Ok(journal)
}

async fn list(client: &mut Client) -> Result<Vec<String>, Status> {
    let mut sessions = Vec::new();
    let mut page_token = String::new();
    loop {
        let page_size = 1000;
        let request = pb::ListSessionsRequest {
            page_size,
            page_token,
            ..pb::ListSessionsRequest::default()
        };
        let page = client.list_sessions(request).await?.into_inner();
        sessions.extend(page.sessions.into_iter().map(|session| session.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(sessions);
        }
    }
}

/// What is still in a queue when there was time to empty it.
async fn queued(world: &World<'_>) -> Vec<String> {
    let began = Instant::now();
    loop {
        let queued = world.queued();
        if queued.is_empty() || began.elapsed() > EMPTY {
            return queued;
        }
        sleep(LOOK).await;
    }
}
