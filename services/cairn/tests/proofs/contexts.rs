//! Contexts: two clients change the contexts of a session at random, others watch them, and the processes
//! are killed. All that was answered is in the contexts exactly once, in the order of its seq. Every
//! watcher gets every notice, and every read agrees with a model of the description of contexts.
//!
//! `deploy/prove contexts` kills over a file and over Redis; the suite runs a short form over a file.
//!
//! # Figures
//!
//! The long form made 120 kills while clients made 4,362 changes, and 1,356 were refused. Watchers
//! continued 738 times. No change was lost or made twice, and no notice and no read disagreed with the
//! model. With retries under another request id, the proof reports a change that was made twice.

mod client;
mod model;
mod verdict;
mod world;

use self::client::{Client, SESSION, SHARED, Watcher, contexts, create};
use self::model::Line;
use self::verdict::Verdict;
use self::world::World;
use crate::support::connect;
use cairn_proto::event::Role;
use cairn_proto::orchestrator as pb;
use cairn_testkit::TestStore;
use clap::Args;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Clients that change contexts.
const CLIENTS: u64 = 2;
/// Watchers of each context.
const WATCHERS: usize = 2;

/// How long it is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Continue until there were this many kills over each store
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) kills: usize,
    /// At least this many operations of each client over each store
    #[arg(long, value_name = "N", default_value_t = 1500)]
    pub(crate) operations: usize,
    /// What the clients ask for
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

const SHORT: Options = Options {
    kills: 3,
    operations: 60,
    seed: 1,
};

#[test]
fn kills_neither_lose_nor_repeat_a_change_of_a_context() {
    run(&TestStore::file(), &SHORT);
}

/// No test of the suite needs this one.
mod redis {
    use super::{Options, TestStore, run};

    pub(super) fn prove(options: &Options) {
        run(&TestStore::redis(), options);
    }
}

/// Runs over both stores, and panics with what it found.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    run(&TestStore::file(), options);
    redis::prove(options);
}

fn run(store: &TestStore, options: &Options) {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let site = world::site();
    let mut world = World::start(&site, store);
    let address = world.address();
    let born = runtime.block_on(prepare(&address));
    let end = Arc::new(AtomicU64::new(u64::MAX));
    let watchers = (0..WATCHERS).flat_map(|_| SHARED);
    let watchers = watchers.map(|name| {
        let _inside = runtime.enter();
        let watcher = Watcher::new(contexts(&address), name, 0);
        runtime.spawn(watcher.watch(end.clone()))
    });
    let watchers: Vec<_> = watchers.collect();

    let began = Instant::now();
    let clients = drive(&mut world, &runtime, &address, options);
    let disturbed = began.elapsed();
    let mut verdict = Verdict::new(&clients, &immutable());
    end.store(verdict.last_seq.max(born), Ordering::Relaxed);
    let watchers = watchers.into_iter();
    let watchers: Vec<_> = watchers
        .map(|it| runtime.block_on(it).expect("a watcher"))
        .collect();
    for (watcher, name) in watchers.iter().zip(SHARED.into_iter().cycle()) {
        verdict.check_watcher(name, &watcher.seen);
    }
    runtime.block_on(async { verdict.check_reads(&contexts(&address)).await });
    let store = if store.is_file() { "SQLite" } else { "Redis" };
    let short_lived: usize = clients.iter().map(|it| it.short_lived).sum();
    let breaks: usize = watchers.iter().map(|it| it.breaks).sum();
    println!(
        "{store}: {} kills in {disturbed:.1?}, {}, {short_lived} contexts lived and died, {breaks} watches \
         continued",
        options.kills,
        verdict.summary()
    );
    let findings = verdict.findings.join("\n");
    assert!(findings.is_empty(), "what was found:\n{findings}");
}

/// The messages that the contexts beside main begin with.
fn immutable() -> Vec<Line> {
    let line = |role: Role, text: &str| (role.into(), text.to_owned());
    vec![
        line(Role::User, "the first"),
        line(Role::Assistant, "the second"),
    ]
}

/// The session with its contexts; returns the seq of the last one.
async fn prepare(address: &str) -> u64 {
    let request = pb::CreateSessionRequest {
        session: SESSION.to_owned(),
        request_id: "create".to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    let created = connect(address).create_session(request).await;
    created.expect("a session");
    let mut born = 0;
    for name in &SHARED[1..] {
        let request_id = format!("create-{name}");
        born = create(&contexts(address), name, &immutable(), request_id).await;
    }
    born
}

/// Lets the clients work and kills, until there was enough of both.
fn drive(
    world: &mut World<'_>,
    runtime: &Runtime,
    address: &str,
    options: &Options,
) -> Vec<Client> {
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|number| {
        let _inside = runtime.enter();
        let mut client = Client::new(address, number, options.seed);
        let (is_over, operations) = (is_over.clone(), options.operations);
        runtime.spawn(async move {
            let mut done = 0;
            while done < operations || !is_over.load(Ordering::Relaxed) {
                client.act().await;
                done += 1;
            }
            client
        })
    });
    let clients: Vec<_> = clients.collect();
    for kill in 0..options.kills {
        // Moments that no rhythm of the clients meets again and again.
        let moment = (options.seed as usize + kill) * 37 % 101;
        std::thread::sleep(Duration::from_millis(150 + 5 * moment as u64));
        world.kill(kill);
    }
    is_over.store(true, Ordering::Relaxed);
    let clients = clients.into_iter();
    clients
        .map(|it| runtime.block_on(it).expect("a client"))
        .collect()
}
