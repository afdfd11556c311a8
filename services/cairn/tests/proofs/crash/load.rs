//! Clients that start runs, watch them to their end, and answer what is asked, whatever happens to
//! the servers.

use super::oracle::{End, Started, Watched};
use super::run::{Break, Run};
use crate::support::{Client, connect};
use cairn::ui::event_json::event_json;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::Ledger;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Response, Status, Streaming};

/// A client asks another server when one does not answer for so long.
pub(crate) const ANSWER: Duration = Duration::from_secs(3);
/// A watcher turns to another server when nothing comes for so long.
const SILENCE: Duration = Duration::from_secs(5);
/// Between two attempts that fail.
const BACKOFF: Duration = Duration::from_millis(30);
/// A run that gets no further for so long never will.
const PATIENCE: Duration = Duration::from_secs(90);
/// A stored event that a watcher was not sent for so long never comes: more than the longest
/// freeze, and than followers take to look by themselves.
const OVERDUE: Duration = Duration::from_secs(10);
/// What all clients share.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) orchestrators: Vec<String>,
    pub(crate) ledger: Ledger,
    pub(crate) seed: u64,
    /// Runs are started and watched, and else left to themselves.
    pub(crate) is_plain: bool,
    /// A server may be too old for a session; then another one is asked.
    pub(crate) meets_older: bool,
    /// No run is begun any more.
    pub(crate) is_over: AtomicBool,
}

/// What a client did.
#[derive(Debug, Default)]
pub(crate) struct Driven {
    pub(crate) runs: Vec<Watched>,
    pub(crate) counts: BTreeMap<&'static str, usize>,
}

/// One client, which begins one run after the other.
pub(crate) struct Driver {
    pub(crate) load: Arc<Load>,
    number: usize,
    links: Vec<Client>,
    /// The orchestrator that it talks to.
    at: usize,
    driven: Driven,
}

impl Driver {
    pub(crate) fn new(load: Arc<Load>, number: usize) -> Self {
        let links = load.orchestrators.iter();
        let link = |url: &String| connect(url);
        Self {
            links: links.map(link).collect(),
            at: number,
            load,
            number,
            driven: Driven::default(),
        }
    }

    /// Begins run after run until it is over, and lets the last one end.
    pub(crate) async fn drive(mut self) -> Driven {
        for number in 0.. {
            if self.load.is_over.load(Ordering::Relaxed) {
                break;
            }
            let known = self.pursue(number).await;
            let is_stuck = matches!(known.end, End::Otherwise(_));
            self.driven.runs.push(known);
            if is_stuck {
                // What went wrong is told; more of it does not help.
                break;
            }
        }
        self.driven
    }

    async fn pursue(&mut self, number: usize) -> Watched {
        let mut run = Run::new(&self.load, self.number, number);
        while !run.has_ended {
            if let Err(why) = self.go_on(&mut run).await {
                self.turn(&mut run, why).await;
            }
            let waited = run.advanced.elapsed();
            if waited > PATIENCE && !run.has_ended {
                let last = run.cursor();
                run.give_up(&format!("nothing after event {last} for {waited:.0?}"));
            }
        }
        run.known
    }

    /// Turns to the next server, after what can be done about the break.
    async fn turn(&mut self, run: &mut Run, why: Break) {
        self.at += 1;
        self.count("reconnects");
        match why {
            Break::Usual => sleep(BACKOFF).await,
            Break::Silence => self.count("silent streams left"),
            Break::Quarantine => {}
        }
        if !matches!(why, Break::Usual) && self.is_quarantined(run).await {
            self.count("sessions quarantined and released");
            let session = run.known.session().to_owned();
            let request = release(session);
            let mut client = self.client();
            let released = self.ask(run, client.release_quarantine(request)).await;
            if released.is_err() {
                sleep(BACKOFF).await;
            }
        }
    }

    async fn is_quarantined(&mut self, run: &mut Run) -> bool {
        let session = self.session(run).await;
        session.is_some_and(|it| it.status() == pb::SessionStatus::Quarantined)
    }

