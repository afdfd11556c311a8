//! How long sessions stand still when their orchestrator is killed, and when it is stopped, as a
//! client sees it: from the signal to the first event of the next owner.
//!
//! The leases are short here. With those that one has by default:
//!
//! ```text
//! CAIRN_TAKEOVER_LEASE_MS=15000 CAIRN_TAKEOVER_SESSIONS=256 CAIRN_TAKEOVER_ROUNDS=3 \
//!     cargo nextest run -p cairn takeover:: --no-capture
//! ```
//!
//! # Figures
//!
//! With leases of 15 s and 768 sessions, another owner takes over after 15.0 s (p99) when its
//! predecessor was killed with `kill -9`, and after 0.42 s when it was stopped.

use crate::support::{self, CAIRN};
use cairn_boot::Environment;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::cluster::Member;
use cairn_testkit::{Cluster, RedisServer, Site};
use futures::future::join_all;
use std::fmt;
use std::time::{Duration, Instant};
use support::{Client, chain, connect, model_step, start};
use tonic::Streaming;

/// Whoever gets no further for so long never will.
const PATIENCE: Duration = Duration::from_secs(90);
/// A clean stop hands sessions over in less.
const CLEAN: Duration = Duration::from_secs(2);

/// How long and how much.
struct Settings {
    lease: Duration,
    sessions: usize,
    rounds: usize,
}

impl Settings {
    fn of(environment: &Environment) -> Self {
        let number = |name: &str, usual: usize| {
            let given = environment.get(name);
            given.map_or(usual, |given| given.parse().expect("a number"))
        };
        Self {
            lease: Duration::from_millis(number("CAIRN_TAKEOVER_LEASE_MS", 3000) as u64),
            sessions: number("CAIRN_TAKEOVER_SESSIONS", 64),
            rounds: number("CAIRN_TAKEOVER_ROUNDS", 1),
        }
    }
}

/// Times, shortest first.
struct Times(Vec<Duration>);

impl Times {
    /// The time that so many of a hundred do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.saturating_sub(1)]
    }

    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99, max] = [50, 90, 99, 100].map(|percent| self.percentile(percent));
        let count = self.0.len();
        write!(
            f,
            "{count} sessions, p50 {p50:.2?}, p90 {p90:.2?}, p99 {p99:.2?}, max {max:.2?}"
        )
    }
}

/// A session that is watched.
struct Watched {
    session: String,
    events: Streaming<pb::WatchSessionResponse>,
    cursor: u64,
}

impl Watched {
    async fn new(client: &mut Client, session: String, cursor: u64) -> Self {
        let request = pb::WatchSessionRequest {
            session: session.clone(),
            after_seq: cursor,
            ..pb::WatchSessionRequest::default()
        };
        let events = client.watch_session(request).await.expect("a watch");
        Self {
            session,
            events: events.into_inner(),
            cursor,
        }
    }

    /// The next event that is not a change of the conversation, and when it came.
    async fn next(&mut self) -> (Kind, Instant) {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.events.message()).await;
            let message = message.expect("an event in time").expect("no error");
            let message = message.expect("the session is there");
            if let Some(kind) = message.event.and_then(|event| event.kind) {
                self.cursor = message.seq;
                if !matches!(kind, Kind::ContextChanged(_)) {
                    return (kind, Instant::now());
                }
            }
        }
    }

    /// Waits until a step is under way.
    async fn at_work(&mut self) {
        while !matches!(self.next().await.0, Kind::StepStarted(_)) {}
    }

    /// Waits for the first event of the next owner.
    async fn taken_over(&mut self) -> Instant {
        let (kind, at) = self.next().await;
        assert!(matches!(kind, Kind::AttemptContinued(_)), "{kind:?}");
        at
    }
}

fn client(cluster: &Cluster<'_>, orchestrator: usize) -> Client {
    let url = &cluster.addresses("orchestrator")[orchestrator];
    connect(url)
}

fn orchestrator(number: usize) -> Member {
    Member {
        service: "orchestrator",
        number,
    }
}

