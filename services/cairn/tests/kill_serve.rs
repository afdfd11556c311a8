//! Kill -9 of `cairn serve` before and after every commit of a run, under a client that watches and
//! asks again.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

mod support;

use cairn::ui::event_json::event_json;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Address, Link};
use cairn_testkit::{Journal, Site};
use support::{Client, chain};
use tonic::Status;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const SIGKILL: i32 = 9;
const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

fn step(tool: &str, arguments: &str) -> wire::PlanStep {
    wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments.to_owned(),
        }),
        ..wire::PlanStep::default()
    }
}

fn run() -> wire::StartRun {
    chain(vec![
        step("list_files", r#"{"path": "docs"}"#),
        step("record", r#"{"what": "one"}"#),
        step(
            "write_file",
            r#"{"path": "cairn-out/note.md", "content": "note"}"#,
        ),
        step("record", r#"{"what": "two"}"#),
    ])
}

/// A client that keeps its request, its session and its cursor over restarts of the server.
struct Watcher {
    session: String,
    events: Vec<(u64, wire::Event)>,
    has_ended: bool,
}

impl Watcher {
    /// Starts the run, or finds it started, and watches until it ends or the server is gone.
    async fn go_on(&mut self, site: &Site, reference: &Journal) -> Result<(), Status> {
        let socket = site.path().join(".cairn/cairn.sock");
        let mut client = Client::new(Link::remote(&Address::unix(socket)));
        let request = pb::StartRunRequest {
            session: String::new(),
            request_id: "r-1".to_owned(),
            run: Some(run()),
        };
        self.session = client.start_run(request).await?.into_inner().session;
        let request = pb::WatchSessionRequest {
            session: self.session.clone(),
            after_seq: self.events.last().map_or(0, |(seq, _)| *seq),
            ..pb::WatchSessionRequest::default()
        };
        let mut stream = client.watch_session(request).await?.into_inner();
        while let Some(message) = stream.message().await? {
            let Some(event) = message.event else {
                continue;
            };
            let kind = event.kind.clone();
            self.events.push((message.seq, event));
            match kind {
                Some(Kind::RunWaiting(_)) => self.settle(site, &mut client, reference).await?,
                Some(Kind::RunCompleted(_)) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Some(Kind::RunFailed(failed)) => panic!("{failed:?}"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Answers what is asked by what the ledger says, with the output that the call gives in a run
    /// that nobody disturbs.
    async fn settle(
        &self,
        site: &Site,
        client: &mut Client,
        reference: &Journal,
    ) -> Result<(), Status> {
        let request = pb::ListPendingRequest {
            session: self.session.clone(),
        };
        for open in client.list_pending(request).await?.into_inner().pending {
            let outcome = if site.ledger().has(&open.call_key) {
                let output = reference.recorded_in(&open.step.into());
                Outcome::Done(Done { output })
            } else {
                Outcome::Retry(Retry {})
            };
            let request = pb::DecideRequest {
                session: self.session.clone(),
                request_id: format!("decide-{}", open.call_key),
                pending_id: open.id,
                settlement: Some(wire::Settlement {
                    outcome: Some(outcome),
                }),
            };
            client.decide(request).await?;
        }
        Ok(())
    }
}

/// The journal of a run that nobody disturbs, and its commits.
async fn undisturbed() -> (Journal, usize) {
    let site = Site::new(CAIRN);
    let count = site.path().join("commits");
    let count = format!("count:{}", count.display());
    let _server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", &count)]);
    let mut watcher = watcher();
    let nothing = Journal(Vec::new());
    let ended = watcher.go_on(&site, &nothing).await;
    ended.expect("a run that nobody disturbs");
    let commits = site.read("commits").expect("commits are counted");
    let journal = site.journal(&watcher.session);
    check_watched(&watcher, &journal, 0, "undisturbed");
    (journal, commits.lines().count())
}

fn watcher() -> Watcher {
    Watcher {
        session: String::new(),
        events: Vec::new(),
        has_ended: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_run_survives_a_kill_at_every_commit() {
    let (reference, commits) = undisturbed().await;
    assert_eq!(commits, 5, "four tool steps");
    let mut doubts = 0;
    for commit in 1..=commits {
        for side in ["before", "after"] {
            doubts += kill_once(&format!("{side}:{commit}"), &reference).await;
        }
        println!("commit {commit}: killed 1 before, 1 after");
    }
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt",
        commits * 2
    );
    assert!(doubts >= 2, "no call was killed on its way");
}

/// Returns how many calls were in doubt.
async fn kill_once(fail: &str, reference: &Journal) -> usize {
    let site = Site::new(CAIRN);
    let mut watcher = watcher();
    let mut server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", fail)]);
    // The server dies under it, or has just served it to the end.
    let _ = watcher.go_on(&site, reference).await;
    assert_eq!(server.wait_for_signal(), Some(SIGKILL), "{fail}");
    let seen = watcher.events.len();

    let _server = site.start(&SERVE, &[]);
    while !watcher.has_ended {
        watcher
            .go_on(&site, reference)
            .await
            .unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    let journal = site.journal(&watcher.session);
    journal.check();
    check_watched(&watcher, &journal, seen, fail);
    journal.check_like(reference);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), 2, "{fail}: {uses:?}");
    assert!(
        uses.values().all(|&times| times == 1),
        "{fail}: a call happened twice: {uses:?}"
    );
    journal.of_kind("call_in_doubt").len()
}

/// What was watched, before the kill and after it, is the journal: no gap, nothing twice, and every
/// event whole.
fn check_watched(watcher: &Watcher, journal: &Journal, seen: usize, fail: &str) {
    let watched = watcher.events.iter();
    let watched: Vec<_> = watched
        .map(|(seq, event)| event_json(*seq, event))
        .collect();
    assert_eq!(watched, journal.0, "{fail}, {seen} before");
}