    async fn session(&mut self, run: &mut Run) -> Option<pb::Session> {
        let session = run.known.session().to_owned();
        let mut client = self.client();
        let asked = client.get_session(pb::GetSessionRequest { session });
        self.ask(run, asked).await.ok()?.session
    }

    /// The next message of a watch. A silence is right as long as nothing is stored that the watcher
    /// was not sent.
    async fn next(
        &mut self,
        run: &mut Run,
        stream: &mut Streaming<pb::WatchSessionResponse>,
    ) -> Result<Result<Option<pb::WatchSessionResponse>, Status>, Break> {
        if let Ok(message) = timeout(SILENCE, stream.message()).await {
            return Ok(message);
        }
        let cursor = run.cursor();
        match self.session(run).await {
            Some(session) if session.last_seq > cursor => {
                let late = |_| {
                    run.known.overdue.push((cursor, session.last_seq));
                    Break::Silence
                };
                timeout(OVERDUE, stream.message()).await.map_err(late)
            }
            _ => Err(Break::Silence),
        }
    }

    /// Starts the run, or asks again for what was answered, and watches until it ends.
    async fn go_on(&mut self, run: &mut Run) -> Result<(), Break> {
        if run.known.starts.len() < run.repeats {
            self.start(run).await?;
        }
        self.settle(run).await?;
        self.act(run).await?;
        let request = pb::WatchSessionRequest {
            session: run.known.session().to_owned(),
            after_seq: run.cursor(),
            ..pb::WatchSessionRequest::default()
        };
        let mut client = self.client();
        let mut stream = self.ask(run, client.watch_session(request)).await?;
        while !run.has_ended {
            let message = match self.next(run, &mut stream).await? {
                Err(status) => return Err(run.note(&status)),
                Ok(None) => {
                    run.give_up("the watch ended as if the session had been deleted");
                    return Ok(());
                }
                Ok(Some(message)) => message,
            };
            let Some(event) = message.event else {
                continue;
            };
            self.see(run, message.seq, &event);
            if let Some(Kind::RunWaiting(_) | Kind::ApprovalRequested(_)) = event.kind {
                self.settle(run).await?;
            }
            self.act(run).await?;
        }
        Ok(())
    }

    async fn start(&mut self, run: &mut Run) -> Result<(), Break> {
        let request = pb::StartRunRequest {
            session: String::new(),
            request_id: run.known.request.clone(),
            run: Some(run.wanted.request.clone()),
            ..pb::StartRunRequest::default()
        };
        let mut client = self.client();
        let answer = self.ask(run, client.start_run(request)).await?;
        if run.known.starts.is_empty() {
            self.count("starts acknowledged");
            run.advanced = Instant::now();
        } else {
            self.count("starts repeated");
        }
        run.known.starts.push(Started {
            session: answer.session,
            run: answer.run,
            seq: answer.seq,
        });
        Ok(())
    }

    /// Keeps an event as it came.
    fn see(&mut self, run: &mut Run, seq: u64, event: &wire::Event) {
        self.count("events seen");
        run.advanced = Instant::now();
        run.known
            .seen
            .push((seq, event_json(seq, event).to_string()));
        // A run that had ended continues with the plan that it was given since.
        if seq <= run.revised {
            return;
        }
        match &event.kind {
            Some(Kind::RunCompleted(_)) => run.end(End::Completed),
            Some(Kind::RunFailed(failed)) => run.end(End::Failed(format!("{failed:?}"))),
            Some(Kind::RunCancelled(_)) => run.end(End::Cancelled),
            _ => {}
        }
    }

    /// One question to the server, with what an answer means for the run.
    pub(crate) async fn ask<T>(
        &self,
        run: &mut Run,
        question: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Break> {
        match timeout(ANSWER, question).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(run.note(&status)),
            Err(_) => Err(Break::Usual),
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.links[self.at % self.links.len()].clone()
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.driven.counts.entry(what).or_default() += 1;
    }
}

/// Lets a session go on that was quarantined, whatever for: what is made twice then is found.
pub(crate) fn release(session: String) -> pb::ReleaseQuarantineRequest {
    pb::ReleaseQuarantineRequest {
        session,
        accept_loss: true,
    }
}