/// Sessions at work with the first orchestrator, watched through the second.
async fn begin(cluster: &Cluster<'_>, round: usize, count: usize) -> Vec<Watched> {
    let (mut first, mut second) = (client(cluster, 0), client(cluster, 1));
    let mut watched = Vec::new();
    for number in 0..count {
        let request = format!("run-{round}-{number}");
        let run = chain(vec![model_step("wait")]);
        let session = start(&mut first, &request, run).await;
        watched.push(Watched::new(&mut second, session, 0).await);
    }
    join_all(watched.iter_mut().map(Watched::at_work)).await;
    watched
}

/// How long it took from then on until each session was taken over.
async fn measure(watched: &mut [Watched], since: Instant) -> Vec<Duration> {
    let taken = join_all(watched.iter_mut().map(Watched::taken_over)).await;
    taken.into_iter().map(|at| at - since).collect()
}

/// The same sessions, watched through another orchestrator.
async fn watch_through(mut client: Client, watched: Vec<Watched>) -> Vec<Watched> {
    let mut again = Vec::new();
    for it in watched {
        again.push(Watched::new(&mut client, it.session, it.cursor).await);
    }
    again
}

async fn cancel(mut client: Client, watched: Vec<Watched>) {
    for it in watched {
        let request = pb::CancelRunRequest {
            request_id: format!("cancel-{}", it.session),
            session: it.session,
            ..pb::CancelRunRequest::default()
        };
        client.cancel_run(request).await.expect("it ends");
    }
}

/// Each needs a server of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn sessions_of_a_killed_orchestrator_go_on_after_a_lease_and_of_a_stopped_one_at_once() {
        let settings = Settings::of(&Environment::from_process());
        let site = Site::new(CAIRN);
        let toml = site.read("cairn.toml").expect("settings");
        let lease = format!("lease = \"{}ms\"", settings.lease.as_millis());
        site.write("cairn.toml", &toml.replace("lease = \"1s\"", &lease));
        let store = RedisServer::start();
        let url = store.url();
        // A reply that takes longer than everything here keeps a session at work at no cost.
        let variables = [
            ("CAIRN_STORE", url.as_str()),
            ("CAIRN_MODEL__PACE", "60s"),
            ("CAIRN_EXECUTOR__MAX_ATTEMPTS", "2048"),
        ];
        let mut cluster = Cluster::several(&site, &variables, [1, 1, 1, 1, 2]);
        let (mut killed, mut stopped) = (Vec::new(), Vec::new());
        for round in 0..settings.rounds {
            let mut watched = begin(&cluster, round, settings.sessions).await;
            let since = Instant::now();
            cluster.kill_member(orchestrator(0));
            let took = measure(&mut watched, since).await;
            println!("round {round}, killed: {}", Times::of(took.clone()));
            killed.extend(took);

            cluster.begin(orchestrator(0));
            cluster.wait(orchestrator(0));
            let mut watched = watch_through(client(&cluster, 0), watched).await;
            let since = Instant::now();
            cluster.terminate(orchestrator(1));
            let took = measure(&mut watched, since).await;
            println!("round {round}, stopped: {}", Times::of(took.clone()));
            stopped.extend(took);
            let status = cluster.wait_for_end(orchestrator(1));
            assert!(status.success(), "{status}");
            cluster.begin(orchestrator(1));
            cluster.wait(orchestrator(1));
            cancel(client(&cluster, 0), watched).await;
        }
        let (killed, stopped) = (Times::of(killed), Times::of(stopped));
        println!("after kill -9: {killed}\nafter a clean stop: {stopped}");
        let most = settings.lease + settings.lease / 3;
        for (times, most) in [(&killed, most), (&stopped, CLEAN)] {
            let logs = || {
                [0, 1]
                    .map(|it| site.tail(&orchestrator(it).log(), 30))
                    .join("\n==\n")
            };
            let is_soon = times.percentile(99) <= most;
            assert!(is_soon, "more than {most:?}: {times}\n{}", logs());
        }
    }
}
