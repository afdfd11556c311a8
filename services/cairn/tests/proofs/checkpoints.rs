//! Checkpoints of a session that grows: how many bytes are written, how long their commits take, and how
//! soon the session is read again after a kill.
//!
//! The five services run as processes. A client appends messages to a context until the state has its
//! size. Then it replaces them: the journal grows, and the state does not. The store removes most
//! checkpoints, so each one is counted on its way from the orchestrator to the memory service. Both are
//! killed when the state has its size, and in the end, and what clients see is the same afterwards.
//! `deploy/prove checkpoints` has a state of 8 MiB, in a file or on Redis; the suite runs a short form.

mod proxy;
mod stored;

use self::proxy::{Proxy, Written};
use self::stored::Stored;
use super::executor_stream::median;
use crate::support::served::SESSION;
use crate::support::{CAIRN, Client, connect, link, talk};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use cairn_testkit::{Cluster, Site, TestStore};
use clap::Args;
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Messages of the context once it has its size.
const MESSAGES: usize = 64;
/// Leases that last on a busy machine.
const LEASE: (&str, &str) = ("CAIRN_SESSION__LEASE", "10s");
/// The most that all checkpoints may have of the bytes of the journal.
const MOST_RATIO: usize = 2;

/// How large the session is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// State of the session in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=15))]
    pub(crate) mib: u16,
    /// How often each message is replaced
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(2..=60))]
    pub(crate) rounds: u16,
    /// Keep the session on Redis instead of in a file
    #[arg(long)]
    pub(crate) redis: bool,
}

#[test]
fn all_checkpoints_together_have_at_most_twice_the_bytes_of_the_journal() {
    prove(&Options {
        mib: 1,
        rounds: 3,
        redis: false,
    });
}

/// It needs a server of Redis.
mod redis {
    use super::{Options, TestStore, run};

    pub(super) fn prove(options: &Options) {
        run(&TestStore::redis(), options);
    }
}

/// Lets the session grow, prints its checkpoints, and panics if they are too large or a kill changes what
/// clients see.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    match options.redis {
        true => redis::prove(options),
        false => run(&TestStore::file(), options),
    }
}

fn run(store: &TestStore, options: &Options) {
    let site = Site::new(CAIRN);
    let mut variables = store.variables();
    variables.push(LEASE);
    let mut cluster = Cluster::start(&site, &variables);
    let proxy = Proxy::within(&mut cluster);
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let mut world = World {
        cluster,
        proxy,
        runtime: runtime.expect("a runtime"),
        bytes: (usize::from(options.mib) << 20) / MESSAGES,
    };
    world.create();
    world.change(0..MESSAGES);
    world.kill_and_restart();
    world.change(MESSAGES..MESSAGES * (1 + usize::from(options.rounds)));
    world.kill_and_restart();
    let memory = world.cluster.address("memory");
    let stored = world
        .runtime
        .block_on(async { Stored::read(&memory, SESSION).await });
    let checkpoints = world.proxy.checkpoints();
    print(&checkpoints, &world.proxy.other_commits(), &stored);
    check(&checkpoints, &stored, world.bytes * MESSAGES);
}

/// The processes with the way between two of them, in the order in which they end.
struct World<'a> {
    cluster: Cluster<'a>,
    proxy: Proxy,
    runtime: Runtime,
    /// Of one message.
    bytes: usize,
}

impl World<'_> {
    fn create(&self) {
        self.runtime.block_on(async {
            talk::create(&mut connect(&self.cluster.url()), SESSION).await;
        });
    }

    /// Makes these changes of the context.
    fn change(&self, changes: Range<usize>) {
        self.runtime.block_on(async {
            let mut contexts = ContextServiceClient::new(link(&self.cluster.url()));
            for number in changes {
                change(&mut contexts, number, self.bytes).await;
            }
        });
    }

    /// Kills the processes that have the session or its store, and starts them again.
    ///
    /// # Panics
    /// If clients see something else afterwards.
    fn kill_and_restart(&mut self) {
        let url = self.cluster.url();
        let before = self.runtime.block_on(async { Seen::read(&url).await });
        let reads = self.proxy.reads();
        for service in ["orchestrator", "memory"] {
            self.cluster.kill(service);
        }
        let began = Instant::now();
        for service in ["memory", "orchestrator"] {
            self.cluster.start_again(service);
        }
        let serving = began.elapsed();
        let (first, second) = self.runtime.block_on(async {
            let mut client = connect(&url);
            get_session(&mut client).await;
            let first = began.elapsed();
            get_session(&mut client).await;
            (first, began.elapsed() - first)
        });
        assert!(self.proxy.reads() > reads, "the answer needed no fold");
        let after = self.runtime.block_on(async { Seen::read(&url).await });
        // Too large to be printed.
        assert!(before == after, "clients see another session after a kill");
        println!(
            "seq {}: from the restart to the first answer {first:.1?}, of which the processes took \
             {serving:.1?}; the second answer took {second:.1?}",
            after.session.last_seq
        );
    }
}

/// Appends a message to the context, or replaces one if it has all of them.
async fn change(contexts: &mut ContextServiceClient<Link>, number: usize, bytes: usize) {
    let session = SESSION.to_owned();
    let request_id = format!("change-{number}");
    let message = Some(wire::Message::from(Message::user(text(number, bytes))));
    if number < MESSAGES {
        let request = pb::AppendMessageRequest {
            session,
            request_id,
            message,
            ..pb::AppendMessageRequest::default()
        };
        contexts.append_message(request).await.expect("a change");
    } else {
        let request = pb::UpdateMessageRequest {
            session,
            request_id,
            index: u32::try_from(number % MESSAGES).expect("an index"),
            message,
            ..pb::UpdateMessageRequest::default()
        };
        contexts.update_message(request).await.expect("a change");
    }
}

/// No two changes have the same text: the store would keep it once.
fn text(number: usize, bytes: usize) -> String {
    let number = format!("Message {number}: ");
    let rest = "v".repeat(bytes - number.len());
    number + &rest
}

async fn get_session(client: &mut Client) -> pb::Session {
    let request = pb::GetSessionRequest {
        session: SESSION.to_owned(),
    };
    let found = client.get_session(request).await.expect("an answer");
    found.into_inner().session.expect("a session")
}

/// What clients see of the session.
#[derive(PartialEq)]
struct Seen {
    session: pb::Session,
    contexts: Vec<pb::ContextSummary>,
    messages: Vec<(wire::Role, String)>,
}

impl Seen {
    async fn read(url: &str) -> Self {
        let link = link(url);
        let request = pb::ListContextsRequest {
            session: SESSION.to_owned(),
        };
        let mut contexts = ContextServiceClient::new(link.clone());
        let listed = contexts.list_contexts(request).await.expect("contexts");
        let contexts = listed.into_inner().contexts;
        Self {
            session: get_session(&mut Client::new(link.clone())).await,
            contexts,
            messages: talk::messages(&link, SESSION).await,
        }
    }
}

fn kib(bytes: usize) -> f64 {
    bytes as f64 / 1024.0
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn bytes_of(checkpoints: &[Written]) -> usize {
    checkpoints.iter().map(|it| it.bytes).sum()
}

/// Prints each checkpoint, with the bytes of all so far beside those of the journal.
fn print(checkpoints: &[Written], others: &[Duration], stored: &Stored) {
    println!(
        "{:>11} {:>14} {:>12} {:>14} {:>14} {:>7}",
        "through seq", "checkpoint", "its commit", "all so far", "journal", "ratio"
    );
    for (at, written) in checkpoints.iter().enumerate() {
        let (all, journal) = (
            bytes_of(&checkpoints[..=at]),
            stored.journal_through(written.through_seq),
        );
        println!(
            "{:>11} {:>10.1} KiB {:>9.1} ms {:>10.1} KiB {:>10.1} KiB {:>7.3}",
            written.through_seq,
            kib(written.bytes),
            ms(written.took),
            kib(all),
            kib(journal),
            all as f64 / journal as f64
        );
    }
    let others: Vec<f64> = others.iter().copied().map(ms).collect();
    println!(
        "{} commits without a checkpoint: p50 {:.1} ms",
        others.len(),
        median(&others)
    );
    let (all, journal) = (bytes_of(checkpoints), stored.journal());
    println!(
        "{} checkpoints: {:.1} KiB; journal: {:.1} KiB; ratio {:.3}",
        checkpoints.len(),
        kib(all),
        kib(journal),
        all as f64 / journal as f64
    );
    let kept: Vec<_> = stored.kept.iter().map(|(seq, _)| seq).collect();
    println!("kept checkpoints, through seq: {kept:?}");
}

/// Panics if checkpoints have too many bytes, at any time, or the store has others than were written.
fn check(checkpoints: &[Written], stored: &Stored, state: usize) {
    for (at, written) in checkpoints.iter().enumerate() {
        let all = bytes_of(&checkpoints[..=at]);
        let journal = stored.journal_through(written.through_seq);
        assert!(
            all <= MOST_RATIO * journal,
            "through seq {}: checkpoints of {all} bytes, events of {journal}",
            written.through_seq
        );
    }
    let pairs = checkpoints.iter().map(|it| (it.through_seq, it.bytes));
    let pairs: Vec<_> = pairs.collect();
    assert!(pairs.is_sorted_by(|one, next| one.0 < next.0), "{pairs:?}");
    let (kept, newest) = (&stored.kept, pairs.last());
    assert_eq!(kept.first(), newest, "the newest checkpoint is kept");
    assert!(
        kept.iter().all(|it| pairs.contains(it)),
        "kept {kept:?}, written {pairs:?}"
    );
    let newest = newest.expect("a checkpoint").1;
    assert!(newest >= state, "{newest} bytes of a state of {state}");
}
